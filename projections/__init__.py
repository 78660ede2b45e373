"""Queryable views of a cell, folded from the log: rows in SQLite, and the HTTP API over them."""
