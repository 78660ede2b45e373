"""The placement engine: each task on its best host by an exact integer key, without a look at every host. Pure."""
