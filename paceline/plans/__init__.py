"""Plans of facts that nobody has written: the machines themselves decide them, on a copy of their state."""
