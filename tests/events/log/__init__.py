"""The contracts that every adapter must keep: the log port and the store."""
