"""Whether tasks as a specification has them would fit on no host, even an empty one: what a dry run warns of."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from sqlalchemy import Connection, select

from events.abilities import needed
from events.codes import Code
from events.override_chunks import Chunks
from events.records.jobs import JobSubmitted
from events.resources import Kinds
from events.task_overrides import instance_of, override_keys
from events.words import plural
from processors.placement.constraints import MEETS, first_unmet
from processors.state.record_rows import ConstraintRow
from projections.queries.pages import Json, rows_of
from projections.queries.resources import kinds_of
from projections.queries.sentences import amounts
from projections.views import tables
from projections.views.rows import HostRow

LOOKED_MAX = 1000
"""So many different contents of a job are looked at."""


def warnings(connection: Connection, wanted: JobSubmitted, chunk: Chunks) -> list[Json]:
    """A code and a sentence for each way in which instances would find no place whoever leaves; `chunk` reads the
    overrides.
    """
    hosts = [row for row in rows_of(connection, HostRow, select(tables.hosts)) if _offers(row)]
    if not hosts:
        return []
    kinds, found = kinds_of(connection), Counter[tuple[Code, str]]()
    keys, counts = np.unique(override_keys(wanted, np.arange(wanted.instances), chunk), return_counts=True)
    for key, count in list(zip(keys.tolist(), counts.tolist(), strict=True))[:LOOKED_MAX]:
        if why := _why(instance_of(wanted, key, chunk), hosts, kinds):
            found[why] += count
    tasks = "its task on each host" if wanted.kind == "daemon" else ""
    return [
        {"code": code, "message": f"{tasks or plural(count, 'instance')} would fit on no host: {text}"}
        for (code, text), count in found.items()
    ]


def _offers(host: HostRow) -> bool:
    """Whether a host offers anything: it isn't lost, and has said what it has."""
    return host.lost_session < host.session and host.offered == host.session


def _why(own: JobSubmitted, hosts: Sequence[HostRow], kinds: Kinds) -> tuple[Code, str] | None:
    """Why tasks fit nowhere; None: they fit on a host."""
    conditions = [ConstraintRow(one.attribute, one.operator, one.values) for one in own.constraints]
    conditions += [ConstraintRow(attribute, "exists", ()) for attribute in needed(own)]
    matching = [host for host in hosts if first_unmet(conditions, _decoded(host.attributes)) == MEETS]
    if not matching:
        return Code.CONSTRAINT_MISMATCH, "none meets its constraints"
    need = {name: amount for name, amount in own.resources.items() if name not in kinds.licences}
    lacking: dict[str, int] = {}
    for host in matching:
        offered = dict(zip(kinds.names, kinds.offered(_decoded(host.capacity), _decoded(host.sizes)), strict=True))
        short = [name for name, amount in need.items() if amount > offered.get(name, 0)]
        if not short and len(own.ports) <= host.port_last - host.port_first + 1:
            return None
        for name in short:
            lacking[name] = max(lacking.get(name, 0), offered.get(name, 0))
    asked, most = amounts({name: need[name] for name in lacking}, kinds), amounts(lacking, kinds)
    return Code.NEVER_FITS, f"it asks {asked or plural(len(own.ports), 'port')}, the most of those that match is {most}"


def _decoded(text: str) -> Any:
    return msgspec.json.decode(text)
