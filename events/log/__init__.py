"""The log: its port, and the adapters in memory, in a folder and in archives."""
