"""The vocabulary of Paceline and its log: records, codec, topics, the log port and its adapters, how to read it."""

VERSION = "0.4.0"
"""Of all parts of Paceline; what a record was written by stands in its key."""
