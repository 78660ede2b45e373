"""Work that may go at once, and the hosts that take it: what stalls are told from waits by (decision 127).

What isn't known for sure is no room: whatever could be a reason to wait ends the look.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, select

from events.abilities import needed
from events.codes import UpdateState
from events.conditions import EXCLUSIVE, MEETS, exclusive_names, first_unmet
from events.host_pools import kind_of, of_kind
from events.pool_paths import path_to
from events.records.jobs import JobSubmitted
from events.records.parts import Constraint, HostDevice, PlacementRules
from events.resources import Amounts, is_gpu
from projections.host_states import HostState
from projections.queries.devices import WHOLE, holders_on
from projections.queries.entities import host_state, job_row
from projections.queries.pages import rows_of
from projections.queries.pool_tree import spec_of
from projections.queries.resources import kinds_of
from projections.queries.tasks import host_tasks
from projections.queries.versions import submission
from projections.views import tables
from projections.views.rows import HostPoolRow, HostRow, JobRow, PoolRow, amounts_in

ON_HOST_MAX = 200
"""Tasks of a host that are looked at; one with more is no room."""
OTHERS = frozenset(("gpu_memory",))
"""Resources that are parts of devices."""


class Asked(NamedTuple):
    """The tasks of a job that go together, and what each asks."""

    need: Amounts
    tasks: int
    conditions: Sequence[Constraint]
    firm: bool
    """Whether they aren't preemptible: reservations bound them."""
    host_pools: tuple[str, ...]
    bound: bool
    """Whether there are host pools: what others wait for in these may come first."""


def asked(connection: Connection, job: JobRow, pools: Mapping[str, PoolRow]) -> Asked | None:
    """The request of the next tasks of a job; None: something beside amounts, constraints and host pools says where or
    when they may run.
    """
    if job.kind in ("daemon", "stateful") or job.held_ms or job.stopping or job.controller or job.overridden:
        return None
    if job.ports or job.max_running or job.backoff or job.ended_ms or not _is_of_one_version(connection, job):
        return None
    gang = job.gang_min > 1
    if gang and (job.queued < job.instances - job.removed or job.removed):
        return None  # a part of it is somewhere already
    spec = submission(connection, job.offset)
    need = amounts_in(job.need)
    kinds = kinds_of(connection)
    if spec.revocable or needed(spec) or not _is_without_rules(spec) or any(name in kinds.licences for name in need):
        return None
    if OTHERS & need.keys() or any(is_gpu(name) and amount % WHOLE for name, amount in need.items()):
        return None  # parts of devices: a sum says nothing of them
    usable = _host_pools(connection, job, spec, pools)
    if usable is None:
        return None
    tasks = job.gang_min if gang else 1
    return Asked(need, tasks, spec.constraints, not spec.preemptible, *usable)


def _is_of_one_version(connection: Connection, job: JobRow) -> bool:
    """Whether all tasks of a job are of its newest version: it was never updated, or wholly."""
    if not job.update:
        return job.version == 1
    rows = tables.updates.c
    state = connection.execute(select(rows.state).where(rows.job_id == job.job_id, rows.number == job.update)).scalar()
    return state == UpdateState.SUCCEEDED and job.needs == "{}"


def _is_without_rules(spec: JobSubmitted) -> bool:
    """Whether a job asks nothing of hosts beside conditions; taints that it tolerates don't count."""
    return spec.rules is None or msgspec.structs.replace(spec.rules, tolerations=()) == PlacementRules()


def _host_pools(
    connection: Connection, job: JobRow, spec: JobSubmitted, pools: Mapping[str, PoolRow]
) -> tuple[tuple[str, ...], bool] | None:
    """The host pools that a job may use, and whether there is more than one; None: hosts move between them."""
    defined: list[HostPoolRow] = rows_of(connection, HostPoolRow, select(tables.host_pools))
    if any(row.elastic != "[]" for row in defined):
        return None
    rows = [pools.get(path) for path in reversed(path_to(job.pool))]
    own = next((spec_of(row).host_pools for row in rows if row is not None and spec_of(row).host_pools), ())
    kinds = {row.name: msgspec.json.decode(row.kinds, type=list[str]) for row in defined}
    return tuple(own) or of_kind(kinds, kind_of(job.kind != "batch", spec.preemptible)), bool(defined)


def is_entitled(pool: str, ask: Asked, pools: Mapping[str, PoolRow]) -> bool:
    """Whether these tasks are within what each of the pools of their path may use beside what it holds."""
    for path in path_to(pool):
        row = pools.get(path)
        if row is None or spec_of(row).closed:
            return False
        allocated, entitled, limit = amounts_in(row.allocation), amounts_in(row.entitlement), spec_of(row).limit
        for name, amount in ask.need.items():
            after = allocated.get(name, 0) + amount * ask.tasks
            if after > entitled.get(name, 0) or after > limit.get(name, after):
                return False
            if ask.firm and path == pool and after > spec_of(row).reservation.get(name, 0):
                return False
    return True


def host_for(connection: Connection, ask: Asked) -> str:
    """The first host that is well, that nobody has reserved and that has room, where with others like it there is room
    for all tasks; empty: there is none.
    """
    if connection.execute(select(tables.reservations.c.job_id).limit(1)).first():
        return ""
    staged = {host_id for (host_id,) in connection.execute(select(tables.host_stages.c.host_id))}
    first, missing = "", ask.tasks
    for host in rows_of(connection, HostRow, select(tables.hosts).order_by(tables.hosts.c.place)):
        if host.host_pool not in ask.host_pools:
            continue
        if not _is_well(host) or host.host_id in staged:
            if ask.bound:
                return ""
            continue
        room = _room(connection, host, ask)
        if room:
            first, missing = first or str(host.host_id), missing - room
        if missing <= 0:
            return first
    return ""


def _is_well(host: HostRow) -> bool:
    """Whether nothing is said of a host for which it takes no tasks, or not all."""
    plain = host.taints == host.tainted == host.conditions == host.disabled == "{}"
    return plain and host_state(host) == HostState.UP and not host.offer_fault


def _room(connection: Connection, host: HostRow, ask: Asked) -> int:
    """The number of these tasks for which a host has room for sure, and that it takes."""
    attributes = msgspec.json.decode(host.attributes, type=dict[str, str])
    if first_unmet(ask.conditions, attributes) != MEETS:
        return 0
    if attributes.get(EXCLUSIVE) and attributes[EXCLUSIVE] not in exclusive_names(ask.conditions):
        return 0
    capacity, used = amounts_in(host.capacity), amounts_in(host.allocated)
    rooms = ((capacity.get(name, 0) - used.get(name, 0)) // amount for name, amount in ask.need.items() if amount)
    room = min(rooms, default=0)
    for name, amount in ask.need.items():
        if room > 0 and amount and is_gpu(name):
            room = min(room, _whole_devices(connection, host, name) * WHOLE // amount)
    return room if room > 0 and not _is_apart(connection, host) else 0


def _whole_devices(connection: Connection, host: HostRow, kind: str) -> int:
    """The devices of a kind of which nobody has a part; 0 where devices exclude each other, or have parts."""
    devices = msgspec.json.decode(host.devices, type=list[HostDevice])
    if any(each.of or each.excludes for each in devices):
        return 0
    holders = holders_on(connection, host.host_id)
    of_kind_ids = [each.id for each in devices if each.kind == kind]
    if of_kind_ids:
        return sum(not holders.get(each) for each in of_kind_ids)
    parts = any(milli % WHOLE for runs in holders.values() for _, milli, _ in runs)
    free = amounts_in(host.capacity).get(kind, 0) - amounts_in(host.allocated).get(kind, 0)
    return 0 if parts else free // WHOLE


def _is_apart(connection: Connection, host: HostRow) -> bool:
    """Whether a task on a host may keep others away from it: by its rules, or by its own cores."""
    page = host_tasks(connection, host, ON_HOST_MAX, 0)
    jobs = [job_row(connection, job_id) for job_id in {task["job_id"] for task in page.items}]
    if page.next is not None or None in jobs:
        return True
    return any(row is not None and submission(connection, row.offset).rules is not None for row in jobs)
