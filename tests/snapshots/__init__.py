"""Snapshots of stores and the archive of the log."""
