"""Versions of a job, and the updates that take its instances from one to the next (decision 037)."""
