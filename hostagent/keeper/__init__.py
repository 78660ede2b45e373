"""Keeps the runs of a host: a holder that forks keepers, each the parent of many runs, independent of their agent.

Nothing here imports more than the standard library and `hostagent.groups`, `kernel`, `kept_output`, `mounts`,
`port_locks` and `private_files`: keepers start in some milliseconds, go on whatever becomes of agent and installation,
and import nothing once they are forked, for a file may be one of a later release by then.
"""
