"""Records of all kinds with a text of its own, a canary, wherever a text can stand."""

from itertools import count
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from events.codec import encode
from events.override_chunks import upload
from events.records import BY_NAME
from events.records.base import Event, NestedRecord
from events.records.jobs import JobSubmitted

CANARY = "kanari"
HASHES = ("inputs_hash", "start_hash", "prev_hash", "decisions")
"""Bytes of a round, which say nothing and are made anew."""


class Canaries:
    """Makes records, and knows every canary in them by where it stands."""

    def __init__(self) -> None:
        self.places: dict[str, str] = {}
        self._numbers = count()

    def record(self, kind: type[Any]) -> Any:
        """A record of a kind, full of canaries."""
        types = get_type_hints(kind)
        fields = {name: self._field(kind, name, types[name]) for name in kind.__struct_fields__}
        return kind(**fields)

    def text(self, place: str) -> str:
        """The next canary: letters alone, so that it is a valid name of most kinds."""
        number, letters = next(self._numbers), ""
        for _ in range(4):
            number, letter = divmod(number, 26)
            letters += chr(ord("a") + letter)
        canary = f"{CANARY}{letters}"
        self.places[canary] = place
        return canary

    def _field(self, kind: type[Any], name: str, type_: Any) -> Any:
        place = f"{kind.__name__}.{name}"
        if name == "spec":
            return encode(self.record(JobSubmitted))
        if name == "content":
            return upload(self.record(JobSubmitted)).content
        if name in getattr(kind, "columns", {}) or name in HASHES:
            return () if name == "decisions" else b""
        return self._value(place, type_)

    def _value(self, place: str, type_: Any) -> Any:
        origin, args = get_origin(type_), get_args(type_)
        if origin in (Union, UnionType):
            return self._value(place, next(each for each in args if each is not type(None)))
        if origin is tuple:
            return (self._value(place, args[0]),)
        if origin is dict:
            return {self._value(f"{place} key", args[0]): self._value(place, args[1])}
        if type_ is str:
            path = place.endswith((".pool", ".pools", ".path")) and not place.startswith("HealthCheck")
            return f"/{self.text(place)}" if path else self.text(place)
        if type_ is bytes:
            return self.text(place).encode()
        if isinstance(type_, type) and issubclass(type_, NestedRecord):
            return self.record(type_)
        return {int: 1, bool: False, float: 0.0}[type_]


def kinds() -> list[type[Event]]:
    """All kinds of records."""
    return [each for each in BY_NAME.values() if issubclass(each, msgspec.Struct)]
