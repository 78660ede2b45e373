"""Generators of code and documentation: run from the checkout, never installed."""
