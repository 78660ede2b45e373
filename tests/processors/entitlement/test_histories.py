"""Random histories: who is entitled is what a naive twin finds that re-sorts everything, and nothing is exceeded."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from events.codes import Code
from events.columns import pack_ints
from events.ranks import Rank
from events.records.base import Event
from events.records.entitlement import PreemptionsOrdered
from events.records.lifecycle import JobPriorityChanged, PreemptionAnswered
from events.records.parts import Cause, TaskShape
from events.records.placement import GangsParked, PreemptionAsked
from events.resources import Vector, add
from processors.entitlement.machine import Entitlement
from processors.entitlement.queues.parts import GANG, ROLES
from processors.entitlement.rows import JobRow
from tests.helpers.drawn import examples
from tests.helpers.machines import Range, Run, columns, mixed, ranges
from tests.processors.entitlement.harness import World, admitted, borrowed, cpu, ranked

LEAVES = ("/a/x", "/a/y", "/b")


class Unit(NamedTuple):
    """A gang or a task, as it stands in the queue of its pool."""

    place: tuple[int, int, int, int]
    job_id: str
    job: JobRow
    slots: list[int]
    state: str


class Twin:
    """Looks at every task each time, straight from the rules."""

    def __init__(self, machine: Entitlement) -> None:
        self.machine = machine
        self.arena = machine.queues.arena
        self.entitled: list[Run] = []
        self.rises: list[Run] = []
        self.falls: list[Run] = []
        self.units = [unit for job_id, job in machine.queues.jobs.items() for unit in self._units(job_id, job)]
        self.parked = {run for unit in self.units if self.is_parked(unit) for run in self._runs(unit, "held")}
        leaves = [pool for pool in LEAVES if pool in machine.pools]
        for pool in leaves:
            self._demote(pool)
        if not self.falls:
            for pool in sorted(leaves, key=lambda pool: (machine.pools[pool].served, pool)):
                self._serve(pool)

    def _units(self, job_id: str, job: JobRow) -> Iterator[Unit]:
        slots: list[int] = self.machine.queues.present(job).tolist()
        members = [slot for slot in slots if slot < job.base + job.gang_min]
        for unit in ([members] if members else []) + [[slot] for slot in slots[len(members) :]]:
            key = self.machine.queues.part_of(job, unit[0] - job.base)
            states = {self._state(slot) for slot in unit}
            runs = {int(self.arena["queued"][slot]) for slot in unit}
            state = states.pop() if len(states) == 1 else "mixed"
            if state == "waits" and (len(runs) > 1 or job.parts[key].returned):
                state = "aside"
            yield Unit((-job.priority, job.number, job.parts[key].first, unit[0]), job_id, job, unit, state)

    def _state(self, slot: int) -> str:
        if self.arena["held"][slot]:
            kind = "borrowed" if self.arena["rank"][slot] == Rank.BORROWED else "entitled"
            return kind if self.arena["placed"][slot] else f"{kind} without a place"
        return "waits" if self.arena["queued"][slot] else "none"

    def takes_room(self, slot: int) -> bool:
        """Whether a task holds something under limits."""
        return bool(self.arena["held"][slot]) and self.arena["rank"][slot] != Rank.PARKED

    def is_parked(self, unit: Unit) -> bool:
        """Whether a claim holds nothing under limits, or is about to: borrowed it would, so it stays a claim."""
        return bool({*self.arena["rank"][unit.slots].tolist()} & {Rank.PARKED, Rank.PARKING})

    def need(self, unit: Unit) -> Vector:
        total = self.machine.queues.nothing
        for slot in unit.slots:
            total = add(total, self.machine.queues.shapes[int(self.arena["shape"][slot])].need)
        return total

    def held(self, pools: tuple[str, ...], firm: bool = False) -> Vector:
        """What pools hold, or what of it isn't preemptible."""
        total = self.machine.queues.nothing
        for job in self.machine.queues.jobs.values():
            for slot in self.machine.queues.present(job).tolist() if job.pool in pools else ():
                if (not job.preemptible and self.arena["held"][slot]) if firm else self.takes_room(slot):
                    total = add(total, self.machine.queues.shapes[int(self.arena["shape"][slot])].need)
        return total

    def level(self, pool: str, priority: int) -> Vector:
        total = self.machine.queues.nothing
        for job in self.machine.queues.jobs.values():
            if job.pool == pool and (not job.preemptible or job.priority >= priority):
                for slot in self.machine.queues.present(job).tolist():
                    if self.arena["rank"][slot] not in (Rank.WAITING, Rank.BORROWED):
                        total = add(total, self.machine.queues.shapes[int(self.arena["shape"][slot])].need)
        return total

    def _demote(self, pool: str) -> None:
        entitlement = self.machine.reports.row(pool).entitlement
        claims = [unit for unit in self.units if unit.job.pool == pool and unit.state == "entitled without a place"]
        mine = [unit for unit in claims if unit.job.preemptible]
        freed: list[tuple[int, Vector]] = []
        for unit in sorted(mine, key=self._backwards):
            level, need = self.level(pool, unit.job.priority), self.need(unit)
            for priority, amount in freed:
                if priority >= unit.job.priority:
                    level = add(level, amount, -1)
            if any(want and have > most for want, have, most in zip(need, level, entitlement, strict=True)):
                freed.append((unit.job.priority, need))
                self.falls += [] if self.is_parked(unit) else self._runs(unit, "held")

    def _backwards(self, unit: Unit) -> Any:
        return tuple(-each for each in unit.place)

    def _runs(self, unit: Unit, column: str) -> list[Run]:
        return [(unit.job_id, slot - unit.job.base, int(self.arena[column][slot])) for slot in unit.slots]

    def _serve(self, pool: str) -> None:
        machine, levels = self.machine, ("/a", pool) if pool != "/b" else (pool,)
        entitlement, taken = machine.reports.row(pool).entitlement, machine.queues.nothing
        lacking: dict[bool, set[int]] = {True: set(), False: set()}
        units = [
            unit for unit in self.units if unit.job.pool == pool and unit.state.split()[0] in ("waits", "borrowed")
        ]
        for unit in sorted(units, key=lambda unit: unit.place):
            key, need = machine.queues.part_of(unit.job, unit.slots[0] - unit.job.base), self.need(unit)
            if any(need[kind] for kind in lacking[unit.job.preemptible]):
                continue
            waits = unit.state == "waits"
            if waits and machine.order.is_refused((unit.job_id, key)):
                continue
            level = add(self.level(pool, unit.job.priority), taken)
            lacks = _lacking(add(level, need), entitlement, need)
            for each in levels:
                below = LEAVES if each == "/" else tuple(leaf for leaf in LEAVES if leaf.startswith(each))
                held, limit = add(self.held(below), self._kept(pool, each)), machine.pools[each].limit
                new = self._new(below)
                if waits:
                    lacks |= _lacking(add(add(held, new), need), limit, need)
                firm = add(self.held(below, True), self._new(below, True))
                if not unit.job.preemptible:
                    lacks |= _lacking(add(firm, need), machine.pools[each].reservation, need)
            if waits and any(machine.pools[each].closed for each in levels):
                lacks |= set(range(len(need)))
            if lacks:  # it blocks those of its class that need what it lacks, and keeps what else it needs
                lacking[unit.job.preemptible] |= lacks
                taken = add(taken, tuple(0 if kind in lacks else amount for kind, amount in enumerate(need)))
                continue
            taken = add(taken, need)
            if waits:
                self.entitled += self._runs(unit, "queued")
                self.taken.append((pool, unit.job.preemptible, need))
            else:
                self.rises += self._runs(unit, "held")

    def _kept(self, pool: str, level: str) -> Vector:
        """What others leave for that have waited below a level longer."""
        return self.machine.holds.others(pool, level) or self.machine.queues.nothing

    @property
    def taken(self) -> list[tuple[str, bool, Vector]]:
        return self.__dict__.setdefault("_taken", [])

    def _new(self, pools: tuple[str, ...], firm: bool = False) -> Vector:
        total = self.machine.queues.nothing
        for pool, preemptible, need in self.taken:
            if pool in pools and not (firm and preemptible):
                total = add(total, need)
        return total


def _lacking(amount: Vector, most: Vector, need: Vector) -> set[int]:
    """The kinds of which something is asked and too little is left."""
    columns = enumerate(zip(amount, most, need, strict=True))
    return {kind for kind, (have, least, want) in columns if want and 0 <= least < have}


def _beyond(amount: Vector, most: Vector, need: Vector) -> bool:
    return bool(_lacking(amount, most, need))


class Watched(World):
    """Compares each pass with the twin."""

    def quiet(self) -> list[Event]:
        if not self.machine.commands.asks:
            first = self.machine.decide(self.now, True, self.budget)
            twin = Twin(self.machine)
            lent = borrowed(first)
            assert sorted(set(admitted(first)) - set(lent)) == sorted(twin.entitled)
            assert sorted(set(ranked(first, 1)) - twin.parked) == sorted(twin.rises)
            assert sorted(ranked(first, 0)) == sorted(twin.falls)
            assert not lent or not (twin.entitled or twin.rises or twin.falls)
        said = super().quiet()
        self.keeps_the_rules()
        return said

    def keeps_the_rules(self) -> None:
        machine = self.machine
        for pool, row in machine.pools.items():
            holding = machine.usage[pool]
            assert not _beyond(holding.allocation, row.limit, holding.allocation)
            if pool != "/":
                assert not _beyond(holding.firm, row.reservation, holding.firm)
        for job_id, job in machine.queues.jobs.items():
            for key, part in job.parts.items():
                if machine.queues.is_ready(job, key) or (part.queued and part.returned):
                    assert part.refusal, (job_id, "waits and was not told why")
        root = machine.usage["/"]
        held = add(root.allocation, root.parked)
        room = [most - have for most, have in zip(machine.cell.capacity, held, strict=True)]
        for unit in Twin(machine).units:
            key = machine.queues.part_of(unit.job, unit.slots[0] - unit.job.base)
            if unit.state != "waits" or not unit.job.preemptible or not machine.order.waits((unit.job_id, key)):
                continue
            backs_off = machine.task_records.backoffs.get((unit.job.pool, machine.queues.backoff_key(unit.job, key)))
            levels = machine.usage.levels(unit.job.pool)
            need = machine.queues.unit_need(unit.job, key)
            limited = any(
                _beyond(add(machine.usage[level].allocation, need), machine.pools[level].limit, need)
                or machine.pools[level].closed
                for level in levels
            )
            credit = machine.pools[unit.job.pool].credit
            if any(need) and not limited and backs_off is None and credit is None:
                assert any(want > have for want, have in zip(need, room, strict=True) if want), "idle"


JOBS = st.fixed_dictionaries(
    {
        "pool": st.sampled_from(LEAVES),
        "instances": st.integers(1, 6),
        "need": st.fixed_dictionaries({"cpu": st.integers(0, 5), "memory": st.integers(0, 3)}),
        "priority": st.integers(0, 2),
        "preemptible": st.sampled_from([True, True, False]),
        "gang_min": st.sampled_from([0, 0, 2, 3]),
        "other": st.sampled_from([None, None, {"cpu": 1}, {"cpu": 4, "memory": 1}, {"memory": 3}]),
    }
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), JOBS),
        st.tuples(st.sampled_from(["place", "end", "retry", "return", "order", "answer"]), st.integers(0, 1000)),
        st.tuples(st.sampled_from(["priority", "place all", "close", "park"]), st.integers(0, 1000)),
        st.tuples(st.just("capacity"), st.integers(1, 40)),
        st.tuples(st.just("wait"), st.integers(1, 100)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    max_size=25,
)


TASKS = {"pool": "/a/y", "instances": 6, "need": {"cpu": 4}, "priority": 0, "preemptible": True, "gang_min": 0}
GANG_OF_3 = {"pool": "/a/x", "instances": 5, "need": {"cpu": 1}, "preemptible": False, "gang_min": 3}
BEYOND: list[tuple[str, Any]] = [("submit", TASKS), ("wait", 85), ("submit", TASKS | GANG_OF_3), *[("park", 0)] * 2]
"""Three tasks are entitled within the limit of /a and parked; then their pool is entitled to two and a half."""


@examples(100)
@example(5, 2, BEYOND)
@given(st.integers(0, 8), st.integers(0, 8), STEPS)
def test_any_history_keeps_the_rules(reserved_x: int, reserved_b: int, steps: list[tuple[str, Any]]) -> None:
    world = Watched({"cpu": 20, "memory": 20})
    both = {"cpu": reserved_x, "memory": reserved_x}
    world.define("/a", reservation=both, limit={"cpu": 15})
    world.define("/a/x", reservation=both)
    world.define("/a/y")
    world.define("/b", reservation=cpu(reserved_b), share={"cpu": 2, "memory": 1, "disk": 1, "gpu": 1})
    for number, (step, value) in enumerate(steps):
        if step == "submit":
            gang = min(value["gang_min"], value["instances"])
            other, spec = value.get("other"), {name: value[name] for name in value if name != "other"}
            if other:
                shapes = (TaskShape(other), TaskShape(spec["need"]))
                spec |= mixed((1, shapes[0]), (spec["instances"], shapes[1]), (1, shapes[0]))
            world.submit(f"j{number:02}", **{**spec, "gang_min": gang})
        elif step == "capacity":
            world.capacity({"cpu": value, "memory": 20})
        elif step == "wait":
            world.later(value * 1000, step=2000)
        elif step == "restart":
            world.restart()
            world.quiet()
        elif step == "answer":
            answer(world, value)
        elif step == "park":
            park(world)
        elif step == "close":
            closed = not world.machine.pools["/a"].closed
            world.define("/a", reservation=both, limit={"cpu": 15}, closed=closed)
        elif step == "priority":
            jobs = [*world.machine.queues.jobs]
            if jobs:
                job_id = jobs[value % len(jobs)]
                world.peer("lifecycle", JobPriorityChanged(job_id=job_id, priority=value % 4))
        else:
            act(world, step, value)


def act(world: Watched, step: str, value: int) -> None:
    """Something happens to one unit that holds, or to all of them."""
    twin = Twin(world.machine)
    arena = world.machine.queues.arena
    states = {
        "place": ("entitled without a place", "borrowed without a place"),
        "place all": ("entitled without a place", "borrowed without a place"),
        "return": ("entitled without a place", "borrowed without a place"),
        "order": ("entitled", "borrowed"),
    }
    held = [unit for unit in twin.units if unit.state in states.get(step, ("entitled", "borrowed"))]
    if step.startswith("place"):
        held = [unit for unit in held if twin.takes_room(unit.slots[0])]  # what is parked asks first
    if not held:
        return
    unit = held[value % len(held)]
    first, run = unit.slots[0] - unit.job.base, int(arena["held"][unit.slots[0]])
    runs = twin._runs(unit, "held")
    if step == "place":
        world.place(*runs)
    elif step == "place all":
        for _, units in groupby(held, key=lambda unit: unit.job_id):
            world.place(*(run for unit in units for run in twin._runs(unit, "held")))
    elif step == "return":
        lasting = value % 3 == 0 or unit.state == "entitled without a place"
        code = Code.NEVER_FITS if lasting else Code.NO_HOST_FITS
        world.give_back(unit.job_id, first, len(unit.slots), run, code, int(len(unit.slots) > 1))
    elif step == "order":
        order(world, unit, runs)
    else:
        world.end(*runs, kept=int(step == "retry"))


def park(world: Watched) -> None:
    """Placement parks whom it was asked to, and finds a place for those that are."""
    parked, arena = dict[bool, list[Range]](), world.machine.queues.arena
    twin = Twin(world.machine)
    for unit in filter(twin.is_parked, twin.units):
        first, run = unit.slots[0] - unit.job.base, int(arena["held"][unit.slots[0]])
        is_parked = bool((arena["rank"][unit.slots] == Rank.PARKED).all())
        parked.setdefault(is_parked, []).append((unit.job_id, first, len(unit.slots), run, int(len(unit.slots) > 1)))
    if False in parked:
        world.peer("placement", GangsParked(**ranges(parked[False])))
    none = {"job_ids": (), "job": b"", "instance": b"", "victim_run": b"", "way": b""}
    for job_id, first, count, run, _ in parked.get(True, ()):
        unit = {"job_id": job_id, "first": first, "count": count, "run": run}
        world.peer("placement", PreemptionAsked(**unit, **none, host_ids=("h",), tasks=pack_ints([count])))


def order(world: Watched, unit: Unit, runs: list[Run]) -> None:
    """Entitlement orders a unit to leave."""
    some = pack_ints([0] * len(runs))
    event = PreemptionsOrdered(
        order=world.machine.cell.orders + 1,
        **columns(runs),
        way=some,
        slice=some,
        from_pools=(unit.job.pool,),
        from_pool=some,
        for_pool="/b",
        for_job="other",
        for_first=0,
        for_count=1,
        for_run=1,
        code=Code.BELOW_ENTITLEMENT,
        host_ids=("h",),
    )
    world.decided(event)


def answer(world: Watched, value: int) -> None:
    """Lifecycle answers the first order: all have left, or none does."""
    number = min(world.machine.task_records.orders, default=0)
    if not number:
        return
    arena = world.machine.queues.arena
    left = value % 2 == 0
    runs = [
        (job_id, slot - job.base, int(arena["held"][slot]))
        for job_id, job in world.machine.queues.jobs.items()
        for slot in range(job.base, job.base + job.instances)
        if arena["leaving"][slot] == number
    ]
    if left and runs:
        world.end(*runs)
    stay = [] if left else runs
    fields = columns(stay)
    cause = Cause(machine="entitlement", round=1, index=0)
    code = Code.LEFT if left else Code.DEFERRED
    answered = PreemptionAnswered(number=number, order=cause, code=code, victims=len(runs), **fields)
    world.peer("lifecycle", answered)


def test_gangs_are_one_part() -> None:
    world = World(cpu(10))
    world.define("/p")
    world.submit("gang", instances=5, gang_min=3)
    roles = [key % ROLES for key in world.machine.queues.jobs["gang"].parts]
    assert roles == [GANG, 0]
