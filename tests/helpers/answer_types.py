"""Answers of the API against the types that its description publishes."""

import re
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import unquote

import msgspec

from projections.api.answers import ANSWERS, WRITES, of_write
from projections.api.parameters import EVERYWHERE
from tools.openapi import kept

_REST = ("subject", "path")
"""Parameters that take the rest of a path."""


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{(\w+)\}", lambda name: ".*" if name[1] in _REST else "[^/]+", path))


_DESCRIPTION = kept()
_PATHS = {path: _pattern(path) for path in _DESCRIPTION["paths"]}
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


def unknown_parameters(method: str, path: str, names: Iterable[str]) -> set[str]:
    """The parameters of a request that its route doesn't have; none where the route isn't described."""
    described = [name for name, pattern in _PATHS.items() if pattern.fullmatch(path)]
    operation = _DESCRIPTION["paths"][_nearest(path, described)].get(method.lower()) if described else None
    known = {each["name"] for each in operation.get("parameters", ())} if operation else set(names)
    return set(names) - known - EVERYWHERE


def _nearest(path: str, described: Sequence[str]) -> str:
    return path if path in described else max(described, key=lambda each: each.count("/"))


def must_be_declared(method: str, path: str, answer: Any) -> None:
    """Fails where a status of an answer, or what it is of, isn't in the description of its route."""
    plain = unquote(path.partition("?")[0])
    names = [name for name, pattern in _PATHS.items() if pattern.fullmatch(plain)]
    if not names or method == "HEAD":
        return
    responses = _DESCRIPTION["paths"][_nearest(plain, names)].get(method.lower(), {}).get("responses")
    if responses is None:
        return
    status = str(answer.status_code)
    assert status in responses, f"{method} {path}: {status} is not declared: {answer.text[:300]}"
    if "$ref" not in responses[status]:
        kinds = responses[status].get("content", {})
        kind = answer.headers.get("content-type", "").partition(";")[0]
        assert kind in kinds or not (kind or kinds), (
            f"{method} {path}: {status} is declared as {list(kinds)}, is {kind}"
        )
