"""Walks over the text fields of a record by the table of rules."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec
from msgspec.structs import replace

from events.records.base import Event, NestedRecord
from paceline.history.anonymise.fields import FIELDS
from paceline.history.anonymise.kinds import JOB, Kind, new_names
from paceline.history.anonymise.rules import Derived, FieldRule, Names, Pairs, Rule, Whole

R = TypeVar("R", bound=msgspec.Struct)
_Apply = Callable[[FieldRule, Any, Any], Any]


class Noted:
    """Notes the names of a log; records stay as they are. Implements `Names`."""

    def __init__(self) -> None:
        self.hashes: Mapping[bytes, bytes] = {}
        self.texts: dict[Kind, set[str]] = {}
        self.values: dict[str, set[str]] = {}

    def of(self, kind: Kind, text: str) -> str:
        """Implements `Names.of`."""
        self.texts.setdefault(kind, set()).add(text)
        return text

    def note_value(self, attribute: str, value: str) -> None:
        """Implements `Names.note_value`."""
        self.values.setdefault(attribute, set()).add(value)

    def matches(self, attribute: str, met: Callable[[str], bool]) -> tuple[str, ...]:
        """Implements `Names.matches`: none are known yet."""
        return ()

    def record(self, event: Event) -> Event:
        """Implements `Names.record`."""
        return rewritten(event, self)


class Renamed:
    """Has a new name for each text that was noted; `of_jobs` changes those of jobs once more. Implements `Names`."""

    def __init__(self, noted: Noted, of_jobs: Callable[[Mapping[str, str]], dict[str, str]] = dict) -> None:
        self.hashes: dict[bytes, bytes] = {}
        self._new = {kind: new_names(kind, texts) for kind, texts in noted.texts.items()}
        self._new[JOB] = of_jobs(self.all_of(JOB))
        self._values = {name: sorted(values) for name, values in noted.values.items()}

    def of(self, kind: Kind, text: str) -> str:
        """Implements `Names.of`."""
        return text if not text or text in kind.fixed else self._new[kind][text]

    def all_of(self, kind: Kind) -> Mapping[str, str]:
        """The new names of a kind by the old ones."""
        return self._new.get(kind, {})

    def note_value(self, attribute: str, value: str) -> None:
        """Implements `Names.note_value`: it was noted."""

    def matches(self, attribute: str, met: Callable[[str], bool]) -> tuple[str, ...]:
        """Implements `Names.matches`."""
        return tuple(filter(met, self._values.get(attribute, ())))

    def record(self, event: Event) -> Event:
        """Implements `Names.record`."""
        return rewritten(event, self)


def rewritten(record: R, names: Names) -> R:
    """A record with all texts rewritten by the table."""
    return _walked(record, lambda rule, value, owner: _by_rule(names, rule, value, owner))


def without_derived(record: R) -> R:
    """A record without what a machine makes of names, such as its sentences; of counts by name the numbers stay."""
    return _walked(record, lambda rule, value, _: _numbers(value) if isinstance(rule, Derived) else value)


def _numbers(value: Any) -> Any:
    return sorted(value.values()) if isinstance(value, dict) else None


def _by_rule(names: Names, rule: FieldRule, value: Any, owner: Any) -> Any:
    if value is None:
        return None
    if isinstance(rule, Whole | Derived):
        return rule.rewrite(names, value, owner)
    if isinstance(rule, Pairs):
        of_value: Rule | None = rule.values
        return {
            rule.keys(names, key, owner): each if of_value is None else of_value(names, each, owner)
            for key, each in value.items()
        }
    return rule(names, value, owner) if isinstance(value, str) else tuple(rule(names, each, owner) for each in value)


def _walked(record: R, apply: _Apply) -> R:
    changes = {}
    for name, rule in _steps(type(record)):
        value = getattr(record, name)
        new = apply(rule, value, record) if rule is not None else _nested(value, apply)
        if new is not value:
            changes[name] = new
    return replace(record, **changes) if changes else record


def _nested(value: Any, apply: _Apply) -> Any:
    if isinstance(value, NestedRecord):
        return _walked(value, apply)
    return tuple(_walked(each, apply) for each in value) if value else value


@cache
def _steps(kind: type[msgspec.Struct]) -> tuple[tuple[str, FieldRule | None], ...]:
    """The fields of a kind of records that have texts, with their rules, and those with records inside; None."""
    rules, types = FIELDS.get(kind.__name__, {}), get_type_hints(kind)
    fields = ((name, rules.get(name)) for name in kind.__struct_fields__)
    return tuple((name, rule) for name, rule in fields if rule is not None or _has_records(types[name]))


def _has_records(type_: Any) -> bool:
    inner = get_args(type_)
    return any(map(_has_records, inner)) if inner else isinstance(type_, type) and issubclass(type_, NestedRecord)
