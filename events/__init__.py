"""The vocabulary of Paceline and its log: records, codec, topics, the log port and its adapters, how to read it."""

VERSION = "0.4.0"
"""The version of all parts of Paceline; the key of a record names the version that wrote it."""
