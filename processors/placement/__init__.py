"""Placement: hosts, liveness, constraints, scoring and packing. Pure."""
