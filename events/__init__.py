"""The vocabulary of Paceline and its log: records, codec, topics, the log port and its adapters, how to read it."""
