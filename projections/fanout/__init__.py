"""The fan-out: each decision again as an Avro message of its own type, for readers outside (decision 014)."""
