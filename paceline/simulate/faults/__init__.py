"""Faults: trials under them, the smallest scenario that still fails, and soaks of many trials."""
