"""Plans of jobs, and that the cell then does what they say."""
