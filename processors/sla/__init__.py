"""Availability: how many instances of a job are there, and who may be disturbed."""
