"""The simulated world: the cell in virtual time, its hosts, and what users and operators do to it."""
