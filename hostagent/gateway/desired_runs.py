"""The runs that the cell wants on its hosts: a fold of accepted rounds of lifecycle, in columns over tasks."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from events.arrays.free_slots import room_to_grow, slots_kept
from events.arrays.reused_numbers import ReusedNumbers
from events.arrays.runs_by_host import RunsByHost
from events.columns import I32, I64, distinct, ints
from events.device_columns import RunDevice, devices_of
from events.instance_changes import instance_change
from events.job_ends import is_over
from events.records.base import Event
from events.records.hosts import HostOffered
from events.records.jobs import JobSubmitted
from events.records.lifecycle import (
    CommandAnswered,
    InstancesChanged,
    JobAccepted,
    JobChanged,
    JobRejected,
    JobReopened,
    OverridesDropped,
    RunsEnded,
    RunsOrdered,
    RunsStopping,
    UpdateStarted,
)
from hostagent.gateway.gangs import Gangs
from hostagent.gateway.specifications import JobFact, Specifications, Variant
from hostagent.messages import OrderKind, Orders, RunDevices
from hostagent.task_columns import Column, Slots

STARTING, STOPPING, ENDED = 1, 2, 3
"""States of the newest ordered run of a task: wanted, wanted to stop, over (kept because its host matters)."""


class HostOrders(NamedTuple):
    """Items of one decision; columns of equal length. `kind` is an `OrderKind`, `job` indexes `job_ids`, `host` is the
    number of a host.
    """

    kind: Column
    job_ids: tuple[str, ...]
    host: Column
    job: Column
    instance: Column
    run: Column
    version: Column
    """The version of the job by which a run starts; 0 where it doesn't start."""
    ports: I32
    devices: tuple[RunDevices, ...] = ()
    """Those of each item; empty: nobody has any."""
    alternative: Column | None = None
    """The alternative that each took, -1: it has none; None: nobody has any."""


class DesiredRuns:
    """The wanted runs of all hosts. The number of a host is its place in `host_ids`."""

    def __init__(self) -> None:
        self._places = ReusedNumbers()
        self._host_numbers: dict[str, int] = {}
        self._slots = Slots({"run": "i4", "host": "i4", "state": "i1", "version": "i4"})
        self._by_host = RunsByHost(self._host_of)
        self._specs = Specifications()
        self._ports: dict[str, I32] = {}
        """The ports of each job that has any: a row for each instance, and spare rows where it has grown."""
        self._devices: dict[str, dict[int, RunDevices]] = {}
        """The devices of each job that has any, by instance."""
        self._alternatives: dict[str, dict[int, int]] = {}
        """By job and instance, of runs that have some."""
        self._gangs = Gangs(self._slots, self._ports_of)

    def host(self, host_id: str) -> int:
        """The number of a host, given when first asked for."""
        number = self._host_numbers.get(host_id)
        if number is None:
            number = self._host_numbers[host_id] = self._places.take(host_id)
        return number

    @property
    def host_ids(self) -> list[str]:
        """The host of each number, "" where that is free."""
        return self._places.ids

    def removed(self, host_id: str) -> None:
        """A host has left; where its last runs were is known no more."""
        number = self._host_numbers.pop(host_id)
        slots = self._by_host.of(np.array([number]))
        self._slots["state"][slots[self._slots["state"][slots] == ENDED]] = 0
        self._places.give_back(number)
        self._gangs.removed(host_id)

    def offered(self, event: HostOffered) -> None:
        """A host says what it has."""
        self._gangs.offered(event)

    def asked(self, offset: int, event: JobFact) -> None:
        """A job, or another version of one, that lifecycle has not answered yet; or overrides that one may name."""
        self._specs.asked(offset, event)

    def take(self, decision: Event) -> HostOrders | None:
        """Folds one decision of an accepted round; returns what it asks of hosts."""
        match decision:
            case JobChanged():  # most of all decisions, with the next
                if is_over(decision):
                    self._over(decision.job_id)
            case JobAccepted():
                self._accepted(decision)
            case JobReopened():
                self._specs.reopened(decision.job_id)
            case JobRejected() | CommandAnswered():
                self._specs.answered(decision.jobs_offset)
            case UpdateStarted():
                self._specs.started(decision)
            case OverridesDropped():
                self._specs.uploads_dropped(decision)
            case InstancesChanged():
                self._instances_changed(decision)
            case RunsOrdered():
                return self._ordered(decision)
            case RunsStopping():
                return self._stopping(decision)
            case RunsEnded():
                return self._ended(decision)
        return None

    def _over(self, job_id: str) -> None:
        """A job is over, and known no more."""
        self._slots.give_back(job_id)
        self._specs.dropped(job_id)
        self._gangs.dropped(job_id)
        self._ports.pop(job_id, None)
        self._devices.pop(job_id, None)
        self._alternatives.pop(job_id, None)

    def host_id_of(self, job_id: str, instance: int, run: int) -> str | None:
        """The id of the host that `host_of` tells."""
        number = self.host_of(job_id, instance, run)
        return None if number is None else self.host_ids[number]

    def host_of(self, job_id: str, instance: int, run: int) -> int | None:
        """The number of the host that has or had this run, if it is the newest of its task. For an earlier one too: the
        next run often is where the last one was.
        """
        slots, exists = self._slots.find((job_id,), np.zeros(1, np.int32), np.array([instance]))
        slot = int(slots[0])
        if not exists[0] or not self._slots["state"][slot] or int(self._slots["run"][slot]) < run:
            return None
        return int(self._slots["host"][slot])

    def spec_there(self, number: int, job_id: str, instance: int, run: int) -> JobSubmitted | None:
        """The specification of a run on a host; None where it isn't to run there, or not any more."""
        slots, exists = self._slots.find((job_id,), np.zeros(1, np.int32), np.array([instance]))
        slot = int(slots[0])
        if not exists[0] or self._slots["state"][slot] != STARTING:
            return None
        if int(self._slots["run"][slot]) != run or int(self._slots["host"][slot]) != number:
            return None
        return self._specs.get(Variant(job_id, int(self._slots["version"][slot]), 0))

    def runs(self, number: int) -> int:
        """Counts the runs of a host that are not over."""
        state = self._slots["state"][self._by_host.of(np.array([number]))]
        return int(np.count_nonzero((state == STARTING) | (state == STOPPING)))

    def all_orders(self, hosts: Sequence[int]) -> list[HostOrders]:
        """All desired runs of these hosts, one piece to start and one to stop."""
        pieces = []
        here = self._by_host.of(distinct(np.asarray(hosts, dtype=np.int64)))
        state = self._slots["state"][here]
        job_ids, starts, _ = self._slots.owners()
        for kind, state_wanted in ((OrderKind.START, STARTING), (OrderKind.STOP, STOPPING)):
            slots = here[state == state_wanted]
            job = np.searchsorted(starts, slots, side="right") - 1
            instance = slots - starts[job]
            if kind == OrderKind.START:
                may = np.flatnonzero(self._gangs.startable(job_ids, job, instance))
                may = may[np.argsort(self._are_batch(job_ids, job[may], slots[may]), kind="stable")]
                slots, job, instance = slots[may], job[may], instance[may]
            if len(slots):
                ports = (
                    self._ports_of(job_ids, job, instance) if kind == OrderKind.START else np.zeros((0, 0), np.int32)
                )
                host, run, version = (self._slots[name][slots] for name in ("host", "run", "version"))
                version = version if kind == OrderKind.START else np.zeros_like(version)
                devices = self._devices_of(job_ids, job, instance) if kind == OrderKind.START else ()
                took = self._alternatives_of(job_ids, job, instance) if kind == OrderKind.START else None
                columns = host, job, instance, run, version, ports, devices, took
                pieces.append(HostOrders(_all(kind, slots), job_ids, *columns))
        return pieces

    def _are_batch(self, job_ids: Sequence[str], job: Column, slots: Column) -> Column:
        """For each run, whether it is of a batch job: hosts start those after services."""
        jobs, first, index = np.unique(job, return_index=True, return_inverse=True)
        versions = self._slots["version"][slots[first]].tolist()
        specs = [self._specs.get(Variant(job_ids[at], each, 0)) for at, each in zip(jobs, versions, strict=True)]
        return np.array([spec is None or spec.kind == "batch" for spec in specs], dtype=np.bool_)[index]

    def orders(self, position: int, whole: bool, hosts: Iterable[int], pieces: Sequence[HostOrders]) -> Orders:
        """Pieces as one message to some hosts, in the order given. A job stands there once for each of its versions
        and overrides that one of the runs to start has.
        """
        entries: dict[Variant, int] = {}
        jobs = []
        for piece in pieces:
            variants, index = self._specs.variants(
                piece.job_ids, piece.job, piece.instance, piece.version, piece.alternative
            )
            places = [entries.setdefault(each, len(entries)) for each in variants]
            jobs.append(np.array(places, dtype=np.int32)[index])
        numbers = np.array(list(hosts), dtype=np.int32)
        column = np.concatenate([piece.host for piece in pieces]) if pieces else np.zeros(0, np.int32)
        place = np.zeros(len(self.host_ids), dtype=np.int32)
        place[numbers] = np.arange(len(numbers))
        return Orders(
            position=position,
            whole=whole,
            host_ids=tuple(self.host_ids[number] for number in numbers.tolist()),
            job_ids=tuple(each.job_id for each in entries),
            jobs=tuple(map(self._specs.get, entries)),
            gangs=tuple(self._gangs.members(each.job_id, self.host_ids) if each.version else "" for each in entries),
            host=place[column],
            kind=_join([piece.kind for piece in pieces]),
            job=_join(jobs),
            instance=_join([piece.instance for piece in pieces]),
            run=_join([piece.run for piece in pieces]),
            ports=_join_ports(pieces),
            devices=_join_devices(pieces) if self._devices else (),
        )

    def dump(self) -> dict[str, Any]:
        """All there is, as values that MessagePack takes."""
        return {
            "hosts": self._host_numbers,
            "slots": self._slots.dump(),
            "specifications": self._specs.dump(),
            "gangs": self._gangs.dump(),
            "ports": {job_id: (ports.shape[1], ports.tobytes()) for job_id, ports in self._ports.items()},
            "devices": self._devices,
            "alternatives": self._alternatives,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Takes what `dump` gave, while there is nothing yet."""
        self._host_numbers = dict(state["hosts"])
        self._places.restored(self._host_numbers)
        self._slots.load(state["slots"])
        self._by_host.restored(np.flatnonzero(self._slots["state"]))
        self._specs.load(state["specifications"])
        self._gangs.load(state["gangs"])
        for job_id, (width, value) in state["ports"].items():
            self._ports[job_id] = ints(value).reshape(-1, width).copy()
        for job_id, devices in state.get("devices", {}).items():  # none of 0.3
            self._devices[job_id] = {at: tuple(RunDevice(*each) for each in mine) for at, mine in devices.items()}
        self._alternatives = {job_id: dict(mine) for job_id, mine in state.get("alternatives", {}).items()}

    def _accepted(self, decision: JobAccepted) -> None:
        if decision.job_id in self._slots or not self._specs.accepted(decision):
            return
        self._slots.take(decision.job_id, decision.instances)
        if decision.gang_min:
            self._gangs.accepted(decision.job_id, decision.gang_min)

    def _instances_changed(self, decision: InstancesChanged) -> None:
        """Drops the removed instances; a host learns the job's instances when it next starts one of them."""
        if decision.job_id not in self._specs:
            return
        removed = instance_change(decision).removed
        slots, exists = self._slots.find((decision.job_id,), np.zeros(len(removed), np.int32), removed)
        for column in ("run", "host", "state"):
            self._slots[column][slots[exists]] = 0
        if self._slots.resize(decision.job_id, decision.instances):
            self._by_host.add(self._slots.slots_of(decision.job_id))
        self._specs.resized(decision.job_id, decision.instances)
        devices = self._devices.get(decision.job_id, {})
        for instance in removed.tolist() if devices else ():
            devices.pop(instance, None)
        ports = self._ports.get(decision.job_id)
        if ports is not None:
            ports[removed[removed < len(ports)]] = 0
            self._ports[decision.job_id] = _resized(ports, decision.instances)

    def _find(self, decision: RunsOrdered | RunsStopping | RunsEnded) -> tuple[I32, I32, I32, Column, Column]:
        """Job, instance and run columns, slots, and which items name a task that there is."""
        job, instance, run = decision.items()
        slots, exists = self._slots.find(decision.job_ids, job, instance)
        return job, instance, run, slots, exists

    def _ordered(self, decision: RunsOrdered) -> HostOrders | None:
        job, instance, run, slots, exists = self._find(decision)
        host = self._numbers(decision.host_ids)[decision.host_array]
        # A later run may be known already, where lifecycle orders and ends within a round: orders never go back.
        exists = exists & (run > self._slots["run"][slots])
        self._learn_ports(decision, job, instance, exists)
        self._learn_devices(decision, job, instance, exists)
        if decision.alternative:
            self._learn_alternatives(decision, job, instance, exists)
        version = decision.version_array
        job, instance, run, slots, host = job[exists], instance[exists], run[exists], slots[exists], host[exists]
        self._slots["run"][slots], self._slots["version"][slots] = run, version[exists]
        self._slots["host"][slots] = host
        self._slots["state"][slots] = STARTING
        self._by_host.add(slots)
        return self._starts(decision.job_ids, job, instance)

    def _starts(self, job_ids: tuple[str, ...], job: Column, instance: Column) -> HostOrders | None:
        """The starts of runs that were ordered just now; a gang starts as a whole when the last of it was ordered."""
        member = self._gangs.in_gang(job_ids, job, instance)
        if member.any():
            whole = self._gangs.completed(job_ids, job[member])
            jobs = [job[~member], *(np.full(len(members), at) for at, members in whole)]
            job, instance = _join(jobs), _join([instance[~member], *(members for _, members in whole)])
        slots, _ = self._slots.find(job_ids, job, instance)
        starting = self._slots["state"][slots] == STARTING
        job, instance, slots = job[starting], instance[starting], slots[starting]
        if not len(slots):
            return None
        host, run, version = (self._slots[name][slots] for name in ("host", "run", "version"))
        ports, devices = self._ports_of(job_ids, job, instance), self._devices_of(job_ids, job, instance)
        took = self._alternatives_of(job_ids, job, instance)
        return HostOrders(
            _all(OrderKind.START, slots), job_ids, host, job, instance, run, version, ports, devices, took
        )

    def _stopping(self, decision: RunsStopping) -> HostOrders:
        """Runs that nobody wants are stopped too, so the hosts are those that the decision names."""
        job, instance, run, slots, exists = self._find(decision)
        marked = slots[exists & (self._slots["run"][slots] == run) & (self._slots["state"][slots] == STARTING)]
        self._slots["state"][marked] = STOPPING
        host = self._numbers(decision.host_ids)[decision.host_array]
        kind = np.where(decision.kill_array > 0, OrderKind.KILL, OrderKind.STOP)
        return _ending(kind, decision.job_ids, host, job, instance, run)

    def _ended(self, decision: RunsEnded) -> HostOrders | None:
        job, instance, run, slots, exists = self._find(decision)
        state = self._slots["state"][slots]
        ended = exists & (self._slots["run"][slots] == run) & ((state == STARTING) | (state == STOPPING))
        job, instance, run, slots = job[ended], instance[ended], run[ended], slots[ended]
        self._slots["state"][slots] = ENDED
        host = self._slots["host"][slots]
        kind = _all(OrderKind.FORGET, job)
        return _ending(kind, decision.job_ids, host, job, instance, run) if len(job) else None

    def _host_of(self, slots: I64) -> I64:
        hosts: I64 = np.where(self._slots["state"][slots] > 0, self._slots["host"][slots], -1)
        return hosts

    def _numbers(self, host_ids: Sequence[str]) -> Column:
        return np.array([self.host(host_id) for host_id in host_ids], dtype=np.int32)

    def _learn_ports(self, decision: RunsOrdered, job: I32, instance: I32, ordered: Column) -> None:
        """The ports of the items stand one after the other."""
        values, counts = decision.ports_array, decision.port_count_array.astype(np.int64)
        ends = np.cumsum(counts)
        if not len(values) or len(counts) != len(job) or int(ends[-1]) != len(values):
            return
        for at in distinct(job[ordered & (counts > 0)]).tolist():
            mine = np.flatnonzero(ordered & (job == at))
            table = self._ports_table(decision.job_ids[at], int(counts[mine].max()))
            for width in distinct(counts[mine]).tolist():
                these = mine[counts[mine] == width]
                first = ends[these] - width
                row = np.zeros((len(these), table.shape[1]), dtype=np.int32)
                row[:, :width] = values[first[:, None] + np.arange(width)]
                table[instance[these]] = row

    def _learn_devices(self, decision: RunsOrdered, job: I32, instance: I32, ordered: Column) -> None:
        """A run that has no devices may come after one that had some."""
        if not self._devices and not decision.device:
            return
        for at in [at for at in distinct(job[ordered]).tolist() if decision.job_ids[at] in self._devices]:
            for each in instance[ordered & (job == at)].tolist():
                self._devices[decision.job_ids[at]].pop(each, None)
        for item, devices in devices_of(decision):
            if ordered[item]:
                job_id = decision.job_ids[int(job[item])]
                self._devices.setdefault(job_id, {})[int(instance[item])] = tuple(devices)

    def _learn_alternatives(self, decision: RunsOrdered, job: I32, instance: I32, ordered: Column) -> None:
        for at in np.flatnonzero(ordered & (decision.alternative_array >= 0)).tolist():
            mine = self._alternatives.setdefault(decision.job_ids[int(job[at])], {})
            mine[int(instance[at])] = int(decision.alternative_array[at])

    def _alternatives_of(self, job_ids: Sequence[str], job: Column, instance: Column) -> Column | None:
        """The alternative of each item; None where nobody has any."""
        if not self._alternatives:
            return None
        items = zip(job.tolist(), instance.tolist(), strict=True)
        return np.array([self._alternatives.get(job_ids[at], {}).get(each, -1) for at, each in items], dtype=np.int64)

    def _devices_of(self, job_ids: Sequence[str], job: Column, instance: Column) -> tuple[RunDevices, ...]:
        """The devices of each item; none at all where nobody has any."""
        mine = [self._devices.get(job_ids[at], {}) for at in job.tolist()] if self._devices else []
        if not any(mine):
            return ()
        return tuple(devices.get(each, ()) for devices, each in zip(mine, instance.tolist(), strict=True))

    def _ports_table(self, job_id: str, width: int) -> I32:
        """The ports of a job, so many of each instance at least."""
        table = self._ports.get(job_id)
        if table is None:
            table = np.zeros((self._slots.size(job_id), 0), dtype=np.int32)
        more = max(0, width - table.shape[1])
        table = self._ports[job_id] = np.pad(table, ((0, 0), (0, more))) if more else table
        return table

    def _ports_of(self, job_ids: Sequence[str], job: Column, instance: Column) -> I32:
        """A row of ports for each item, as wide as the job with most ports; no column at all where none has any."""
        tables = {at: self._ports[job_ids[at]] for at in distinct(job).tolist() if job_ids[at] in self._ports}
        width = max((table.shape[1] for table in tables.values()), default=0)
        out = np.zeros((len(job), width), dtype=np.int32)
        for at, table in tables.items():
            mine = np.flatnonzero(job == at)
            out[mine, : table.shape[1]] = table[instance[mine]]
        return out


def _all(kind: OrderKind, items: Column) -> Column:
    """One kind of order for all of some items."""
    return np.full(len(items), kind, dtype=np.int32)


def _ending(
    kind: Column, job_ids: tuple[str, ...], host: Column, job: Column, instance: Column, run: Column
) -> HostOrders:
    """Runs that stop, or are over: neither versions nor ports matter."""
    none = np.zeros((0, 0), np.int32)
    return HostOrders(kind, job_ids, host, job, instance, run, np.zeros(len(job), np.int32), none)


def _resized(table: I32, rows: int) -> I32:
    """The table with as many rows as are asked for at least, and room to grow."""
    new_rows = slots_kept(rows, len(table)) if rows <= len(table) else max(rows, room_to_grow(len(table)))
    if new_rows == len(table):
        return table
    resized = np.zeros((new_rows, table.shape[1]), dtype=np.int32)
    both = min(new_rows, len(table))
    resized[:both] = table[:both]
    return resized


def only(piece: HostOrders, hosts: Sequence[int]) -> HostOrders:
    """The items of a piece that are for these hosts."""
    mine: Column = np.isin(piece.host, np.asarray(hosts, dtype=np.int32))
    return piece._replace(
        kind=piece.kind[mine],
        host=piece.host[mine],
        job=piece.job[mine],
        instance=piece.instance[mine],
        run=piece.run[mine],
        version=piece.version[mine],
        ports=piece.ports[mine] if piece.ports.shape[1] else np.zeros((0, 0), np.int32),
        devices=tuple(piece.devices[at] for at in np.flatnonzero(mine).tolist()) if piece.devices else (),
        alternative=piece.alternative[mine] if piece.alternative is not None else None,
    )


def _join(columns: Sequence[Column]) -> I32:
    return np.concatenate(columns).astype(np.int32, copy=False) if columns else np.zeros(0, np.int32)


def _join_ports(pieces: Sequence[HostOrders]) -> I32:
    total = sum(len(piece.job) for piece in pieces)
    width = max((piece.ports.shape[1] for piece in pieces), default=0)
    out = np.zeros((total, width), dtype=np.int32)
    at = 0
    for piece in pieces:
        if piece.ports.shape[1]:
            out[at : at + len(piece.job), : piece.ports.shape[1]] = piece.ports
        at += len(piece.job)
    return out


def _join_devices(pieces: Sequence[HostOrders]) -> tuple[RunDevices, ...]:
    """The devices of all items; none where nobody has any."""
    if not any(piece.devices for piece in pieces):
        return ()
    return tuple(each for piece in pieces for each in piece.devices or [()] * len(piece.job))
