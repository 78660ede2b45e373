"""Answers of the API against the types that its description publishes."""

import re
from typing import Any
from urllib.parse import unquote

import msgspec

from projections.api.answers import ANSWERS, WRITES, Body, of_write

_REST = ("subject", "path")
"""Parameters that take the rest of a path."""


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{(\w+)\}", lambda name: ".*" if name[1] in _REST else "[^/]+", path))


_READS = [(_pattern(path), body) for path, body in ANSWERS.items()]
_WRITES = [_pattern(each) for each in WRITES]


def body_of(path: str) -> Body | None:
    """The body that is published for the path of a GET; None: there is none."""
    plain = unquote(path.partition("?")[0])
    return ANSWERS.get(plain) or next((body for pattern, body in _READS if pattern.fullmatch(plain)), None)


def must_conform(method: str, path: str, status: str, answer: Any) -> None:
    """Fails where an answer has a field that its type doesn't have, lacks one, or has another type of value."""
    if method == "GET":
        body = body_of(path)
        if body is not None:
            _must_be(body, answer)
        return
    place = f"{method} {unquote(path.partition('?')[0])}"
    known = next((name for name, pattern in zip(WRITES, _WRITES, strict=True) if pattern.fullmatch(place)), place)
    kinds = of_write(*known.split(" ", 1)).get(status, ())
    assert any(_is(kind, answer) for kind in kinds), f"{place} {status}: {answer}"


def _must_be(body: Body, answer: Any) -> None:
    if body.field:
        assert answer.keys() == {body.field} | ({"next_page_token"} if body.paged else set())
        answer = answer[body.field]
    kind = list[body.type] if body.field else body.type  # type: ignore[name-defined]
    assert msgspec.to_builtins(msgspec.convert(answer, kind)) == answer, "a field that its type doesn't have"


def _is(kind: Any, answer: Any) -> bool:
    try:
        return bool(msgspec.to_builtins(msgspec.convert(answer, kind)) == answer)
    except msgspec.ValidationError:
        return False
