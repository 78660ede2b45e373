"""Answers of the API against the types that its description publishes."""

import re
from typing import Any
from urllib.parse import unquote

import msgspec

from projections.api.answers import ANSWERS, WRITES, of_write

_REST = ("subject", "path")
"""Parameters that take the rest of a path."""


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{(\w+)\}", lambda name: ".*" if name[1] in _REST else "[^/]+", path))


_READS = [(_pattern(path), kind) for path, kind in ANSWERS.items()]
_WRITES = [_pattern(each) for each in WRITES]


def type_of(path: str) -> Any:
    """The type that is published for the path of a GET; None: there is none."""
    plain = unquote(path.partition("?")[0])
    return ANSWERS.get(plain) or next((kind for pattern, kind in _READS if pattern.fullmatch(plain)), None)


def must_conform(method: str, path: str, status: str, answer: Any) -> None:
    """Fails where an answer has a field that its type doesn't have, lacks one, or has another type of value."""
    if method == "GET":
        kind = type_of(path)
        if kind is not None:
            assert msgspec.to_builtins(msgspec.convert(answer, kind)) == answer, "a field that its type doesn't have"
        return
    place = f"{method} {unquote(path.partition('?')[0])}"
    known = next((name for name, pattern in zip(WRITES, _WRITES, strict=True) if pattern.fullmatch(place)), place)
    kinds = of_write(*known.split(" ", 1)).get(status, ())
    assert any(_is(kind, answer) for kind in kinds), f"{place} {status}: {answer}"


def _is(kind: Any, answer: Any) -> bool:
    try:
        return bool(msgspec.to_builtins(msgspec.convert(answer, kind)) == answer)
    except msgspec.ValidationError:
        return False
