"""Random histories: whatever happens in whatever order, no host is over its capacity and no gang is divided."""

from collections.abc import Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from events.codes import Code, Outcome, Stage
from events.ranks import Rank
from events.reasons import LASTING
from events.records.base import Event
from events.records.hosts import GatewayBeat
from events.records.lifecycle import JobChanged
from events.records.parts import Constraint, TaskShape
from events.records.placement import (
    CapacityChanged,
    GangsReturned,
    GangsUnplaced,
    HostLost,
    HostMaintenanceChanged,
    HostRemoved,
    HostsAnswered,
)
from processors.placement.homes import HOME_MS
from tests.helpers.drawn import ALL, drawn
from tests.helpers.machines import Run, mixed, of, one, ranges_of
from tests.processors.placement.harness import World, offered, places

HOSTS = st.sampled_from(["h0", "h1", "h2"])
RULES = st.sampled_from([(), (Constraint("rack", "in", ("r0",)),), (Constraint("rack", "not_in", ("r0",)),)])
PORTS = st.sampled_from([(0, ()), (1, ()), (2, ()), (1, (31_000,)), (1, (8080,)), (2, (0, 8080)), (2, (31_001, 0))])
"""How many ports, and which numbers they must have."""
SHAPES = st.builds(
    lambda resources, ports, constraints, strategy: TaskShape(resources, ports[0], constraints, strategy, ports[1]),
    resources=st.fixed_dictionaries({"cpu": st.integers(0, 3), "gpu": st.integers(0, 1)}),
    ports=PORTS,
    constraints=RULES,
    strategy=st.sampled_from(["pack", "spread"]),
)
PARTS = st.lists(st.tuples(st.integers(1, 4), SHAPES), min_size=1, max_size=3)


class History(RuleBasedStateMachine):
    """Knows by itself what hosts offer, which runs hold what, and which tasks wait for what."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.world.configure(drain_force=True)
        self.offers: dict[str, tuple[int, int, int, str]] = {}
        """Of hosts that tasks may be put on: cpu, GPU, ports, rack."""
        self.returning: dict[str, tuple[int, int, int, str]] = {}
        self.silent: dict[str, tuple[int, int, int, str]] = {}
        self.known: set[str] = set()
        self.came = 0
        self.gangs: dict[str, int] = {}
        self.asks: dict[tuple[str, int], TaskShape] = {}
        """Of each task that ever was."""
        self.runs: dict[tuple[str, int], int] = {}
        self.waiting: set[tuple[str, int]] = set()
        self.held: dict[tuple[str, int], tuple[str, tuple[int, ...]]] = {}
        self.claims: dict[tuple[str, int], bool] = {}
        """Of each task that is admitted, whether it is entitled; of one with a kept admission too."""

        self.closed: set[str] = set()
        """Hosts that operators have cordoned or drained."""
        self.homes: dict[tuple[str, int], tuple[str, TaskShape, int]] = {}
        """Of tasks to whose next run a host is kept for sure: the host, what is kept, and since when."""

    def take(self, said: Sequence[Event]) -> None:
        for host in of(said, HostLost):
            del self.silent[host.host_id]
        gone_ids = [host.host_id for host in (*of(said, HostLost), *of(said, HostRemoved))]
        self.homes = {task: home for task, home in self.homes.items() if home[0] not in gone_ids}
        for gone in of(said, HostRemoved):
            assert gone.host_id not in self.offers.keys() | self.returning.keys()
            assert gone.host_id not in [at for at, _ in self.held.values()]
            self.away(gone.host_id)
            self.known.remove(gone.host_id)
            self.closed.discard(gone.host_id)
        versions = [event.version for event in of(said, CapacityChanged)]
        assert versions == sorted(set(versions))
        self.placed(places(said))
        for changed in of(said, HostMaintenanceChanged):
            for host_id, stage in zip(changed.host_ids, changed.stage_array.tolist(), strict=True):
                assert stage != Stage.DRAINED or host_id not in [at for at, _ in self.held.values()]
        for event in of(said, GangsUnplaced):
            assert sum(event.hosts_by_reason.values()) == event.hosts_considered == len(self.known)
        for event in of(said, GangsReturned):
            for job, first, count, run, gang in ranges_of(event):
                assert not gang or (first, count) == (0, self.gangs[job])
                for instance in range(first, first + count):
                    assert self.runs[job, instance] == run
                    self.waiting.remove((job, instance))
                    assert not self.claims.pop((job, instance)) or event.code in LASTING
        for name, gang in self.gangs.items():
            where = {((name, i) in self.held, (name, i) in self.waiting) for i in range(gang)}
            assert len(where) <= 1, "a gang is held, waits or is gone as a whole"
        runs = self.world.machine.runs
        assert runs.waits.tasks.keys() == {job for job, _ in self.waiting}
        ranks = {task: Rank.ENTITLED if claims else Rank.BORROWED for task, claims in self.claims.items()}
        for (job, instance), rank in (dict.fromkeys(self.runs, 0) | ranks).items():
            assert runs.arena["rank"][runs.jobs[job].base + instance] == rank

    def placed(self, placed: dict[Run, tuple[str, tuple[int, ...]]]) -> None:
        for (job, instance, run), (host, ports) in placed.items():
            assert self.runs[job, instance] == run
            self.waiting.remove((job, instance))
            self.held[job, instance] = host, ports
            self.homes.pop((job, instance), None)
        for (job, instance, _), (host, ports) in placed.items():
            assert host not in self.closed
            asks = self.asks[job, instance]
            cpu_there, gpu_there, ports_there, rack = self.offers[host]
            here = [(self.asks[task].resources, mine) for task, (at, mine) in self.held.items() if at == host]
            here += [(shape.resources, ()) for at, shape, _ in self.homes.values() if at == host]
            for name, most in (("cpu", cpu_there), ("gpu", gpu_there)):
                assert not asks.resources[name] or sum(need[name] for need, _ in here) <= most
            numbers = [port for _, mine in here for port in mine]
            assert len(numbers) == len(set(numbers))
            assert len(ports) == asks.ports
            for port, fixed in zip(ports, asks.port_numbers or (0,) * len(ports), strict=True):
                assert port == fixed if fixed else 31_000 <= port < 31_000 + ports_there
            assert all((rack in one.values) == (one.operator == "in") for one in asks.constraints)

    def away(self, host: str) -> None:
        for hosts in (self.offers, self.returning, self.silent):
            hosts.pop(host, None)

    @rule(
        host=HOSTS,
        cpu=st.integers(0, 6),
        gpu=st.integers(0, 2),
        ports=st.integers(1, 4),
        rack=st.sampled_from(["r0", "r1"]),
    )
    def connects(self, host: str, cpu: int, gpu: int, ports: int, rack: str) -> None:
        self.away(host)
        self.known.add(host)
        self.returning[host] = (cpu, gpu, ports, rack)
        self.take(self.world.connect(host, cpu=cpu, gpu=gpu, port_last=30_999 + ports, attributes={"rack": rack}))

    @rule(host=HOSTS)
    def is_settled(self, host: str) -> None:
        if host in self.returning:
            self.offers[host] = self.returning.pop(host)
            self.take(self.world.reconcile(host))

    @rule(host=HOSTS, cpu=st.integers(-1, 6))
    def offers_something_else(self, host: str, cpu: int) -> None:
        if host in self.offers:
            _, gpu, ports, rack = self.offers[host]
            if cpu < 0:
                self.away(host)
            else:
                self.offers[host] = (cpu, gpu, ports, rack)
            session = self.world.sessions[host]
            offer = offered(host, session, cpu=cpu, gpu=gpu, port_last=30_999 + ports, attributes={"rack": rack})
            self.take(self.world.fact(offer))

    @rule(host=HOSTS)
    def falls_silent(self, host: str) -> None:
        if host in self.offers:
            self.silent[host] = self.offers.pop(host)
            self.take(self.world.silence(host))

    @rule(host=HOSTS)
    def is_heard_again(self, host: str) -> None:
        if host in self.silent:
            self.offers[host] = self.silent.pop(host)
            self.take(self.world.hear(host))

    @rule(host=HOSTS, lost=st.booleans())
    def an_operator_says_that_it_has_left(self, host: str, lost: bool) -> None:
        if lost:
            self.take(self.world.confirm(host))
        self.take(self.world.remove(host))

    @rule(
        hosts=st.sets(HOSTS, min_size=1),
        what=st.sampled_from(["drain", "drain", "cordon", "resume"]),
        deadline_ms=st.sampled_from([0, 500, 20_000]),
        escalate=st.sampled_from(["wait", "preempt", "force"]),
    )
    def an_operator_empties_hosts(self, hosts: set[str], what: str, deadline_ms: int, escalate: str) -> None:
        if hosts <= self.known:
            self.closed = self.closed - hosts if what == "resume" else self.closed | hosts
            self.homes = {task: home for task, home in self.homes.items() if home[0] not in self.closed}
        names = sorted(hosts)
        if what == "drain":
            said = self.world.drain(*names, deadline_ms=deadline_ms, escalate=escalate, force_after_ms=500)
        else:
            said = self.world.cordon(*names) if what == "cordon" else self.world.resume(*names)
        refused = one(said, HostsAnswered).code == Code.NOT_FOUND
        assert refused == (not hosts <= self.known)
        self.take(said)

    @rule(ms=st.sampled_from([10, 900, 7_000, 30_000, 61_000, 8 * 86_400_000]), beat=st.booleans())
    def time_passes(self, ms: int, beat: bool) -> None:
        latest = self.world.now + ms - HOME_MS
        self.homes = {task: home for task, home in self.homes.items() if home[2] > latest}
        self.take(self.world.later(ms))
        if beat:
            self.take(self.world.fact(GatewayBeat(gateway="g")))

    @rule(parts=PARTS, gang=st.sampled_from([0, 0, 2, 3]), claims=st.booleans())
    def a_job_comes(self, parts: list[tuple[int, TaskShape]], gang: int, claims: bool) -> None:
        self.came += 1
        name = f"j{self.came}"
        tasks = [shape for count, shape in parts for _ in range(count)]
        self.gangs[name] = gang = gang if gang <= len(tasks) else 0
        self.asks |= {(name, instance): shape for instance, shape in enumerate(tasks)}
        self.runs |= {(name, instance): 1 for instance in range(len(tasks))}
        self.waiting |= {(name, instance) for instance in range(len(tasks))}
        self.claims |= {(name, instance): claims for instance in range(len(tasks))}
        self.take(self.world.run(name, gang_min=gang, entitled=int(claims), **mixed(*parts)))

    @rule(data=st.data(), claims=st.booleans())
    def work_becomes_a_claim_or_borrowed(self, data: st.DataObject, claims: bool) -> None:
        if self.claims:
            job, instance = data.draw(st.sampled_from(sorted(self.claims)))
            first, count = self.unit(job, instance)
            self.claims |= {(job, one): claims for one in range(first, first + count)}
            what = (job, first, count, self.runs[job, instance], int(count > 1))
            self.take(self.world.rank(what, entitled=int(claims)))

    def unit(self, job: str, instance: int) -> tuple[int, int]:
        """First instance and count."""
        gang = self.gangs[job]
        return (0, gang) if instance < gang else (instance, 1)

    @rule(data=st.data(), kept=st.booleans(), hold=st.booleans(), lost=st.booleans())
    def a_task_ends(self, data: st.DataObject, kept: bool, hold: bool, lost: bool) -> None:
        if not self.runs:
            return
        job, instance = data.draw(st.sampled_from(sorted(self.runs)))
        first, count = self.unit(job, instance)
        ends = [(job, one) for one in range(first, first + count)]
        for task in ends:
            host, _ = self.held.pop(task, ("", ()))
            self.waiting.discard(task)
            if hold and host and host not in self.closed:
                self.homes[task] = (host, self.asks[task], self.world.now)
            elif not hold:
                self.homes.pop(task, None)
            if not kept:
                self.claims.pop(task, None)
        runs, outcome = [(*task, self.runs[task]) for task in ends], Outcome.LOST if lost else Outcome.SUCCEEDED
        self.take(self.world.end(*runs, kept=int(kept), hold=int(hold), outcome=outcome))
        for task in ends:
            self.runs[task] += 1

    @rule(data=st.data(), claims=st.booleans(), shape=st.none() | SHAPES)
    def work_is_admitted_again(self, data: st.DataObject, claims: bool, shape: TaskShape | None) -> None:
        idle = sorted(self.runs.keys() - self.held.keys() - self.waiting)
        if not idle:
            return
        job, instance = data.draw(st.sampled_from(idle))
        first, count = self.unit(job, instance)
        tasks = [(job, one) for one in range(first, first + count)]
        what = (job, first, count, self.runs[job, instance], int(count > 1))
        kept = (job, instance) in self.claims
        self.asks |= dict.fromkeys(tasks, shape) if shape else {}
        for task in (task for task in tasks if shape and task in self.homes):
            host, had, since = self.homes.pop(task)
            if all(shape.resources[name] <= most for name, most in had.resources.items()):
                self.homes[task] = (host, shape, since)
        self.waiting |= {*tasks} if kept else set()
        if kept or shape:
            self.take(self.world.requeue(what, admitted=int(kept), shape=shape))
        if not kept:
            self.waiting |= {*tasks}
            self.claims |= dict.fromkeys(tasks, claims)
            self.take(self.world.admit(what, entitled=int(claims)))

    @rule(data=st.data())
    def a_job_ends(self, data: st.DataObject) -> None:
        over = sorted(self.gangs.keys() - {job for job, _ in (*self.held, *self.waiting)})
        if over:
            job = data.draw(st.sampled_from(over))
            del self.gangs[job]
            for task in [task for task in self.runs if task[0] == job]:
                del self.runs[task], self.asks[task]
                self.claims.pop(task, None)
                self.homes.pop(task, None)
            self.take(self.world.peer("lifecycle", JobChanged(job_id=job, state="KILLED")))

    @rule(budget=st.sampled_from([1, 3, 1000]))
    def rounds_have_another_budget(self, budget: int) -> None:
        self.world.budget = budget

    def teardown(self) -> None:
        """When all runs are over, nothing is held."""
        runs = [(*task, run) for task, run in sorted(self.runs.items())]
        self.held.clear()
        self.waiting.clear()
        self.claims.clear()
        self.homes.clear()
        self.take(self.world.end(*runs))
        assert not self.world.machine.hosts.used.any()
        assert sum(row.tasks for row in self.world.machine.runs.shapes.table.values()) == len(self.runs)


TestHistories = drawn(History.TestCase)
TestHistories.settings = settings(max_examples=25 if ALL else 8, stateful_step_count=30)
