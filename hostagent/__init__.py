"""Runs tasks on a host and reports; never decides. The agent, its keepers, the gateway, and the simulated fleet."""
