"""Whatever happens, sla lets go who the twin lets go, and tells the others the same."""

from collections.abc import Sequence

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from events.codes import Code, RunCause
from events.columns import pack_ints
from events.records.hosts import HostBack, HostSilent
from events.records.lifecycle import DisruptionAsked, JobSlaChanged, RunsOrdered, SlaGroupSet
from events.records.parts import SlaPolicy, SlaWindow, ZoneOffsets
from events.records.sla import DisruptionDeferred, SurplusSet
from tests.helpers.drawn import examples
from tests.helpers.machines import START_MS, columns, instances_changed, of, runs_of
from tests.processors.sla.harness import World, let_go
from tests.processors.sla.twin import Ask, Instance, Job, Twin

INSTANCES, HOSTS = 4, 3
HOURLY = (SlaWindow(schedule="0 * * * *", duration_ms=1_800_000, zone=ZoneOffsets()),)
"""The first half of each hour."""
POLICIES: tuple[tuple[int | None, SlaPolicy | None], ...] = (
    (1, None),
    (2, None),
    (0, None),
    (None, SlaPolicy(max_unavailable_percent=40)),
    (None, SlaPolicy(min_available_percent=55)),
    (3, SlaPolicy(min_available=2, min_healthy_ms=30_000)),
    (2, SlaPolicy(per_hour=1)),
    (None, SlaPolicy(per_hour_percent=60, min_healthy_ms=10_000)),
    (None, SlaPolicy(group="g")),
    (2, SlaPolicy(windows=HOURLY)),
    (0, SlaPolicy(replace="before")),
    (1, SlaPolicy(replace="before", surge=2, replace_wait_ms=60_000)),
)
GROUPS = (None, SlaPolicy(min_available_percent=80), SlaPolicy(min_available=7), SlaPolicy(max_unavailable_percent=10))
WHYS = (RunCause.DRAIN, RunCause.UPDATE, RunCause.PREEMPT)
WHAT = (
    *("ask", "ask", "ask", "ask_host", "ask_gang", "end", "order", "up", "up", "withdraw", "stopping", "stop", "start"),
    *("silent", "back", "later", "later", "policy", "group", "restart", "add_surplus"),
)
Step = tuple[str, int, int, int]
STEPS = st.lists(st.tuples(st.sampled_from(WHAT), *[st.integers(0, 11)] * 3), max_size=40)


class Play:
    """Does the same to the machine and to the twin, and compares them after each step."""

    def __init__(self, policies: Sequence[int]) -> None:
        self.world = World()
        self.twin = Twin([], START_MS)
        for number, which in enumerate(policies):
            most, policy = POLICIES[which % len(POLICIES)]
            job_id = f"j{number}"
            self.world.service(job_id, INSTANCES, most, running=False, sla=policy, priority=number % 2)
            instances = [Instance(host=(number + at) % HOSTS) for at in range(INSTANCES)]
            self.twin.jobs.append(Job(job_id, instances, most, policy or SlaPolicy(), number % 2))
        self.surplus = dict.fromkeys([job.job_id for job in self.twin.jobs], 0)
        self.codes: dict[tuple[str, int], Code] = {}
        self.since = len(self.world.said)
        for job in self.twin.jobs:
            for at, one in enumerate(job.instances):
                self.order(job, at, one)
                self.up(job, at, one)
        self.compare()

    def do(self, what: str, x: int, y: int, z: int) -> None:
        """One step."""
        job = self.twin.jobs[x % len(self.twin.jobs)]
        at = y % len(job.instances)
        one = job.instances[at]
        method = getattr(self, what)
        if what in ("later", "silent", "back", "group", "ask_host"):
            method(x, y, z)
        elif what == "add_surplus":
            self.add_surplus(job, late=z == 0)
        elif what in ("policy", "ask_gang", "ask"):
            method(job, at, one, z)
        else:
            method(job, at, one)
        self.compare()

    def compare(self) -> None:
        said, self.since = self.world.said[self.since :], len(self.world.said)
        mine = {(job_id, at) for job_id, at, _ in let_go(said)}
        theirs = self.twin.settle()
        assert mine == theirs, (mine, theirs)
        for event in of(said, SurplusSet):
            for job, surplus in zip(event.job_array.tolist(), event.surplus_array.tolist(), strict=True):
                self.surplus[event.job_ids[job]] = surplus
        for each in self.twin.jobs:
            for one in each.instances if not self.surplus[each.job_id] else ():
                one.leftover = one.surplus
        for event in of(said, DisruptionDeferred):
            for job_id, at, _ in runs_of(event):
                assert event.again == ((job_id, at) in self.codes)
                self.codes[job_id, at] = Code(event.code)
        asked = self.twin.codes()
        self.codes = {key: code for key, code in self.codes.items() if key in asked}
        assert self.codes == asked
        machine = self.world.machine
        for job in self.twin.jobs:
            counts = machine.available.counts[job.job_id]
            assert counts == machine.available.recount(job.job_id)
            assert (counts.missing, counts.extra) == (self.twin.missing(job), self.twin.extra(job))
            assert self.surplus[job.job_id] == self.twin.surplus(job, self.surplus[job.job_id])

    # What may happen.

    def ask(self, job: Job, at: int, one: Instance, z: int, unit: str = "", **fields: object) -> None:
        self.ask_all([(job, at, one)], unit, z, fields)

    def ask_all(self, asks: list[tuple[Job, int, Instance]], unit: str, z: int, fields: dict[str, object]) -> None:
        asks = [each for each in asks if not each[2].ask and each[2].held != each[2].run]
        if not asks:
            return
        since_ms = self.world.now - z // 2 * 900_000
        why = RunCause.DRAIN if unit else WHYS[z % len(WHYS)]
        for _, _, one in asks:
            one.ask = Ask(since_ms, why, unit)
        runs = [(job.job_id, at, one.run) for job, at, one in asks]
        packed = {"since": np.full(len(runs), since_ms // 1000).tobytes(), "why": pack_ints([why] * len(runs))}
        self.world.hear(DisruptionAsked(**columns(runs), **packed, **fields))  # type: ignore[arg-type]

    def ask_host(self, x: int, y: int, z: int) -> None:
        bound = [(job, at, one) for job in self.twin.jobs[:2] for at, one in enumerate(job.instances)]
        here = [each for each in bound if each[2].host == x % HOSTS and not each[2].ask and each[2].held != each[2].run]
        unit = {"unit": pack_ints([1] * len(here)), "host_ids": (f"h{x % HOSTS}",)}
        self.ask_all(here, f"h{x % HOSTS}", z, unit)

    def ask_gang(self, job: Job, at: int, one: Instance, z: int) -> None:
        members = [(job, at, one) for at, one in enumerate(job.instances) if not one.ask and one.held != one.run]
        self.ask_all(members, f"gang {job.job_id}", z, {"unit": pack_ints([-1] * len(members))})

    def withdraw(self, job: Job, at: int, one: Instance) -> None:
        one.ask = None
        if one.held == one.run:
            one.held = 0
            if one.hour_ms in job.hour:
                job.hour.remove(one.hour_ms)
            one.hour_ms = -1
        self.world.withdraw((job.job_id, at, one.run))

    def end(self, job: Job, at: int, one: Instance) -> None:
        run = (job.job_id, at, one.run)
        one.run, one.up, one.ordered, one.ask = one.run + 1, False, False, None
        self.world.down(run)

    def order(self, job: Job, at: int, one: Instance) -> None:
        host = (one.host + one.run) % HOSTS if not one.ordered else one.host
        one.host, one.ordered = host, True
        run = columns([(job.job_id, at, one.run)])
        session = np.array([1], dtype=np.int64).tobytes()
        self.world.hear(RunsOrdered(**run, host_ids=(f"h{host}",), host_session=session, host=pack_ints([0])))

    def up(self, job: Job, at: int, one: Instance) -> None:
        if one.up:
            return
        if not one.ordered:
            self.order(job, at, one)
        if one.host in self.twin.silent:
            self.back(one.host, 0, 0)
        one.up, one.ripe_ms = True, self.world.now + job.policy.min_healthy_ms
        if 0 < one.held < one.run:
            one.held, one.hour_ms = 0, -1
        self.world.up((job.job_id, at, one.run))

    def stopping(self, job: Job, at: int, one: Instance) -> None:
        one.up = False
        self.world.stopping((job.job_id, at, one.run))

    def stop(self, job: Job, at: int, one: Instance) -> None:
        one.wanted = False
        self.world.stop(job.job_id, at, 1)

    def start(self, job: Job, at: int, one: Instance) -> None:
        one.wanted = True
        self.world.start(job.job_id, at, 1)

    def silent(self, x: int, y: int, z: int) -> None:
        self.twin.silent.add(x % HOSTS)
        self.world.take("paceline.hosts", HostSilent(host_id=f"h{x % HOSTS}", session=1))

    def back(self, x: int, y: int, z: int) -> None:
        self.twin.silent.discard(x % HOSTS)
        self.world.take("paceline.hosts", HostBack(host_id=f"h{x % HOSTS}", session=1))

    def later(self, x: int, y: int, z: int) -> None:
        ms = (1_000, 15_000, 45_000, 130_000, 900_000, 3_600_000)[y % 6]
        self.twin.now += ms
        self.world.later(ms)

    def policy(self, job: Job, at: int, one: Instance, z: int) -> None:
        most, policy = POLICIES[z]
        more = (policy or SlaPolicy()).min_healthy_ms - job.policy.min_healthy_ms
        for each in job.instances:
            if each.ripe_ms > self.world.now:
                each.ripe_ms += more
        job.max_unavailable, job.policy = most, policy or SlaPolicy()
        self.world.hear(JobSlaChanged(job_id=job.job_id, max_unavailable=most, sla=policy))

    def group(self, x: int, y: int, z: int) -> None:
        group = GROUPS[z % len(GROUPS)]
        if group is None:
            self.twin.groups.pop("g", None)
            self.world.hear(SlaGroupSet(group="g", removed=True))
            return
        self.twin.groups["g"] = group
        bounds = {
            name: getattr(group, name) for name in ("max_unavailable_percent", "min_available", "min_available_percent")
        }
        self.world.hear(SlaGroupSet(group="g", **bounds))

    def add_surplus(self, job: Job, late: bool) -> None:
        row, number = self.world.machine.jobs[job.job_id], len(job.instances)
        serial = row.serial - late
        if not serial:
            return
        current = serial == row.serial and row.surplus > 0
        job.instances.append(Instance(host=number % HOSTS, ordered=False, surplus=True, leftover=not current))
        changed = instances_changed(job.job_id, range(number), [number])
        self.world.hear(msgspec.structs.replace(changed, surplus=serial))
        self.up(job, number, job.instances[number])

    def restart(self, job: Job, at: int, one: Instance) -> None:
        self.world.restart()
        self.world.quiet()


@examples(200, suite=60, deadline=None)
@given(st.lists(st.integers(0, 11), min_size=3, max_size=3), STEPS)
def test_sla_agrees_with_its_twin(policies: list[int], steps: list[Step]) -> None:
    play = Play(policies)
    for step in steps:
        play.do(*step)
