"""Preemption: rights of units without a place, and the confirmation of what they ask."""
