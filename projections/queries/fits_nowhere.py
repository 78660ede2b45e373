"""Whether tasks of a specification would fit on no host, even an empty one: what its submitter is warned of."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from typing import NamedTuple

import msgspec
import numpy as np
from sqlalchemy import Connection

from events.abilities import needed
from events.codes import Code
from events.override_chunks import Chunks
from events.records.jobs import JobSubmitted
from events.resources import Kinds
from events.task_overrides import instance_of, override_keys
from events.words import plural
from paceline.client.models import FitWarning
from processors.placement.constraints import MEETS, first_unmet
from processors.state.record_rows import ConstraintRow
from projections.queries.hosts_there import OFFERS
from projections.queries.resources import kinds_of
from projections.queries.sentences import amounts
from projections.views.reader import rows_as_text

LOOKED_MAX = 100
"""So many different contents of a job are looked at."""
_OFFERED = f"SELECT attributes, capacity, sizes, port_first, port_last FROM hosts WHERE {OFFERS} "


class _Offer(NamedTuple):
    """The offer of a host: its attributes, amounts by resource, and how many ports."""

    attributes: dict[str, str]
    amounts: Mapping[str, int]
    ports: int


def warnings(connection: Connection, wanted: JobSubmitted, chunk: Chunks) -> list[FitWarning]:
    """A code and a sentence for each way in which instances would find no place whoever leaves; `chunk` reads the
    overrides.
    """
    kinds, found = kinds_of(connection), Counter[tuple[Code, str]]()
    counts = _counts(wanted, chunk)
    offers = _offers(connection, kinds)  # read no further than to the first where a job of one shape fits
    hosts = offers if len(counts) == 1 else list(offers)
    for key, count in counts[:LOOKED_MAX]:
        if why := _why(instance_of(wanted, key, chunk), hosts, kinds):
            found[why] += count
    tasks = "its task on each host" if wanted.kind == "daemon" else ""
    return [
        {"code": code, "message": f"{tasks or plural(count, 'instance')} would fit on no host: {text}"}
        for (code, text), count in found.items()
    ]


def _counts(job: JobSubmitted, chunk: Chunks) -> list[tuple[int, int]]:
    """Counts the instances that have each override key."""
    if job.instances and not job.overrides and not job.chunks:
        return [(0, job.instances)]
    keys, counts = np.unique(override_keys(job, np.arange(job.instances), chunk), return_counts=True)
    return list(zip(keys.tolist(), counts.tolist(), strict=True))


def _offers(connection: Connection, kinds: Kinds) -> Iterator[_Offer]:
    """The offers of the hosts that aren't lost and have made one."""
    with closing(rows_as_text(connection, _OFFERED)) as rows:
        for attributes, capacity, sizes, first, last in rows:
            offered = kinds.offered(msgspec.json.decode(capacity), msgspec.json.decode(sizes))
            amount_of = dict(zip(kinds.names, offered, strict=True))
            yield _Offer(msgspec.json.decode(attributes), amount_of, last - first + 1)


def _why(own: JobSubmitted, hosts: Iterable[_Offer], kinds: Kinds) -> tuple[Code, str] | None:
    """Why tasks fit nowhere; None: they fit on a host, or there is none."""
    conditions = [ConstraintRow(one.attribute, one.operator, one.values) for one in own.constraints]
    conditions += [ConstraintRow(attribute, "exists", ()) for attribute in needed(own)]
    need = {name: amount for name, amount in own.resources.items() if name not in kinds.licences}
    lacking, there, matching, ports = dict[str, int](), False, False, 0
    for host in hosts:
        there = True
        if first_unmet(conditions, host.attributes) != MEETS:
            continue
        short = [name for name, amount in need.items() if amount > host.amounts.get(name, 0)]
        if not short and len(own.ports) <= host.ports:
            return None
        matching, ports = True, max(ports, host.ports)
        for name in short:
            lacking[name] = max(lacking.get(name, 0), host.amounts.get(name, 0))
    if not there:
        return None
    if not matching:
        return Code.CONSTRAINT_MISMATCH, "none meets its constraints"
    asked, most = amounts({name: need[name] for name in lacking}, kinds), amounts(lacking, kinds)
    if not lacking:
        asked, most = plural(len(own.ports), "port"), plural(ports, "port")
    return Code.NEVER_FITS, f"it asks {asked}, the most of those that match is {most}"
