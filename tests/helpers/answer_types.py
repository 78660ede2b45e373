"""Answers of the API against the types that its description publishes."""

import re
from typing import Any
from urllib.parse import unquote

import msgspec

from projections.api.answers import ANSWERS, Answer

_REST = ("subject", "path")
"""Parameters that take the rest of a path."""
_PATTERNS = [
    (re.compile(re.sub(r"\{(\w+)\}", lambda name: ".*" if name[1] in _REST else "[^/]+", path)), answer)
    for path, answer in ANSWERS.items()
]


def answer_of(path: str) -> Answer | None:
    """The answer that is published for the path of a request; None: there is none."""
    plain = unquote(path.partition("?")[0])
    return ANSWERS.get(plain) or next((answer for pattern, answer in _PATTERNS if pattern.fullmatch(plain)), None)


def must_conform(path: str, body: Any) -> None:
    """Fails where a body has a field that its type doesn't have, lacks one, or has another type of value."""
    answer = answer_of(path)
    if answer is None:
        return
    values = body
    if answer.field:
        assert body.keys() == {answer.field} | ({"next_page_token"} if answer.paged else set())
        values = body[answer.field]
    kind = list[answer.type] if answer.field else answer.type  # type: ignore[name-defined]
    assert msgspec.to_builtins(msgspec.convert(values, kind)) == values, "a field that its type doesn't have"
