"""Work that may go at once, and the hosts that take it: what stalls are told from waits by (decision 127).

What isn't known for sure is no room: whatever could be a reason to wait ends the look.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, select

from events.abilities import needed
from events.codes import UpdateState
from events.conditions import EXCLUSIVE, MEETS, exclusive_names, first_unmet
from events.host_pools import kind_of, of_kind
from events.pool_paths import path_to
from events.records.jobs import JobSubmitted
from events.records.parts import Alternative, AlternativeAmount, Constraint, HostDevice, PlacementRules
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
LOOKED_MAX = 100
"""The most hosts that turn out to be full of tasks, and instances of a daemon: each costs a read."""
OTHERS = frozenset(("gpu_memory",))
"""Resources that are parts of devices."""


class Asked(NamedTuple):
    """The tasks of a job that go together, and what each asks."""

    need: Amounts
    """The most of each resource that one of its requests asks: what pools must have, until one is taken."""
    requests: Sequence[Amounts]
    """Requests of which it can be said whether they fit; any of them will do."""
    tasks: int
    conditions: Sequence[Constraint]
    firm: bool
    """Whether they aren't preemptible: reservations bound them."""
    host_pools: tuple[str, ...]
    bound: bool
    """Whether there are host pools: what others wait for in these may come first."""
    ports: int = 0
    """The number of ports of each task."""
    port_numbers: Collection[int] = ()
    """Those of its ports that must have a certain number."""
    daemon: str = ""
    """The daemon that they are of, each for a host that has none yet; empty: they aren't of one."""
    waiting: int = 0
    """The number of its tasks that wait."""


def asked(connection: Connection, job: JobRow, pools: Mapping[str, PoolRow]) -> Asked | None:
    """The request of the next tasks of a job; None: something beside amounts, ports, constraints and host pools says
    where or when they may run.
    """
    if job.kind == "daemon" and job.instances > LOOKED_MAX:
        return None
    if job.kind == "stateful" or job.held_ms or job.stopping or job.controller or job.overridden:
        return None
    if job.max_running or job.backoff or job.ended_ms or not _is_of_one_version(connection, job):
        return None
    gang = job.gang_min > 1
    if gang and (job.queued < job.instances - job.removed or job.removed):
        return None  # a part of it is somewhere already
    spec = submission(connection, job.offset)
    need, requests = _requests(job, spec)
    kinds = kinds_of(connection)
    if spec.revocable or needed(spec) or not requests or any(name in kinds.licences for name in need):
        return None
    usable = _host_pools(connection, job, spec, pools)
    if usable is None:
        return None
    tasks = job.gang_min if gang else 1
    ports = len(spec.ports), [*spec.port_numbers.values()]
    daemon = (job.job_id, job.queued) if job.kind == "daemon" else ("", 0)
    return Asked(need, requests, tasks, spec.constraints, not spec.preemptible, *usable, *ports, *daemon)


def _is_of_one_version(connection: Connection, job: JobRow) -> bool:
    """Whether all tasks of a job are of its newest version: it was never updated, or wholly."""
    if not job.update:
        return job.version == 1
    rows = tables.updates.c
    state = connection.execute(select(rows.state).where(rows.job_id == job.job_id, rows.number == job.update)).scalar()
    return state == UpdateState.SUCCEEDED and job.needs == "{}"


def _requests(job: JobRow, spec: JobSubmitted) -> tuple[Amounts, list[Amounts]]:
    """The most that one of the requests of a task asks, and those that ask for amounts and whole devices alone; none of
    these where rules say more of its hosts. Taints that it tolerates don't count.
    """
    rules = spec.rules or PlacementRules()
    listed = tuple(AlternativeAmount(*amount) for amount in amounts_in(job.need).items())
    every = rules.alternatives or (Alternative(listed, rules.devices, rules.devices_within, rules.cores),)
    others = msgspec.structs.replace(rules, tolerations=(), alternatives=(), devices=(), devices_within="", cores=0)
    need, plain = dict[str, int](), list[Amounts]()
    for each in every:
        request = {amount.name: amount.amount for amount in each.resources}
        need = {name: max(need.get(name, 0), request.get(name, 0)) for name in need | request}
        parts = OTHERS & request.keys() or any(is_gpu(name) and of % WHOLE for name, of in request.items())
        if not (parts or each.devices or each.devices_within or each.cores):  # a sum says nothing of parts of devices
            plain.append(request)
    return need, plain if others == PlacementRules() else []


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
            if after > limit.get(name, after):
                return False
            if ask.daemon:
                continue  # daemons stand beside shares and reservations
            if after > entitled.get(name, 0):
                return False
            if ask.firm and path == pool and after > spec_of(row).reservation.get(name, 0):
                return False
    return True


def host_for(connection: Connection, ask: Asked) -> str:
    """The first host that is well, that nobody has reserved and that has room, where with others like it there is room
    for all tasks by one of their requests; empty: there is none.
    """
    if connection.execute(select(tables.reservations.c.job_id).limit(1)).first():
        return ""
    staged = {host_id for (host_id,) in connection.execute(select(tables.host_stages.c.host_id))}
    hosts: list[HostRow] = rows_of(connection, HostRow, select(tables.hosts).order_by(tables.hosts.c.place))
    if ask.daemon:
        return _host_for_daemon(connection, [(host, host.host_id in staged) for host in hosts], ask)
    in_vain = 0
    first, missing = [""] * len(ask.requests), [ask.tasks] * len(ask.requests)
    for host in hosts:
        if host.host_pool not in ask.host_pools:
            continue
        if not _is_well(host) or host.host_id in staged:
            if ask.bound:
                return ""
            continue
        rooms = _rooms(connection, host, ask)
        in_vain += min(rooms) < 0
        if in_vain > LOOKED_MAX:
            return ""
        for at, room in enumerate(rooms):
            if room > 0:
                first[at], missing[at] = first[at] or str(host.host_id), missing[at] - room
            if missing[at] <= 0:
                return first[at]
    return ""


def _host_for_daemon(connection: Connection, hosts: Sequence[tuple[HostRow, bool]], ask: Asked) -> str:
    """The first host that has no task of a daemon and is to have one; empty where one of these may have no room, or
    they aren't as many as tasks wait: nobody tells for which hosts those are. `hosts`: with whether one has a stage.
    """
    without = []
    for host, is_staged in hosts:
        if not _is_open(host, ask):
            continue
        page = host_tasks(connection, host, ON_HOST_MAX, 0)
        if page.next is not None:
            return ""
        if any(task["job_id"] == ask.daemon for task in page.items):
            continue
        if is_staged or not _is_well(host) or max(_rooms(connection, host, ask)) <= 0:
            return ""
        without.append(str(host.host_id))
        if len(without) > ask.waiting:
            return ""
    return without[0] if without and len(without) == ask.waiting else ""


def _is_well(host: HostRow) -> bool:
    """Whether nothing is said of a host for which it takes no tasks, or not all."""
    plain = host.taints == host.tainted == host.conditions == host.disabled == "{}"
    return plain and host_state(host) == HostState.UP and not host.offer_fault


def _is_open(host: HostRow, ask: Asked) -> bool:
    """Whether a host meets the conditions of tasks, and isn't for others alone."""
    attributes = msgspec.json.decode(host.attributes, type=dict[str, str])
    if first_unmet(ask.conditions, attributes) != MEETS:
        return False
    return not attributes.get(EXCLUSIVE) or attributes[EXCLUSIVE] in exclusive_names(ask.conditions)


def _rooms(connection: Connection, host: HostRow, ask: Asked) -> list[int]:
    """By request the number of these tasks for which a host has room for sure, and that it takes; -1: its
    tasks leave none, though its amounts do.
    """
    nothing = [0] * len(ask.requests)
    if not _is_open(host, ask):
        return nothing
    rooms = [max(0, _room(connection, host, request)) for request in ask.requests]
    if not any(rooms):
        return nothing
    ports = _ports_in_use(connection, host)
    of_ports = _room_of_ports(host, ask, ports) if ports is not None else 0
    return [min(room, of_ports) for room in rooms] if of_ports > 0 else [-1] * len(rooms)


def _room(connection: Connection, host: HostRow, request: Amounts) -> int:
    """The number of tasks for whose amounts and devices a host has room for sure."""
    capacity, used = amounts_in(host.capacity), amounts_in(host.allocated)
    rooms = ((capacity.get(name, 0) - used.get(name, 0)) // amount for name, amount in request.items() if amount)
    room = min(rooms, default=0)
    for name, amount in request.items():
        if room > 0 and amount and is_gpu(name):
            room = min(room, _whole_devices(connection, host, name) * WHOLE // amount)
    return room


def _room_of_ports(host: HostRow, ask: Asked, in_use: set[int]) -> int:
    """The number of tasks for whose ports a host has room, where some are in use."""
    if not ask.ports:
        return ask.tasks
    if not in_use.isdisjoint(ask.port_numbers):
        return 0
    free = len({*range(host.port_first, host.port_last + 1)} - in_use) // ask.ports
    return min(free, 1) if ask.port_numbers else free


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


def _ports_in_use(connection: Connection, host: HostRow) -> set[int] | None:
    """The ports that the tasks of a host have; None: one of them may keep others away."""
    page = host_tasks(connection, host, ON_HOST_MAX, 0)
    jobs = [job_row(connection, job_id) for job_id in {task["job_id"] for task in page.items}]
    if page.next is not None or None in jobs:
        return None
    if any(row is not None and _keeps_away(submission(connection, row.offset)) for row in jobs):
        return None
    return {port for task in page.items for port in task["ports"]}


def _keeps_away(spec: JobSubmitted) -> bool:
    """Whether the rules of a job are such that its tasks may keep others away, or of parts that a sum doesn't show."""
    if spec.rules is None:
        return False
    plain = msgspec.structs.replace(spec.rules, tolerations=(), alternatives=()) == PlacementRules()
    return not plain or any(each.cores or each.devices or each.devices_within for each in spec.rules.alternatives)
