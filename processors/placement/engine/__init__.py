"""The placement engine: each task on its best host, by an exact integer key (decision 079). Pure."""
