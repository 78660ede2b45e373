"""Decides the rounds of a running cell beside it, by another build or with other pools (docs/shadow.md)."""
