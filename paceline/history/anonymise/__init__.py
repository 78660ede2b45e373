"""Replaces every text that a user or an operator wrote by names of the same order (decision 123)."""
