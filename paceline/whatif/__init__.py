"""Branches of history with something changed, beside those without and beside history itself (decisions 120, 121)."""
