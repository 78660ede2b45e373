"""JSON of no fixed form."""

from typing import Any

Json = dict[str, Any]
"""A JSON object whose fields are defined elsewhere: a specification, a record, the numbers of a decision. An answer of
the API has a type of its own, see `models.py`.
"""
