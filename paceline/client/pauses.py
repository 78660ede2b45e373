"""How long who waits for a job pauses between two looks, in seconds."""

FIRST_ASK_S, SLOWEST_ASK_S = 0.1, 1.0
"""At first, and at most."""
