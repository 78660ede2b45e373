"""Pauses between two looks at a job that is waited for, in seconds."""

FIRST_ASK_S, SLOWEST_ASK_S = 0.1, 1.0
"""At first, and at most."""
