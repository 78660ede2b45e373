"""Random histories: what is admitted equals what a naive twin admits gang by gang, and nothing is ever exceeded."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from events.codes import Code
from events.records.base import Event
from events.records.entitlement import PreemptionsOrdered
from events.records.parts import TaskShape
from events.resources import Vector, add
from processors.entitlement.machine import Entitlement
from tests.entitlement.harness import World, admitted, cpu
from tests.machines import Run, mixed, runs_of

LEAVES = ("/a/x", "/a/y", "/b")


def naive(machine: Entitlement) -> list[Run]:
    """What may be admitted now, gang by gang, straight from the rules."""
    shares, queues = machine.shares(), machine.queues
    held = {pool: row.allocation for pool, row in shares.items()}
    firm = dict(queues.non_preemptible)
    arena, out = queues.arena, []
    blocked: dict[str, tuple[str, list[int]]] = {}
    pools = sorted(
        (pool for pool in machine.pools if pool in LEAVES), key=lambda pool: (machine.pools[pool].served, pool)
    )

    def needs(slots: list[int]) -> Vector:
        total = queues.nothing
        for slot in slots:
            total = add(total, queues.need(int(arena["shape"][slot])))
        return total

    def over(job: Any, slots: list[int], exactly: bool) -> str:
        asked = needs(slots)
        reserved = machine.pools[job.pool].reservation
        levels = [job.pool] if job.pool == "/b" else [job.pool, "/a"]
        if any(want > have for want, have in zip(asked, machine.cell.capacity, strict=True)):
            return "never"
        if any(
            0 <= most < want for level in levels for want, most in zip(asked, machine.pools[level].limit, strict=True)
        ):
            return "never"
        if not job.preemptible and any(want > have for want, have in zip(asked, reserved, strict=True)):
            return "never"
        if not job.preemptible and any(
            want and want + has > have
            for want, has, have in zip(asked, firm.get(job.pool, queues.nothing), reserved, strict=True)
        ):
            return "firm"
        for level in levels:
            limits = zip(asked, held[level], machine.pools[level].limit, strict=True)
            if any(want and 0 <= most < has + want for want, has, most in limits):
                return "limit"
        for level in [*levels, "/"]:
            for want, has, may in zip(asked, held[level], shares[level].entitlement, strict=True):
                if want and (has + want > may if exactly or level == "/" else has >= may):
                    return "all"
        return ""

    def take(job_id: str, job: Any, slots: list[int]) -> None:
        for level in [job.pool, *(["/a"] if job.pool != "/b" else []), "/"]:
            held[level] = add(held[level], needs(slots))
        if not job.preemptible:
            firm[job.pool] = add(firm.get(job.pool, queues.nothing), needs(slots))
        out.extend((job_id, slot - job.base, int(arena["queued"][slot])) for slot in slots)

    for pool in pools:
        parts = sorted(
            (-job.priority, job.number, part.first, job_id, shape)
            for job_id, job in queues.jobs.items()
            if job.pool == pool
            for shape, part in job.parts.items()
            if not part.aside
        )
        firm_waits = False
        for *_, job_id, shape in parts:
            job = queues.jobs[job_id]
            if (firm_waits and not job.preemptible) or pool in blocked:
                continue
            stretch = range(job.base, job.base + job.instances)
            mine = [slot for slot in stretch if queues.part_of(job, slot - job.base) == shape]
            slots = [slot for slot in mine if arena["queued"][slot]]
            gang = [slot for slot in slots if slot < job.base + job.gang_min]
            units = (
                [gang]
                if gang and len({int(arena["queued"][slot]) for slot in gang}) == 1 and len(gang) == job.gang_min
                else []
            )
            units += [[slot] for slot in slots if slot >= job.base + job.gang_min]
            for unit in units:
                why = over(job, unit, True)
                if why:
                    firm_waits = firm_waits or why == "firm"
                    if why in ("all", "limit"):
                        blocked[pool] = (job_id, unit)
                    break
                take(job_id, job, unit)
    for pool in pools:
        if pool in blocked:
            job_id, unit = blocked[pool]
            if not over(queues.jobs[job_id], unit, False):
                take(job_id, queues.jobs[job_id], unit)
    return sorted(out)


class Watched(World):
    """Compares each round with the twin, and each preemption with the rules."""

    def quiet(self) -> list[Event]:
        if not self.machine.asks:
            expected = naive(self.machine)
            first = self.machine.decide(self.now, True, self.budget)
            assert sorted(admitted(first)) == expected
        shares = self.machine.shares()
        said = super().quiet()
        for event in said:
            if isinstance(event, PreemptionsOrdered):
                self.check_preemption(event, shares)
        for pool, row in self.machine.shares().items():
            assert all(
                have <= most or most < 0
                for have, most in zip(row.allocation, self.machine.pools[pool].limit, strict=True)
            )
            firm, reservation = (
                self.machine.queues.non_preemptible.get(pool, self.machine.queues.nothing),
                self.machine.pools[pool].reservation,
            )
            assert all(have <= most for have, most in zip(firm, reservation, strict=True))
        return said

    def check_preemption(self, event: PreemptionsOrdered, shares: Any) -> None:
        runs = runs_of(event)
        assert len(set(runs)) == len(runs)
        giver = self.machine.shares()[event.from_pool]
        assert any(have > may for have, may in zip(giver.allocation, giver.entitlement, strict=True))
        for job_id, instance, run in runs:
            row = self.machine.queues.jobs[job_id]
            assert row.preemptible
            assert row.pool == event.from_pool
            assert self.machine.queues.arena["held"][row.base + instance] == run
            assert (job_id, instance, run) not in self.asked, "asked twice"
            self.asked.add((job_id, instance, run))


JOBS = st.fixed_dictionaries(
    {
        "pool": st.sampled_from(LEAVES),
        "instances": st.integers(1, 6),
        "need": st.fixed_dictionaries({"cpu": st.integers(0, 5), "memory": st.integers(0, 3)}),
        "priority": st.integers(0, 2),
        "preemptible": st.booleans(),
        "gang_min": st.sampled_from([0, 0, 2, 3]),
        "other": st.sampled_from([None, None, {"cpu": 1}, {"cpu": 4, "memory": 1}, {"memory": 3}]),
    }
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), JOBS),
        st.tuples(st.sampled_from(["end", "retry", "return", "preempted"]), st.integers(0, 1000)),
        st.tuples(st.just("capacity"), st.integers(1, 40)),
        st.tuples(st.just("wait"), st.integers(1, 4)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    max_size=25,
)


@settings(max_examples=100)
@given(st.integers(0, 8), st.integers(0, 8), STEPS)
def test_any_history_keeps_the_rules(reserved_x: int, reserved_b: int, steps: list[tuple[str, Any]]) -> None:
    world = Watched({"cpu": 20, "memory": 20})
    world.asked = set()
    both = {"cpu": reserved_x, "memory": reserved_x}
    world.define("/a", reservation=both, limit={"cpu": 15})
    world.define("/a/x", reservation=both)
    world.define("/a/y")
    world.define("/b", reservation=cpu(reserved_b), share={"cpu": 2, "memory": 1, "disk": 1, "gpu": 1})
    for number, (step, value) in enumerate(steps):
        if step == "submit":
            gang = min(value["gang_min"], value["instances"])
            other, spec = value["other"], {name: value[name] for name in value if name != "other"}
            if other:
                shapes = (TaskShape(other), TaskShape(spec["need"]))
                spec |= mixed((1, shapes[0]), (spec["instances"], shapes[1]), (1, shapes[0]))
            world.submit(f"j{number:02}", **{**spec, "gang_min": gang})
        elif step == "capacity":
            world.capacity({"cpu": value, "memory": 20})
        elif step == "wait":
            world.later(value * 1000, step=500)
        elif step == "restart":
            world.restart()
            world.quiet()
        else:
            act(world, step, value)


def act(world: Watched, step: str, value: int) -> None:
    """Ends, retries or returns one run that holds, its whole gang where it is in one."""
    arena = world.machine.queues.arena
    held = [
        (job_id, row, slot - row.base, int(arena["held"][slot]))
        for job_id, row in world.machine.queues.jobs.items()
        for slot in range(row.base, row.base + row.instances)
        if arena["held"][slot] and (step != "preempted" or arena["leaving"][slot])
    ]
    if not held:
        return
    job_id, row, instance, run = held[value % len(held)]
    first, count = (0, row.gang_min) if instance < row.gang_min else (instance, 1)
    runs = [(job_id, at, run) for at in range(first, first + count)]
    if step == "return":
        when = 0 if value % 3 == 0 else world.now + 1000 * (value % 5 + 1)
        world.give_back(job_id, first, count, run, Code.NO_HOST_FITS, when, int(count > 1))
        return
    world.end(*runs, kept=int(step == "retry"))
    if step == "preempted":
        if count > 1:
            world.requeue_gang(job_id, count, run + 1)
        else:
            world.requeue(*((job, at, run + 1) for job, at, _ in runs))
