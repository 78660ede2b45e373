"""The simulated fleet: many hosts that follow the gateway's orders in its own process, with columns instead of tasks.

A run lasts as long as its job's `simulated` part says, 1,000 ms where it says nothing, and obeys a stop at once unless
that part says that it doesn't. The fleet is stepped like every component, and knows no time but its clock's, so it
lives in virtual time too.
"""

import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from events.abilities import abilities, image_digits
from events.bounds import HOST_RUNS_MAX, IMAGES_MAX, RUN_MAX
from events.codes import LIVE_REPORTS, RunReport
from events.columns import I32
from events.host_devices import Core
from events.process.clock import Clock
from events.records.parts import HostDevice, Simulated
from events.resources import Amounts
from hostagent.gateway import Gateway
from hostagent.gateway.connections import Attach, Connect, Report
from hostagent.gateway.facts import columns_of
from hostagent.messages import (
    HEARTBEAT_MS,
    Asked,
    Hello,
    ImagesLine,
    ImageState,
    LogLine,
    MachineIdentity,
    OrderKind,
    Orders,
    Reports,
    RunState,
    SessionRefused,
    UsageLine,
    Welcome,
)
from hostagent.report_columns import compact, reports_of, taken
from hostagent.task_columns import Column, Slots

RUNNING, ENDED = 1, 2
STOPPED_CODE, KILLED_CODE = 143, 137
DEFAULT = Simulated()
NEVER_MS = 1 << 62
SIM_CAPACITY = {"cpu": 16_000, "memory": 65_536, "disk": 1_000_000}
"""The capacity of a host that a process of a cell simulates: milli-CPU and MiB."""


@dataclass(frozen=True)
class SimHost:
    """So many hosts of a kind, numbered from `first` on; see `host_id`."""

    count: int
    capacity: Amounts
    attributes: dict[str, str] = field(default_factory=dict)
    pattern: str = "sim-#"
    first: int = 1
    sizes: tuple[str, ...] = ()
    """The resources in MiB, beside memory and disk."""
    taints: dict[str, str] = field(default_factory=dict)
    starts_per_s: int = 0
    """So many runs each of them starts in a second, one after another; 0: any number at once."""
    devices: tuple[HostDevice, ...] = ()
    cores: tuple[Core, ...] = ()

    def host_ids(self) -> tuple[str, ...]:
        """The ids of the simulated hosts."""
        return tuple(host_id(self.pattern, number) for number in range(self.first, self.first + self.count))


def host_id(pattern: str, number: int) -> str:
    """`rack-###` and 7 make `rack-007`: the number stands for the `#`, at least as wide; without any it is left out."""
    width = pattern.count("#")
    return pattern.replace("#" * width, f"{number:0{width}}") if width else pattern


OnOrder = Callable[[tuple[str, ...], int, int], None]
"""Told of runs to start: their jobs, how many runs, and when the fleet got the order, on its clock."""


class Fleet:
    """Simulated hosts behind one link. `session`: what their sessions start above, so that it grows over restarts."""

    def __init__(
        self,
        gateway: Gateway,
        hosts: Sequence[SimHost],
        clock: Clock,
        session: int,
        on_order: OnOrder | None = None,
        heartbeat_ms: int | None = HEARTBEAT_MS,
        boot: str = "",
    ) -> None:
        """`heartbeat_ms`: so often it says that it lives; None: who steps it sets `heard_ms`. `boot`: that of the
        machines of all its hosts; empty: they don't say it.
        """
        self._machine = MachineIdentity(boot=boot)
        self.heard_ms = 0
        self.started = 0
        self.ended = 0
        self._gateway = gateway
        self._clock = clock
        self._on_order = on_order
        self._names = [(spec, host_id) for spec in hosts for host_id in spec.host_ids()]
        self._numbers = {host_id: number for number, (_, host_id) in enumerate(self._names)}
        self._host_ids = tuple(self._numbers)
        self._rates = np.array([spec.starts_per_s for spec, _ in self._names], dtype=np.int64)
        self._busy_us = np.zeros(len(self._names), dtype=np.int64)
        """Until when each host starts runs, on the clock of the fleet."""
        self._sessions = dict.fromkeys(self._host_ids, session)
        self._images: dict[str, list[str]] = {}
        """The images that hosts have, by their first digits."""
        self._positions = np.zeros(len(self._names), dtype=np.int64)
        self._slots = Slots({"run": "i4", "host": "i4", "state": "i1", "report": "i1", "code": "i4", "grace": "i4"})
        self._orders: list[Orders] = []
        self._later: list[tuple[int, int, Reports]] = []
        """Reports of runs that are due later, should the runs still go on."""
        self._ties = itertools.count()
        self._to_connect = list(self._host_ids)
        self._connecting = set(self._host_ids)
        """Hosts whose old link, if any, may close: a new one is on its way."""
        self._heartbeat_ms = heartbeat_ms
        self._beat_at = 0
        self._accepted_sessions: dict[str, int] = {}
        self._refused: list[Reports] = []
        self._live: dict[str, int] = {}
        """The number of tasks of each job whose newest run is not forgotten."""

    def step(self) -> bool:
        """Connects hosts, obeys orders, ends runs that are due. Returns whether anything happened."""
        now = self._clock.monotonic_ms()
        if self._heartbeat_ms is not None and now >= self._beat_at:
            self.heard_ms, self._beat_at = now, now + self._heartbeat_ms
        busy = self.wait_ms() == 0
        self._connect()
        refused, self._refused = self._refused, []
        for reports in refused:
            self._report(reports)
        orders, self._orders = self._orders, []
        for each in orders:
            self._carry_out(each, now)
        while self._later and self._later[0][0] <= now:
            self._due(heapq.heappop(self._later)[2])
        return busy

    def wait_ms(self) -> int | None:
        """Milliseconds until it wants to be stepped."""
        if self._to_connect or self._accepted_sessions or self._refused or self._orders:
            return 0
        due = [self._later[0][0]] if self._later else []
        if self._heartbeat_ms is not None:
            due.append(self._beat_at)
        return max(0, min(due) - self._clock.monotonic_ms()) if due else None

    def close(self) -> None:
        """Simulated runs end with the process that simulates them."""

    def move(self, gateway: Gateway) -> None:
        """All hosts connect to another gateway; their runs go on."""
        self._gateway = gateway
        self._orders, self._accepted_sessions = [], {}
        self._to_connect = list(self._host_ids)
        self._connecting = set(self._host_ids)

    def running(self) -> int:
        """Runs that go on."""
        return int(np.count_nonzero(self._slots["state"] == RUNNING))

    # What a link does, on the gateway's thread, which is the fleet's too

    def deliver(self, orders: Orders) -> None:
        """Implements `Link`."""
        self._orders.append(orders)

    def ask(self, host_id: str, line: Asked) -> None:
        """Implements `Link`: simulated runs write nothing, which is told, and have no volumes; images are there."""
        if isinstance(line, LogLine):
            self._gateway.answer(host_id, line.request, None, f"host {host_id} is simulated: its tasks print nothing")
        elif isinstance(line, UsageLine):
            self._gateway.answer_usage(host_id, line.request, b"")
        elif isinstance(line, ImagesLine):
            images = [(0, ImageState(image.job_id, image.digest)) for image in line.images]
            session = (self._sessions[host_id],)
            self._gateway.post(Report(session, columns_of(host_id, ()), lambda accepted: None, images=images))

    def session_of(self, host_id: str) -> int:
        """The last session of a host."""
        return self._sessions[host_id]

    def cut(self, host_id: str) -> None:
        """Implements `Link`: the host connects again, with a higher session."""
        if host_id not in self._connecting:
            self._connecting.add(host_id)
            self._to_connect.append(host_id)

    def _connect(self) -> None:
        """Says hello for hosts without a session, and follows orders for those whose session is taken."""
        if self._accepted_sessions:
            self._gateway.post(Attach(self._accepted_sessions, self))
            self._connecting.difference_update(self._accepted_sessions)
            self._accepted_sessions = {}
        waiting, self._to_connect = self._to_connect, []
        for host_id in waiting:
            self._sessions[host_id] += 1
            self._gateway.post(Connect(host_id, self.hello(host_id), partial(self._connected, host_id)))

    def hello(self, host_id: str) -> Hello:
        """The first words of a host in its session."""
        number = self._numbers[host_id]
        spec = self._names[number][0]
        return Hello(
            session=self._sessions[host_id],
            capacity=spec.capacity,
            sizes=list(spec.sizes),
            attributes={"hostname": host_id} | abilities() | spec.attributes,
            runs=self._inventory(number),
            position=int(self._positions[number]),
            taints=spec.taints,
            machine=self._machine,
            devices=list(spec.devices),
            cores=[core.numa for core in spec.cores],
        )

    def _connected(self, host_id: str, answer: Welcome | SessionRefused) -> None:
        if isinstance(answer, SessionRefused):
            self._sessions[host_id] = max(self._sessions[host_id], answer.session)
            self._to_connect.append(host_id)
        else:
            self._accepted_sessions[host_id] = self._sessions[host_id]

    def _inventory(self, number: int) -> list[RunState]:
        here = np.flatnonzero((self._slots["host"] == number) & (self._slots["state"] > 0))
        if not len(here):
            return []
        job_ids, starts, _ = self._slots.owners()
        job = np.searchsorted(starts, here, side="right") - 1
        runs = self._slots["run"][here].tolist()
        instances = (here - starts[job]).tolist()
        jobs = [job_ids[at] for at in job.tolist()]
        reports, codes = self._slots["report"][here].tolist(), self._slots["code"][here].tolist()
        return [RunState(*each) for each in zip(jobs, instances, runs, reports, codes, strict=True)]

    def _carry_out(self, orders: Orders, now: int) -> None:
        numbers = np.array([self._numbers[host_id] for host_id in orders.host_ids], dtype=np.int32)
        news = self._positions[numbers] <= orders.position - (0 if orders.whole else 1)
        self._positions[numbers[news]] = orders.position
        if orders.whole:
            self._keep_only(orders, numbers[news])
        mine = news[orders.host]
        for kind, act in (
            (OrderKind.START, self._start),
            (OrderKind.STOP, self._stop),
            (OrderKind.KILL, self._kill),
            (OrderKind.FORGET, self._forget),
        ):
            items = np.flatnonzero(mine & (orders.kind == kind))
            if len(items):
                act(orders, items, numbers, now)

    def _keep_only(self, orders: Orders, hosts: I32) -> None:
        """The whole wanted set: all other runs on these hosts are over."""
        over = np.isin(self._slots["host"], hosts) & (self._slots["state"] == RUNNING)
        slots, exists = self._slots.find(orders.job_ids, orders.job, orders.instance)
        over[slots[exists & (self._slots["run"][slots] == orders.run)]] = False
        self._slots["state"][over] = ENDED
        self._slots["report"][over] = RunReport.STOPPED
        self._slots["code"][over] = STOPPED_CODE

    def _start(self, orders: Orders, items: Column, numbers: I32, now: int) -> None:
        if self._on_order:
            self._on_order(orders.job_ids, len(items), now)
        for job_id, spec in zip(orders.job_ids, orders.jobs, strict=True):
            if spec is not None and job_id not in self._slots:
                self._slots.take(job_id, spec.instances)
            elif spec is not None and spec.instances > self._slots.size(job_id):
                self._slots.resize(job_id, spec.instances)  # it has grown, or has runs of an earlier job of this id
        slots, exists = self._slots.find(orders.job_ids, orders.job[items], orders.instance[items])
        fresh = exists & (orders.run[items] > self._slots["run"][slots])
        items, slots = items[fresh], slots[fresh]
        if not len(items):
            return
        job, run = orders.job[items], orders.run[items]
        self._count(orders.job_ids, job[self._slots["state"][slots] == 0], 1)
        self._slots["run"][slots] = run
        self._slots["host"][slots] = numbers[orders.host[items]]
        self._slots["state"][slots] = RUNNING
        self._slots["report"][slots] = RunReport.STARTED
        self._slots["code"][slots] = 0
        self.started += len(items)
        self._pull(orders, items)
        begins = self._turns(self._slots["host"][slots], now) if self._rates.any() else np.int64(now)
        self._simulate(orders, items, slots, now, begins)

    def _turns(self, hosts: Column, now: int) -> Column:
        """When hosts have started runs, one after another in the order in which they were told."""
        begins = np.full(len(hosts), now, dtype=np.int64)
        for host in np.unique(hosts[self._rates[hosts] > 0]).tolist():
            mine = np.flatnonzero(hosts == host)
            each_us = 1_000_000 // self._rates[host]
            done_us = max(now * 1000, int(self._busy_us[host])) + each_us * np.arange(1, len(mine) + 1)
            self._busy_us[host], begins[mine] = done_us[-1], -(-done_us // 1000)
        return begins

    def _pull(self, orders: Orders, items: Column) -> None:
        """Hosts have the images of the runs that they start."""
        digits = [image_digits(spec.isolation.image_digest) if spec and spec.isolation else "" for spec in orders.jobs]
        for at in items[[bool(digits[job]) for job in orders.job[items].tolist()]].tolist() if any(digits) else ():
            host_id, image = orders.host_ids[orders.host[at]], digits[orders.job[at]]
            if image not in self._images.setdefault(host_id, []):
                self._images[host_id].append(image)
                self._tell_images(host_id)

    def _tell_images(self, host_id: str) -> None:
        session, images = (self._sessions[host_id],), self._images[host_id]
        self._gateway.post(
            Report(session, columns_of(host_id, ()), lambda accepted: None, held_images=sorted(images)[:IMAGES_MAX])
        )

    def _simulate(self, orders: Orders, items: Column, slots: Column, now: int, begins: Column | np.int64) -> None:
        """Settles how runs go on that begin at these times."""
        plays = [(spec.simulated if spec is not None else None) or DEFAULT for spec in orders.jobs]
        job, run = orders.job[items], orders.run[items]
        columns = [(each.duration_ms, each.exit_code, each.fail_runs, each.fail_run) for each in plays]
        duration, exit_code, fail_runs, fail_run = np.array(columns, dtype=np.int64)[job].T
        for at in [at for at, play in enumerate(plays) if play.durations_ms]:
            mine, listed = np.flatnonzero(job == at), np.array(plays[at].durations_ms)
            duration[mine] = listed[orders.instance[items][mine] % len(listed)]
        graces = [
            max(1, spec.stop_grace_ms) if spec is not None and play.ignores_stop else 0
            for spec, play in zip(orders.jobs, plays, strict=True)
        ]
        self._slots["grace"][slots] = np.array(graces, dtype=np.int64)[job]
        self._simulate_start(orders, items, now, begins)
        code = np.where((run <= fail_runs) | (run == fail_run), 1, exit_code).astype(np.int32)
        self._plan(reports_of(orders, items, RunReport.EXITED, code), begins + np.maximum(0, duration))

    def _simulate_start(self, orders: Orders, items: Column, now: int, begins: Column | np.int64) -> None:
        """Settles when runs count as started, and those with a health check as healthy and unhealthy."""
        columns = []
        for spec in orders.jobs:
            play = (spec.simulated if spec is not None else None) or DEFAULT
            fails = NEVER_MS if play.unhealthy_ms is None else play.unhealthy_ms
            checked = spec is not None and spec.health is not None
            columns.append((checked, play.ready_ms, fails, play.unhealthy_runs or RUN_MAX))
        checked, ready, fails, fail_runs = np.array(columns, dtype=np.int64)[orders.job[items]].T
        fails[orders.run[items] > fail_runs] = NEVER_MS
        started = np.where(checked, 0, ready) + (begins - now)
        ready, fails = ready + (begins - now), np.minimum(NEVER_MS, fails + (begins - now))
        self._report(reports_of(orders, items[started <= 0], RunReport.STARTED, 0))
        for state, due, some in (
            (RunReport.STARTED, started, started > 0),
            (RunReport.HEALTHY, ready, (checked > 0) & (ready < fails)),
            (RunReport.UNHEALTHY, fails, (checked > 0) & (fails < NEVER_MS)),
        ):
            mine = np.flatnonzero(some)
            self._plan(reports_of(orders, items[mine], state, 0), now + due[mine])

    def _plan(self, reports: Reports, due: Column) -> None:
        """Remembers what is to be reported when: one batch for each moment."""
        if not len(due):
            return
        by_due = np.argsort(due, kind="stable")
        times, firsts = np.unique(due[by_due], return_index=True)
        for at, mine in zip(times.tolist(), np.split(by_due, firsts[1:]), strict=True):
            heapq.heappush(self._later, (at, next(self._ties), compact(taken(reports, mine))))

    def _stop(self, orders: Orders, items: Column, numbers: I32, now: int, code: int = STOPPED_CODE) -> None:
        columns = (orders.job[items], orders.instance[items], orders.run[items])
        slots, exists = self._slots.find(orders.job_ids, *columns[:2])
        never = ~exists | (columns[2] > self._slots["run"][slots])  # ordered while there was no contact
        grace = np.where(exists & ~never, self._slots["grace"][slots], 0)
        deaf = np.flatnonzero(grace)
        self._plan(reports_of(orders, items[deaf], RunReport.STOPPED, KILLED_CODE), now + grace[deaf].astype(np.int64))
        items, never = items[grace == 0], never[grace == 0]
        columns = (orders.job[items], orders.instance[items], orders.run[items])
        stopped = self._finish(orders.job_ids, *columns, RunReport.STOPPED, code) | never
        self._report(reports_of(orders, items[stopped], RunReport.STOPPED, code))

    def _kill(self, orders: Orders, items: Column, numbers: I32, now: int) -> None:
        """Nothing resists that."""
        slots, going = self._is_running(orders.job_ids, orders.job[items], orders.instance[items], orders.run[items])
        self._slots["grace"][slots[going]] = 0
        self._stop(orders, items, numbers, now, KILLED_CODE)

    def _forget(self, orders: Orders, items: Column, numbers: I32, now: int) -> None:
        job, run = orders.job[items], orders.run[items]
        slots, exists = self._slots.find(orders.job_ids, job, orders.instance[items])
        counted = exists & (self._slots["run"][slots] == run) & (self._slots["state"][slots] > 0)
        self._slots["state"][slots[counted]] = 0
        self._count(orders.job_ids, job[counted], -1)

    def _count(self, job_ids: tuple[str, ...], job: Column, sign: int) -> None:
        """Counts the tasks of jobs; a job without any gives its slots back."""
        counts = np.bincount(job, minlength=len(job_ids))
        for at in np.flatnonzero(counts).tolist():
            job_id = job_ids[at]
            self._live[job_id] = self._live.get(job_id, 0) + sign * int(counts[at])
            if not self._live[job_id]:
                del self._live[job_id]
                self._slots.give_back(job_id)

    def _due(self, reports: Reports) -> None:
        """Reports what has come of the runs of a batch that still go on."""
        state = RunReport(int(reports.state[0]))
        columns = (reports.job_ids, reports.job, reports.instance, reports.run)
        if state in LIVE_REPORTS:
            slots, going = self._is_running(*columns)
            self._slots["report"][slots[going]] = state
        else:
            going = self._finish(*columns, state, reports.exit_code)
        self._report(taken(reports, np.flatnonzero(going)))

    def _is_running(
        self, job_ids: tuple[str, ...], job: Column, instance: Column, run: Column
    ) -> tuple[Column, Column]:
        """The slots of runs, and which of them still go on (bool)."""
        slots, exists = self._slots.find(job_ids, job, instance)
        return slots, exists & (self._slots["run"][slots] == run) & (self._slots["state"][slots] == RUNNING)

    def _finish(
        self, job_ids: tuple[str, ...], job: Column, instance: Column, run: Column, report: RunReport, code: I32 | int
    ) -> Column:
        """Marks runs ended; returns which of them went on until now (bool)."""
        slots, going = self._is_running(job_ids, job, instance, run)
        self._slots["state"][slots[going]] = ENDED
        self._slots["report"][slots[going]] = report
        self._slots["code"][slots[going]] = np.broadcast_to(code, len(going))[going]
        self.ended += int(np.count_nonzero(going))
        return going

    def _report(self, reports: Reports) -> None:
        for first in range(0, len(reports.job), HOST_RUNS_MAX):
            part = taken(reports, np.arange(first, min(first + HOST_RUNS_MAX, len(reports.job))))
            sessions = tuple(self._sessions[host_id] for host_id in part.host_ids)
            self._gateway.post(Report(sessions, part, partial(self._reported, part, sessions)))

    def _reported(self, reports: Reports, sessions: tuple[int, ...], accepted: bool) -> None:
        """A report that isn't taken is said again, after hosts whose session is over have a new one."""
        if accepted:
            return
        self._refused.append(reports)
        for host_id, session in zip(reports.host_ids, sessions, strict=True):
            if self._sessions[host_id] == session:
                self.cut(host_id)
