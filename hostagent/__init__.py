"""Runs tasks on a host and reports; never decides. The agent, its shim, the gateway, and the simulated fleet."""
