"""The base of all machines: their contract, tables and state hash, rounds, the one driver loop, the store, replay."""
