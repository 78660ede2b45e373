"""Documents of a text in JSON: the items of a list, or the objects that follow each other (JSON lines).

They are read in C; where their parts stand is looked up only for those that something is wrong with.
"""

import json
import re
from collections.abc import Generator, Iterator
from functools import partial
from typing import Any

from events.yaml_documents import DEPTH_MAX, Document, parse

_BLANK = re.compile(r"[ \t\n\r]*")
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(name: str, text: str) -> list[Document] | None:
    """The documents; None: `parse` has to read it, which takes what is no JSON, or tells what is wrong."""
    if not text.lstrip().startswith(("{", "[")) or _HALF.search(text):
        return None
    try:
        return list(_documents(name, text))
    except (ValueError, RecursionError):
        return None


def _documents(name: str, text: str) -> Iterator[Document]:
    """Raises `ValueError` and `RecursionError` for what isn't read here."""
    for begin, end, value in _items(text, json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_number)):
        part = text[begin:end]
        if part.count("{") + part.count("[") > DEPTH_MAX and _depth(value) > DEPTH_MAX:
            raise ValueError("is nested too deep")
        yield Document(name, value, partial(_marks, text, begin, end))


def _items(text: str, decoder: json.JSONDecoder) -> Iterator[tuple[int, int, Any]]:
    """The values of a list, or those that follow each other, and where each begins and ends."""
    at = _skip(text, 0)
    if text[at] == "{":
        while text.startswith("{", at):
            value, end = decoder.raw_decode(text, at)
            yield at, end, value
            at = _skip(text, end)
        at -= 1
    else:
        at = yield from _listed(text, at, decoder)
    if _skip(text, at + 1) != len(text):
        raise ValueError("something comes after it")


def _listed(text: str, at: int, decoder: json.JSONDecoder) -> Generator[tuple[int, int, Any], None, int]:
    """The items of a list that begins at a place; returns where it ends."""
    at = _skip(text, at + 1)
    while not text.startswith("]", at):
        value, end = decoder.raw_decode(text, at)
        yield at, end, value
        at = _skip(text, end)
        if text.startswith(",", at):
            at = _skip(text, at + 1)
        elif not text.startswith("]", at):
            raise ValueError("no list")
    return at


def _skip(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    return blank.end() if blank else at


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("duplicate key")
    return fields


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number")


def _depth(value: Any) -> int:
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if below is None else 1 + max(map(_depth, below), default=0)


def _marks(text: str, begin: int, end: int) -> dict[str, tuple[int, int]]:
    """Where the parts of a value stand in a text."""
    lines, column = text.count("\n", 0, begin), begin - (text.rfind("\n", 0, begin) + 1)
    first = {"": (lines + 1, column + 1)}
    for document in parse("", text[begin:end], lambda fault: None):
        marks = document.marks.items()
        return {place: (lines + line, at + column * (line == 1)) for place, (line, at) in marks}
    return first
