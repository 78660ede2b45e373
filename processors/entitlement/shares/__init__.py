"""Entitlements: exact weighted max-min over the pool tree, kept up along paths."""
