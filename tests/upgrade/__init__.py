"""The step from one release to the next, on what the older one has left."""
