"""Random cells, rights and asks: what is said of rights is what follows from the state, and every ask has one answer.

It is that of a naive judge that counts everything anew.
"""

from random import Random

from events.codes import Code, Way
from events.columns import ints, pack_ints
from events.records.entitlement import PreemptionRefused, PreemptionsOrdered
from events.records.placement import PreemptionAsked
from processors.state.displacements import HOUR_MS
from processors.state.preemption_rules import Flag
from tests.helpers.counted import lines
from tests.helpers.drawn import seeds
from tests.helpers.machines import columns
from tests.processors.entitlement.preempting import World, wide

POOLS = ("a", "b", "c")
SECOND = 1000
PER_HOUR = 2
Unit = tuple[str, int, int]
"""Job, first instance, count."""


class Naive:
    """Knows each task by itself: its run, whether it has a place, for what order it leaves, what happened to it."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.world = World()
        self.jobs: dict[str, dict[str, object]] = {}
        self.tasks: dict[tuple[str, int], dict[str, int]] = {}
        self.entitled: dict[str, tuple[int, ...]] = {}
        self.reserved: dict[str, tuple[int, ...]] = {}
        self.times: dict[tuple[str, int], list[int]] = {}
        self.slices: dict[tuple[str, int], int] = {}
        self.spared: dict[tuple[str, int], int] = {}
        self.orders: dict[int, tuple[PreemptionsOrdered, list[tuple[str, int, int, bool]]]] = {}
        for pool in POOLS:
            self.reserved[pool] = (random.choice((0, 0, 3)), random.choice((0, 2)))
            self.world.pool(f"/{pool}", self.reserved[pool])
        self.world.settings(preemptions_per_hour=PER_HOUR)
        self.entitle()

    def entitle(self) -> None:
        self.entitled = {pool: (self.random.choice((0, 1, 3, 9, 20)), self.random.choice((0, 2, 9))) for pool in POOLS}
        self.world.entitle(**self.entitled)

    def submit(self) -> None:
        random, name = self.random, f"j{len(self.jobs)}"
        gang = random.choice((0, 0, 2, 3))
        job = {
            "pool": random.choice(POOLS),
            "need": (random.randrange(1, 4), random.randrange(3)),
            "priority": random.randrange(3),
            "preemptible": random.random() < 0.85,
            "gang": gang,
            "instances": gang + random.randrange(0 if gang else 1, 4),
        }
        self.jobs[name] = job
        spec = {name: job[name] for name in ("priority", "preemptible")}
        self.world.submit(name, f"/{job['pool']}", job["instances"], job["need"], gang_min=gang, **spec)
        for _, first, count in self.units(name):
            self.admit((name, first, count), 1)

    def units(self, name: str) -> list[Unit]:
        gang, instances = self.jobs[name]["gang"], self.jobs[name]["instances"]
        return [(name, 0, gang)] * bool(gang) + [(name, each, 1) for each in range(gang, instances)]

    def admit(self, unit: Unit, run: int) -> None:
        name, first, count = unit
        entitled = int(self.random.random() < 0.7)
        self.world.admit(name, first, count, run=run, entitled=entitled, gang=int(count > 1))
        for each in range(first, first + count):
            due = self.world.now if entitled else 0
            self.tasks[name, each] = {"run": run, "entitled": entitled, "due": due, "placed": 0, "leaving": 0}

    def place(self) -> None:
        waiting = [unit for unit in self.all_units() if not self.task(unit)["placed"]]
        waiting = [unit for unit in waiting if self.random.random() < (0.3 if self.task(unit)["entitled"] else 0.9)]
        if waiting:
            name, first, count = self.random.choice(waiting)
            run = self.task((name, first, count))["run"]
            self.world.place(*((name, each, run) for each in range(first, first + count)))
            for each in range(first, first + count):
                self.tasks[name, each]["placed"] = self.world.now

    def all_units(self) -> list[Unit]:
        return [unit for name in self.jobs for unit in self.units(name)]

    def task(self, unit: Unit) -> dict[str, int]:
        return self.tasks[unit[:2]]

    def amount(self, unit: Unit) -> tuple[int, ...]:
        return tuple(each * unit[2] for each in self.jobs[unit[0]]["need"])

    def stays(self, pool: str) -> list[int]:
        total = [0, 0]
        for unit in self.all_units():
            task = self.task(unit)
            if self.jobs[unit[0]]["pool"] == pool and task["placed"] and not task["leaving"]:
                total = [have + more for have, more in zip(total, self.amount(unit), strict=True)]
        return total

    def claims(self, pool: str) -> list[Unit]:
        """In the order of the queue."""
        found = [
            (-self.jobs[unit[0]]["priority"], int(unit[0][1:]), unit[1], unit)
            for unit in self.all_units()
            if self.jobs[unit[0]]["pool"] == pool and self.task(unit)["entitled"] and not self.task(unit)["placed"]
        ]
        return [unit for *_, unit in sorted(found)]

    def ready(self, unit: Unit) -> bool:
        settled = max((self.times.get((unit[0], each), [0])[-1] for each in members(unit)), default=0)
        due = -(-self.task(unit)["due"] // SECOND) * SECOND
        return self.world.now >= due + 120 * SECOND and (not settled or self.world.now >= settled + 600 * SECOND)

    def ask(self) -> None:
        units = [unit for pool in POOLS for unit in self.claims(pool)]
        placed = [unit for unit in self.all_units() if self.task(unit)["placed"]]
        if not units or not placed:
            return
        ready = [unit for unit in units if self.ready(unit)]
        unit = self.random.choice(ready if ready and self.random.random() < 0.95 else units)
        placed.sort(key=lambda victim: self.gain(victim) + self.random.randrange(4), reverse=True)
        chosen = placed[: self.random.randrange(1, 4)]
        ways = []
        for victim in chosen:
            own = self.jobs[victim[0]]["pool"] == self.jobs[unit[0]]["pool"]
            ways.append(Way.OWN if own else self.random.choice((Way.GIVE, Way.GIVE, Way.GIVE, Way.MOVE, Way.CLEAR)))
        runs = [
            (victim[0], each, self.task(victim)["run"], way)
            for victim, way in zip(chosen, ways, strict=True)
            for each in members(victim)
        ]
        expected = self.judge(unit, list(zip(chosen, ways, strict=True)))
        answer = self.world.ask(unit[0], unit[1], unit[2], *runs, run=self.task(unit)["run"])
        if isinstance(answer, PreemptionRefused):
            assert (answer.code, answer.victim_job_id, answer.victim_instance) == expected
            return
        assert expected is None or not isinstance(expected[0], str), (expected, answer)
        assert ints(answer.slice).tolist() == expected
        self.orders[answer.order] = (
            answer,
            [(*run[:3], bool(by_slice)) for run, by_slice in zip(runs, expected, strict=True)],
        )
        for run in runs:
            self.tasks[run[:2]]["leaving"] = answer.order

    def gain(self, victim: Unit) -> int:
        """How far its pool is above its entitlement."""
        pool = self.jobs[victim[0]]["pool"]
        excess = [have - less for have, less in zip(self.stays(pool), self.entitled[pool], strict=True)]
        return max(excess) - 100 * (not self.jobs[victim[0]]["preemptible"])

    def judge(self, unit: Unit, victims: list[tuple[Unit, Way]]) -> object:
        """A refusal as code, job, instance; or for each run whether it uses up its slice."""
        pool, now = self.jobs[unit[0]]["pool"], self.world.now
        if not self.ready(unit):
            return Code.NO_RIGHT, "", 0
        stays = {each: self.stays(each) for each in POOLS}
        others = [have - there for have, there in zip(self.entitled[pool], stays[pool], strict=True)]
        below = [min(have, most) for have, most in zip(self.entitled[pool], self.reserved[pool], strict=True)]
        below = [have - there for have, there in zip(below, stays[pool], strict=True)]
        for claim in self.claims(pool):
            if claim == unit:
                break
            others = [have - less for have, less in zip(others, self.amount(claim), strict=True)]
            below = [have - less for have, less in zip(below, self.amount(claim), strict=True)]
        need, taken, slices = self.amount(unit), [0, 0], []
        firmly = any(want and have > 0 for want, have in zip(need, below, strict=True))
        waited = now - -(-self.task(unit)["due"] // SECOND) * SECOND
        for victim, way in victims:
            name, task, job = victim[0], self.task(victim), self.jobs[victim[0]]
            no = (name, victim[1])
            mine, giver = self.amount(victim), job["pool"]
            if task["leaving"]:
                return Code.VICTIM_GONE, *no
            keys = [(name, each) for each in members(victim)]
            recent = [len([at for at in self.times.get(key, ()) if at + HOUR_MS > now]) for key in keys]
            used = max(self.slices.get(key, 0) for key in keys)
            placed = -(-task["placed"] // SECOND) * SECOND
            over = now - placed >= 900 * SECOND * 2 ** min(used, 4)
            if not job["preemptible"]:
                return Code.NON_PREEMPTIBLE, *no
            if max(recent) >= PER_HOUR and not firmly:
                return Code.CAP_REACHED, *no
            by_slice, code = False, ""
            if way == Way.OWN:
                lower = job["priority"] < self.jobs[unit[0]]["priority"] or not task["entitled"]
                code = "" if lower else Code.NO_RIGHT
            elif way == Way.MOVE:
                code = "" if waited >= 300 * SECOND else Code.NO_RIGHT
            elif way == Way.CLEAR:
                reserved = [min(e, r) for e, r in zip(self.entitled[giver], self.reserved[giver], strict=True)]
                spare = [have - less for have, less in zip(stays[giver], reserved, strict=True)]
                after = 300 if firmly else 1800
                if waited < after * SECOND or any(m and m > s for m, s in zip(mine, spare, strict=True)):
                    code = Code.NO_RIGHT
                elif not firmly:
                    by_slice, code = True, "" if over else Code.SLICE_NOT_OVER
            else:
                excess = [have - less for have, less in zip(stays[giver], self.entitled[giver], strict=True)]
                kinds = [k for k in (0, 1) if mine[k] and need[k] and excess[k] > 0]
                if not any(taken[k] < others[k] for k in kinds):
                    code = Code.NO_RIGHT
                for k in kinds:
                    if mine[k] <= excess[k]:
                        continue
                    reserved = min(self.entitled[giver][k], self.reserved[giver][k])
                    if firmly and stays[giver][k] - mine[k] >= reserved:
                        continue
                    after, before = mine[k] - excess[k], others[k] - taken[k]
                    if after * self.entitled[pool][k] < before * self.entitled[giver][k]:
                        continue
                    by_slice = True
                if by_slice and not code and not over:
                    code = Code.SLICE_NOT_OVER
                by_slice = over
                if not code:
                    taken = [have + more for have, more in zip(taken, mine, strict=True)]
            if not code and max(self.spared.get(key, 0) for key in keys) > now:
                code = Code.DEFERRED
            if code:
                return code, *no
            stays[giver] = [have - less for have, less in zip(stays[giver], mine, strict=True)]
            slices += [int(by_slice)] * victim[2]
        return slices

    def answer(self) -> None:
        if not self.orders:
            return
        number = self.random.choice(list(self.orders))
        order, runs = self.orders.pop(number)
        if self.random.random() < 0.3:
            name, instance, run, _ = self.random.choice(runs)
            self.world.answered(order, "DEFERRED", (name, instance, run))
            self.spared[name, instance] = self.world.now + 600 * SECOND
            for run in runs:
                self.tasks[run[:2]]["leaving"] = 0
            return
        self.world.leave(order)
        for name, instance, _, by_slice in runs:
            self.times.setdefault((name, instance), []).append(self.world.now)
            self.slices[name, instance] = self.slices.get((name, instance), 0) + by_slice
        for unit in dict.fromkeys(self.unit_of(name, instance) for name, instance, *_ in runs):
            self.admit(unit, self.task(unit)["run"] + 1)

    def unit_of(self, name: str, instance: int) -> Unit:
        return next(unit for unit in self.units(name) if instance in members(unit))

    def look(self) -> None:
        """What placement knows is what follows from the state."""
        machine, now = self.world.machine, self.world.now
        of_pools = [machine.claims.rights_of_pool(f"/{pool}", now) for pool in POOLS]
        rights = {task: right for of_pool in of_pools for task, right in of_pool.items()}
        mine = {unit[:2] for pool in POOLS for unit in self.claims(pool) if self.ready(unit)}
        told = {(name, first + at) for (name, first), right in rights.items() for at in range(right.count)}
        gangs = {(name, first + at) for name, first in mine for at in range(self.unit_of(name, first)[2])}
        assert told == gangs
        assert self.world.rights == rights
        clears = any(right.flags & Flag.CLEAR for right in rights.values())
        if rights:
            rows = {f"/{pool}": machine.claims.giver_row(f"/{pool}", clears) for pool in POOLS}
            assert self.world.givers == {pool: row for pool, row in rows.items() if row is not None}
            for pool in POOLS:
                row = rows[f"/{pool}"]
                excess = [have - less for have, less in zip(self.stays(pool), self.entitled[pool], strict=True)]
                assert row is None or row.excess == wide([max(0, each) for each in excess])


def members(unit: Unit) -> range:
    return range(unit[1], unit[1] + unit[2])


@seeds(12, 3)
def test_rights_and_answers_are_those_of_a_naive_judge(seed: int) -> None:
    naive = Naive(Random(seed))
    for _ in range(150):
        steps = (*[naive.submit] * 2, *[naive.place] * 3, *[naive.ask] * 6, *[naive.answer] * 2, naive.entitle)
        if len(naive.jobs) > 9:
            steps = steps[2:]
        naive.random.choice(steps)()
        if naive.random.random() < 0.5:
            naive.world.pass_time(naive.random.choice((1, 7, 61, 130, 700, 2000)) * SECOND)
        naive.look()


def full(tasks: int) -> World:
    """A pool holds many single tasks, and another is entitled to half of them."""
    world = World(budget=10_000)
    world.pool("/a")
    world.pool("/b")
    world.entitle(a=(tasks // 2, 0), b=(tasks // 2, 0))
    world.run("old", "/a", tasks, (1, 0))
    world.submit("new", "/b", tasks // 2, (1, 0), gang_min=tasks // 2)
    world.admit("new", 0, tasks // 2, gang=1)
    world.pass_time(130 * SECOND)
    return world


def ask_for(world: World, *instances: int) -> PreemptionsOrdered | PreemptionRefused:
    gang = world.machine.queues.jobs["new"].instances
    return world.ask("new", 0, gang, *(("old", each, 1, Way.GIVE) for each in instances))


def test_the_first_of_many_alike_that_may_not_go_is_named() -> None:
    answer = ask_for(full(40), *range(35, 10, -1))
    assert isinstance(answer, PreemptionRefused)
    assert (answer.code, answer.victim_instance) == (Code.NO_RIGHT, 15)


def test_a_task_is_asked_for_once() -> None:
    answer = ask_for(full(40), 3, 4, 5, 4, 6)
    assert isinstance(answer, PreemptionRefused)
    assert (answer.code, answer.victim_instance) == (Code.VICTIM_GONE, 4)


def test_tasks_of_which_one_has_gone_are_told_apart() -> None:
    world = full(40)
    world.end(("old", 7, 1))
    answer = ask_for(world, 5, 6, 7, 8)
    assert isinstance(answer, PreemptionRefused)
    assert (answer.code, answer.victim_instance) == (Code.VICTIM_GONE, 7)


def test_ten_times_as_many_victims_that_are_alike_are_not_ten_times_the_work() -> None:
    def cost(tasks: int) -> int:
        world = full(tasks)
        world.busy = True
        ask_for_half = [("old", each, 1, Way.GIVE) for each in range(tasks // 2)]
        fields = columns([victim[:3] for victim in ask_for_half])
        fields["victim_run"] = fields.pop("run")
        way = pack_ints([Way.GIVE] * len(ask_for_half))
        event = PreemptionAsked(
            job_id="new", first=0, count=tasks // 2, run=1, host_ids=("h",), tasks=pack_ints([1]), way=way, **fields
        )
        world.peer("placement", event)
        return lines(lambda: world.machine.decide(world.now, True, 10_000))

    assert cost(400) < 1.5 * cost(40) + 100
