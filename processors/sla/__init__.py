"""The sla machine: how many instances of a job are available, and which may be disrupted."""
