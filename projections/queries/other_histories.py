"""The histories of pools and of hosts, entry by entry: who did what, why, and what that changed."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection

from events.codec import decode
from events.codes import IN_EFFECT
from events.quantities import write_amount, write_ms_or_never
from events.records.base import Event
from events.records.hosts import HostOffered
from events.records.placement import HostAnswered, HostsAnswered
from events.resources import Kinds, Unit, in_order
from events.topics import HOSTS, RANK
from paceline.client.json_type import Json
from paceline.client.models import HistoryEntry
from projections.access.limits import Names, limits
from projections.actor_names import actor_json, from_kept
from projections.queries.job_entries import ByActors, entry_json, newest_first, oldest_first
from projections.queries.pages import Page, first_of
from projections.queries.resources import kinds_of
from projections.queries.sentences import amounts
from projections.queries.story import line_of
from projections.queries.story_parts import text_of
from projections.record_json import brief
from projections.views.job_records import JobEntry
from projections.views.rows import to_json

_PLAIN: Mapping[str, Callable[[Any], Any]] = {
    "attributes": dict,
    "taints": dict,
    "sizes": lambda sizes: sorted({*sizes}),
    "port_first": int,
    "port_last": int,
}
"""The parts of an offer beside amounts, in the form in which two offers are compared."""
_ASKED = {
    "HostLossConfirmed": "confirmation of the loss",
    "HostRemovalRequested": "removal",
    "HostClearRequested": "clearing of suspicion",
    "HostTaintRequested": "taint",
    "HostDeviceRequested": "device",
    "HostPoolAssigned": "host pool",
    "HostsDrainRequested": "drain",
    "HostsCordonRequested": "cordon",
    "HostsResumeRequested": "resumption",
    "MaintenanceWindowSet": "window",
}
"""An operator asks for these by a fact."""


def history_page(
    connection: Connection,
    name: str,
    size: int,
    after: Sequence[int] | None,
    newest: bool = False,
    actors: Collection[str] = (),
) -> Page[HistoryEntry]:
    """A page of the history with a name (`views.other_histories`), the oldest or the newest first; of some actors, it
    may have fewer entries although there are more.
    """
    entries = ByActors((newest_first if newest else oldest_first)(connection, name, after), actors)
    page = first_of(entries, size, lambda entry: len(to_json(entry.said)) if isinstance(entry.said, dict) else 512)
    kinds = kinds_of(connection)
    items = [_entry(connection, name, entry, kinds) for entry in page.rows]
    last = page.rows[-1][:5] if page.more else entries.cut_at
    return Page(items, list(last) if last else None)


def _entry(connection: Connection, name: str, entry: JobEntry, kinds: Kinds) -> HistoryEntry:
    if isinstance(entry.said, bytes):
        event = _as_seen(connection, decode(entry.said))
        said_by = getattr(event, "actor", None)
        detail, actor = brief(event), actor_json(said_by)
        detail = {field: value for field, value in detail.items() if field not in ("actor", "host_id", "host_ids")}
        unsigned = msgspec.structs.replace(event, actor=None) if said_by else event
        text = _of_host(connection, name, entry, unsigned, kinds)
    else:
        detail = dict(entry.said or {})
        actor = actor_json(from_kept(detail.pop("actor", None)))
        text = _of_pool(detail, kinds)
    return entry_json(entry, actor, text, detail)


def _as_seen(connection: Connection, event: Any) -> Any:
    """A record of hosts with the hosts and the job that who asks may see."""
    if (of := limits()) is None:
        return event
    names, seen = Names(connection, of), dict[str, Any]()
    if others := getattr(event, "host_ids", ()):
        seen["host_ids"] = tuple(filter(names.has_host, others))
    if job_id := getattr(event, "job_id", ""):
        seen["job_id"] = names.job(job_id)
    return msgspec.structs.replace(event, **seen) if seen else event


def _of_pool(detail: Json, kinds: Kinds) -> str:
    """A sentence about the answer to a fact about a pool."""
    reason = f": {detail['reason']}" if detail["reason"] else ""
    of = {"PoolDefined": "change", "PoolRemoved": "removal", "CellConfigured": "settings of the cell"}[detail["fact"]]
    if detail["code"] not in IN_EFFECT:
        return f"{of} of {detail['pool']} refused, {detail['code']}: {detail['message']}{reason}"
    if detail["fact"] == "PoolRemoved":
        return f"{detail['pool']} removed{reason}"
    changed = ", ".join(_change(name, values, kinds) for name, values in detail["changes"].items())
    what = of if detail["fact"] == "CellConfigured" else detail["pool"]
    done = "created" if detail.get("created") else "changed" if changed else "defined as it was"
    return f"{what} {done}{': ' if changed else ''}{changed}{reason}"


def _change(name: str, values: Any, kinds: Kinds) -> str:
    """The difference of a field of a pool, or of a part of one such as `limit/cpu`; of a setting its name alone."""
    field, _, part = name.partition("/")
    what = f"{part} {field}" if part else field.removesuffix("_ms")
    if values is None:
        return what
    before, now = (_written(field, part, value, kinds) for value in values)
    return f"{what} {before} to {now}"


def _written(field: str, part: str, value: Any, kinds: Kinds) -> str:
    """A value of a field as users write it."""
    if value is None or value in ("", []):
        return "none"
    if field in ("reservation", "limit"):
        return str(write_amount(value, kinds.units.get(part, Unit.MILLI)))
    if field.endswith("_ms"):
        return write_ms_or_never(value)
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _asked(fact: JobEntry) -> str:
    """The request of an operator that a fact about a host is."""
    if isinstance(fact.said, bytes) and getattr(decode(fact.said), "cordon_only", False):
        return "end of the cordon"
    return _ASKED.get(fact.event, "command")


def _of_host(connection: Connection, name: str, entry: JobEntry, event: Event, kinds: Kinds) -> str:
    """A sentence about a record; of an offer what differs from the one before, of an answer what was asked."""
    if isinstance(event, HostAnswered | HostsAnswered):
        facts = (each for each in newest_first(connection, name, entry[:5]) if each.topic == RANK[HOSTS.name])
        fact = next((each for each in facts if each.offset == event.hosts_offset), None)
        return (
            f"{_asked(fact) if fact else 'command'} refused, {event.code}{': ' if event.message else ''}{event.message}"
        )
    if not isinstance(event, HostOffered):
        return text_of(line_of(event, kinds)).partition(" ")[2]
    earlier = (each for each in newest_first(connection, name, entry[:5]) if each.event == entry.event)
    before: Any = next((decode(each.said) for each in earlier if isinstance(each.said, bytes)), None)
    if before is None:
        return f"offers {amounts(event.capacity, kinds)}"
    pairs = ((part, plain(getattr(before, part)), plain(getattr(event, part))) for part, plain in _PLAIN.items())
    changed = [_differing(*pair) for pair in pairs]
    if before.capacity != event.capacity:
        changed.insert(0, _amounts_differing(before.capacity, event.capacity, kinds))
    return f"changed its offer: {'; '.join(filter(None, changed))}" if any(changed) else "offers what it did before"


def _amounts_differing(before: Mapping[str, int], now: Mapping[str, int], kinds: Kinds) -> str:
    names = [name for name in in_order({**before, **now}) if before.get(name, 0) != now.get(name, 0)]
    units = {name: kinds.units.get(name, Unit.MILLI) for name in names}
    return ", ".join(
        f"{name} {write_amount(before.get(name, 0), unit)} to {write_amount(now.get(name, 0), unit)}"
        for name, unit in units.items()
    )


def _differing(name: str, before: Any, now: Any) -> str:
    """The difference of a part of two offers; empty: it doesn't."""
    if before == now:
        return ""
    if not isinstance(now, dict):
        return f"{name} from {before} to {now}"
    names = [key for key in {**before, **now} if before.get(key) != now.get(key)]
    return f"{name} " + ", ".join(f"{key} {before.get(key, 'none')} to {now.get(key, 'none')}" for key in names)
