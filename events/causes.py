"""Reads what led to a decision, where it carries that: positions of facts, decisions and deadlines, in the fields that
its schema names (decision 031).
"""

from events.records.base import Event
from events.records.parts import Cause

NOTHING = Cause()
"""Stands in a list for one that isn't known."""


def carried_causes(event: Event, row: int | None = None) -> tuple[Cause, ...]:
    """The positions of what led to a decision, or to what one row of its columns is about; none where it carries none:
    it is tied to its cause by the runs that it names. A fact has none.
    """
    fields = event.cause_fields.items()
    return tuple(cause for name, key in fields for cause in _read(event, name, key, row) if cause != NOTHING)


def _read(event: Event, name: str, key: str, row: int | None) -> tuple[Cause, ...]:
    """The causes in a field: of a list those that the column `key` chooses, of an offset that in the topic `key`."""
    value: Cause | tuple[Cause, ...] | int | None = getattr(event, name)
    if value is None or isinstance(value, Cause):
        return (value,) if value else ()
    if isinstance(value, int):
        return (Cause(topic=key, offset=value),)
    if not key:
        return value
    which = getattr(event, f"{key}_array")
    rows = {*which.tolist()} if row is None else {int(which[row])}
    return tuple(value[at] for at in sorted(rows) if 0 <= at < len(value))
