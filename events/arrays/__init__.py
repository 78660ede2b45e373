"""Arrays over slots and numbers: which are free, and which belong to a host."""
