"""Secrets: their store, which gateways alone read, and how their values come to hosts."""
