"""By what runs leave their host: the drain or the taint that led to it, by whom and why, as the history of the host
has it.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import msgspec
import numpy as np
from sqlalchemy import Connection, select

from events.codec import decode
from events.codes import RunCause
from events.records.placement import HostMaintenanceChanged, HostTainted
from events.taints import text_of
from events.topics import HOSTS, RANK
from paceline.client.json_type import Json
from projections.actor_names import named
from projections.queries.job_entries import newest_first
from projections.queries.log_places import Place, read_place
from projections.queries.tasks import TASK_PLACES, columns_of
from projections.views import tables
from projections.views.job_history import detail_of
from projections.views.job_records import JobEntry
from projections.views.marks import DRAINS
from projections.views.other_histories import of_host
from projections.views.rows import JobRow

LOOKED_AT_MAX = 200
"""Entries of one history."""
_LEAVES = {RunCause.DRAIN.name, RunCause.EVICT.name}
_ON_HOSTS = ("RunsStopping", "RunsOrdered", "TasksPlaced")


def departure(connection: Connection, job_id: str, entry: JobEntry, detail: Json) -> Json | None:
    """Finds the drain or the taint by which the runs of an entry leave their hosts; None: none is known.

    `detail`: the details of the entry, of which `led_by` is the position of the decision about the hosts. An end has it
    from the order to stop.
    """
    if not detail.get("why", {}).keys() & _LEAVES:
        return None
    hosts, led_by = detail.get("hosts", []), detail.get("led_by", "")
    if not hosts or not led_by:
        hosts, led_by = _before(connection, job_id, entry, led_by)
    place = read_place(led_by)
    led: Json | None = None
    for host_id in hosts if place is not None else ():
        entries = list(islice(newest_first(connection, of_host(host_id), entry[:5]), LOOKED_AT_MAX))
        at = next((at for at, each in enumerate(entries) if place is not None and _is_at(each, place)), None)
        if at is not None:
            led = led or {"host_ids": [], **_led(entries[at:])}
            led["host_ids"].append(host_id)
    return led


def evicted_by(connection: Connection, job: JobRow) -> dict[str, str]:
    """By the code of sla, the taint by which all runs of a job are to leave that wait by it, in words; nothing where it
    is a drain, or not the same host for all.
    """
    asks, hosts, stages = tables.disruptions.c, tables.hosts.c, tables.host_stages.c
    query = select(asks.code, asks.instance).where(asks.job_id == job.job_id, asks.run > 0, asks.why == RunCause.DRAIN)
    rows = connection.execute(query.where(asks.code != "", asks.instance < job.instances)).all()
    if not rows:
        return {}
    at = columns_of(connection, job, np.array([row.instance for row in rows]))[TASK_PLACES["host"]].tolist()
    by_code: dict[str, set[int]] = {}
    for row, number in zip(rows, at, strict=True):
        by_code.setdefault(row.code, set()).add(number)
    words: dict[str, str] = {}
    for code, numbers in by_code.items():
        of = select(hosts.host_id, hosts.tainted, hosts.evicts).where(hosts.number.in_(sorted(numbers)[:2]))
        drains = select(stages.host_id).where(stages.stage.in_(DRAINS))
        tainted = connection.execute(of.where(hosts.evicts != "[]", hosts.host_id.not_in(drains))).all()
        if len(tainted) == len(numbers) == 1:
            host_id, taints, evicts = tainted[0]
            values = msgspec.json.decode(taints)
            words[code] = f"the taint {_named(values, msgspec.json.decode(evicts))} of host {host_id}"
    return words


def _before(connection: Connection, job_id: str, entry: JobEntry, led_by: str) -> tuple[list[str], str]:
    """Hosts on which the runs of an entry were, as far as entries before it tell; and by what they were to leave."""
    hosts: dict[str, None] = {}
    for each in islice(newest_first(connection, job_id, entry[:5]), LOOKED_AT_MAX):
        if each.event not in _ON_HOSTS or not each.said:
            continue
        earlier = detail_of(each.said)
        if entry.event == "RunsEnded" and not led_by:
            if each.event == "RunsStopping" and _may_share(entry, each):
                return earlier.get("hosts", []), earlier.get("led_by", "")
            continue
        hosts |= dict.fromkeys(earlier.get("hosts", ()))
    return list(hosts), led_by


def _may_share(entry: JobEntry, other: JobEntry) -> bool:
    """Whether two entries name runs in common, as far as the least and the greatest of each tell."""
    instances = entry.first <= other.last and other.first <= entry.last
    return instances and entry.first_run <= other.last_run and other.first_run <= entry.last_run


def _is_at(entry: JobEntry, place: Place) -> bool:
    here = RANK[f"paceline.{place.machine}"], place.number, place.decision
    return (entry.topic, entry.round, entry.place) == here


def _led(entries: list[JobEntry]) -> Json:
    """The drain or the taint that the first of these entries of a host is about, the newest first."""
    event = _event(entries[0])
    by, source = (
        ("taint", _named(event.taints, event.evicts))
        if isinstance(event, HostTainted)
        else (event.by or "operator", event.source)
    )
    fact = _fact(entries, event)
    actor = getattr(fact, "actor", None)
    return {
        "by": by,
        "source": source,
        "reason": getattr(fact, "reason", ""),
        "actor": named(actor) if actor is not None else "",
    }


def _fact(entries: list[JobEntry], event: Any) -> Any:
    """The request by which a host drains or has a taint; a deadline of a drain is that of the last request. None: there
    is none in the history of the host.
    """
    for other in (_event(each) for each in entries if each.event == type(event).__name__):
        if isinstance(other, HostMaintenanceChanged) and (other.by, other.source) != (event.by, event.source):
            return None
        if other.cause is not None and other.cause.topic == HOSTS.name:
            place = RANK[HOSTS.name], other.cause.offset
            fact = next((_event(each) for each in entries if (each.topic, each.offset) == place), None)
            return fact if not isinstance(event, HostTainted) or getattr(fact, "key", "") in event.evicts else None
        if isinstance(event, HostTainted):
            return None
    return None


def _named(taints: Mapping[str, str], evicts: Iterable[str]) -> str:
    return ", ".join(text_of(key, taints[key]) for key in evicts if key in taints)


def _event(entry: JobEntry) -> Any:
    return decode(entry.said) if isinstance(entry.said, bytes) else None
