"""Jobs found by what rules look for are those that a pass over all jobs finds: every decision is the same."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from random import Random
from typing import Any

import numpy as np
import pytest

from events.columns import I64
from events.records.lifecycle import JobChanged
from events.records.parts import PlacementRules, TaskAffinity, TaskShape
from events.records.placement import TasksPlaced
from events.topology import HOST
from processors.placement import assignment, runs
from processors.placement.devices.board import DeviceBoard
from processors.placement.hosts import Hosts
from processors.placement.job_index import JobIndex, Label
from processors.placement.machine import Placement
from processors.placement.neighbours import Neighbours, Seen
from processors.placement.room.arrivals import Arrivals, arrival_hosts
from processors.placement.rows import JobRow
from processors.placement.runs import Runs
from processors.state.record_rows import AffinityRow, RulesRow
from processors.state.shapes import Shapes
from tests.helpers.drawn import seeds
from tests.helpers.machines import instances_changed, mixed
from tests.processors.placement.harness import World, hosts_of

LABELS = [("app", "a"), ("app", "b"), ("tier", "x")]
HOSTS = 6


class AllJobs(JobIndex):
    """The twin: looks at all jobs each time."""

    def __init__(self, jobs: Mapping[str, JobRow], shapes: Shapes) -> None:
        super().__init__(jobs, shapes)
        self._all, self._every = jobs, shapes

    def labelled(self, label: Label) -> list[tuple[str, JobRow]]:
        return [(job_id, row) for job_id, row in self._by_arrival() if row.labels.get(label[0]) == label[1]]

    def daemons(self) -> list[tuple[str, JobRow]]:
        return [(job_id, row) for job_id, row in self._by_arrival() if row.daemon]

    def shunned(self, labels: Mapping[str, str]) -> list[AffinityRow]:
        terms = (term for _, row in self._by_arrival() for term in self._terms(row))
        return sorted({term for term in terms if labels.get(term.label) == term.value}, key=str)

    def shunning(self, term: AffinityRow) -> list[tuple[str, JobRow]]:
        return [(job_id, row) for job_id, row in self._by_arrival() if term in self._terms(row)]

    def _by_arrival(self) -> list[tuple[str, JobRow]]:
        return sorted(self._all.items(), key=lambda job: job[1].number)

    def _terms(self, row: JobRow) -> Iterator[AffinityRow]:
        rules = (self._every[number].rules for number in row.shapes)
        return (term for each in rules if each for term in each.affinity if term.apart and not term.weight)


class AllTasks:
    """The twin of `Seen`: counts all tasks afresh each time."""

    def __init__(
        self,
        runs: Runs,
        hosts: Hosts,
        arrivals: Arrivals,
        devices: DeviceBoard | None = None,
        before: Sequence[tuple[str, int, I64]] = (),
    ) -> None:
        self.arrivals, self.devices = arrivals, devices
        self.runs, self.hosts, self._put = runs, hosts, [*before]

    def now(self) -> "AllTasks":
        return AllTasks(self.runs, self.hosts, self.arrivals, self.devices, self._put)

    def put(self, job_id: str, shape: int, hosts: I64) -> None:
        self._put.append((job_id, shape, hosts))

    def groups(self, over: str) -> I64:
        return np.arange(len(self.hosts.ids)) if over == HOST else self.hosts.constraints.groups(over)

    def rules_of(self, row: JobRow) -> list[RulesRow]:
        ruled = (self.runs.shapes[number].rules for number in row.shapes if number in self.runs.shapes.ruled)
        return [rules for rules in ruled if rules is not None]

    def hosts_of(self, job_id: str, row: JobRow) -> I64:
        return np.array([host for job, _, _, host in self._tasks() if job == job_id], dtype=np.int64)

    def labelled(self, label: Label, groups: I64) -> I64:
        return self._count(groups, (host for _, row, _, host in self._tasks() if label in row.labels.items()))

    def shunning(self, term: AffinityRow, groups: I64) -> I64:
        ruled = ((self.runs.shapes[shape].rules, host) for _, _, shape, host in self._tasks())
        return self._count(groups, (host for rules, host in ruled if rules and term in rules.affinity))

    def others(self, job_id: str) -> I64:
        tasks = (host for job, row, _, host in self._tasks() if job != job_id and not row.daemon)
        held = [arrival_hosts(self.arrivals, job) for job in self.arrivals if job != job_id]
        assert not any(self.runs.jobs[job].daemon for job in self.arrivals)
        return self._count(np.arange(len(self.hosts.ids)), chain(tasks, *(each.tolist() for each in held)))

    def arrivals_with(self, job_id: str, label: Label) -> I64:
        jobs = [job for job in self.arrivals if label in self.runs.jobs[job].labels.items() and job != job_id]
        return np.array([h for job in jobs for h in arrival_hosts(self.arrivals, job).tolist()], dtype=np.int64)

    def arrivals_having(self, job_id: str, term: AffinityRow) -> I64:
        parts = [part for job, of_job in self.arrivals.items() if job != job_id for part in of_job]
        ruled = ((self.runs.shapes[shape].rules, hosts) for shape, hosts in parts)
        there = [h for rules, hosts in ruled if rules and term in rules.affinity for h in hosts.tolist()]
        return np.array(there, dtype=np.int64)

    def _count(self, groups: I64, hosts: Iterator[int]) -> I64:
        counts = np.zeros(int(groups.max(initial=0)) + 1, dtype=np.int64)
        for host in hosts:
            counts[groups[host]] += 1
        return counts

    def _tasks(self) -> Iterator[tuple[str, JobRow, int, int]]:
        for job_id, row in self.runs.jobs.items():
            for slot in range(row.base, row.base + row.instances):
                if host := int(self.runs.arena["host"][slot]):
                    yield job_id, row, int(self.runs.arena["shape"][slot]), host - 1
            for job, shape, hosts in self._put:
                if job == job_id:
                    yield from ((job_id, row, shape, host) for host in hosts.tolist())


class AtFirst(Neighbours):
    """The twin: what was seen at first stays, and what was put since is counted on top."""

    def __init__(self, seen: Any, job_id: str, row: JobRow) -> None:
        super().__init__(seen.now(), job_id, row)

    def settle(self) -> None:
        pass


class _Story:
    """Jobs with labels and rules come, change, are counted anew, and go."""

    def __init__(self, seed: int) -> None:
        self.random, self.world = Random(seed), World()
        self.came = 0
        self.sizes: dict[str, int] = {}
        self.run_of: dict[tuple[str, int], int] = {}
        self.placed: dict[tuple[str, int], int] = {}
        for number in range(HOSTS):
            self.world.host(f"h{number}", cpu=8000, attributes={"rack": f"r{number % 3}"})

    def play(self, steps: int) -> World:
        ways = (self._comes, self._comes, self._ends, self._ends, self._updates, self._grows, self._goes)
        for _ in range(steps):
            before = len(self.world.said)
            self.random.choice(ways)()
            for job_id, instance, run in hosts_of(self.world.said[before:]):
                self.placed[job_id, instance] = run
        return self.world

    def _rules(self) -> PlacementRules | None:
        draw = self.random
        if draw.random() < 0.4:
            return None
        affinity = [
            TaskAffinity(*draw.choice(LABELS), draw.choice([HOST, "rack"]), draw.random() < 0.7, draw.choice([0, 0, 3]))
            for _ in range(draw.choice([0, 1, 1, 2]))
        ]
        return PlacementRules(
            host_limit=draw.choice([0, 0, 2]),
            exclusive=draw.random() < 0.1,
            affinity=tuple(dict.fromkeys(affinity)),
            spread_over=draw.choice(["", "", "rack"]),
        )

    def _shape(self) -> TaskShape:
        return TaskShape({"cpu": self.random.choice([500, 1000])}, rules=self._rules())

    def _comes(self) -> None:
        self.came, draw = self.came + 1, self.random
        job_id = f"j{draw.randint(0, 9)}-{self.came}"
        fields = mixed(*((draw.randint(1, 2), self._shape()) for _ in range(draw.randint(1, 2))))
        labels = dict(draw.sample(LABELS, draw.randint(0, 2)))
        self.sizes[job_id] = size = fields.pop("instances")
        self.run_of |= {(job_id, each): 1 for each in range(size)}
        gang = size if draw.random() < 0.2 else 0
        kind = draw.choice(["batch", "batch", "daemon"])
        self.world.run(job_id, size, gang_min=gang, labels=labels, kind=kind, **fields)

    def _ends(self) -> None:
        if self.placed:
            job_id, instance = self.random.choice([*self.placed])
            self.world.end((job_id, instance, self.placed.pop((job_id, instance))))

    def _updates(self) -> None:
        """The next run of a task asks something else."""
        over = [task for task in self.run_of if task not in self.placed]
        if over:
            job_id, instance = self.random.choice(over)
            run = self.run_of[job_id, instance] = self.run_of[job_id, instance] + 1
            self.world.end((job_id, instance, run - 1))
            self.world.requeue((job_id, instance, 1, run, 0), admitted=0, shape=self._shape())
            self.world.admit((job_id, instance, 1, run, 0))

    def _grows(self) -> None:
        if self.sizes:
            job_id = self.random.choice([*self.sizes])
            size = self.sizes[job_id]
            self.sizes[job_id] += 1
            self.run_of[job_id, size] = 1
            change = instances_changed(job_id, range(size), added=[size], shapes=[self._shape()])
            self.world.peer("lifecycle", change)
            self.world.admit((job_id, size, 1, 1, 0))

    def _goes(self) -> None:
        if len(self.sizes) > 3:
            job_id = self.random.choice([*self.sizes])
            self.sizes.pop(job_id)
            for tasks in (self.run_of, self.placed):
                for task in [each for each in tasks if each[0] == job_id]:
                    del tasks[task]
            self.world.peer("lifecycle", JobChanged(job_id=job_id, state="succeeded"))


@seeds(40, 6)
def test_rules_decide_as_if_they_looked_at_all_jobs_and_tasks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    said = _Story(seed).play(50).said
    monkeypatch.setattr(runs, "JobIndex", AllJobs)
    monkeypatch.setattr(assignment, "Seen", AllTasks)
    monkeypatch.setattr(assignment, "Neighbours", AtFirst)
    assert _Story(seed).play(50).said == said
    assert any(isinstance(event, TasksPlaced) for event in said)


def test_what_was_counted_in_a_decision_is_kept_up_as_tasks_are_put() -> None:
    for seed in range(4):
        machine = _Story(seed).play(30).machine
        seen, twin = Seen(machine.runs, machine.hosts, {}), AllTasks(machine.runs, machine.hosts, {})
        draw, ruled = Random(seed), [*machine.runs.jobs.items()]
        for _ in range(30):
            over = seen.groups(draw.choice([HOST, "rack"]))
            label = draw.choice(LABELS)
            assert seen.labelled(label, over).tolist() == twin.labelled(label, over).tolist()
            for term in machine.runs.index.shunned(dict([label])):
                assert seen.shunning(term, over).tolist() == twin.shunning(term, over).tolist()
            job_id, row = draw.choice(ruled)
            assert seen.others(job_id).tolist() == twin.others(job_id).tolist()
            shape = draw.choice([*row.shapes])
            hosts = np.array([draw.randrange(HOSTS) for _ in range(3)])
            seen.put(job_id, shape, hosts)
            twin.put(job_id, shape, hosts)


def _in_the_way(machine: Placement, job_id: str, rules: RulesRow, over: Callable[[str], I64], host: int) -> set[int]:
    """The twin: a look at each task of each other job."""
    runs, mine, slots = machine.runs, machine.runs.jobs[job_id], set()
    for other, row in runs.jobs.items():
        for slot in range(row.base, row.base + row.instances) if other != job_id else ():
            if not runs.arena["placed"][slot]:
                continue
            there, theirs = int(runs.arena["host"][slot]) - 1, runs.shapes[int(runs.arena["shape"][slot])].rules
            terms = [(term, row) for term in rules.affinity]
            terms += [(term, mine) for term in theirs.affinity] if theirs else []
            shun = [
                over(term.over)[there] == over(term.over)[host]
                for term, shunned in terms
                if term.apart and not term.weight and shunned.labels.get(term.label) == term.value
            ]
            if any(shun) or (rules.exclusive and there == host and not row.daemon):
                slots.add(slot)
    return slots


def test_who_is_in_the_way_of_a_task_is_found_by_label() -> None:
    found = 0
    for seed in range(6):
        machine = _Story(seed).play(30).machine
        seen = Seen(machine.runs, machine.hosts, {})
        for job_id, row in machine.runs.jobs.items():
            for rules in seen.rules_of(row):
                met = np.full(HOSTS, -1, dtype=np.int16), np.zeros((5, 1), dtype=np.int64)
                _, obstacles = Neighbours(seen, job_id, row).of(rules, *met).clearable()
                for host in range(HOSTS):
                    slots = {*obstacles.at(host)} if obstacles else set()
                    assert slots == _in_the_way(machine, job_id, rules, seen.groups, host)
                    found += len(slots)
    assert found


def test_jobs_that_no_rule_concerns_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """One job shuns what nobody has: the others, each with a label of its own, cost what they cost without it."""
    looked: list[int] = []
    rules_of = Seen.rules_of

    def counted(seen: Seen, row: JobRow) -> list[RulesRow]:
        looked.append(row.number)
        return rules_of(seen, row)

    monkeypatch.setattr(Seen, "rules_of", counted)
    world = World()
    world.host("h", cpu=100_000)
    nobody = PlacementRules(affinity=(TaskAffinity("app", "nobody", apart=True),))
    world.run("shy", **mixed((1, TaskShape({"cpu": 1}, rules=nobody))))
    for number in range(20):
        looked.clear()
        world.run(f"j{number}", cpu=1, labels={"app": f"a{number}"})
        assert {*looked} == {number + 1}
