"""A scenario: its file, its parts, what is expected of it, and scenarios drawn at random."""
