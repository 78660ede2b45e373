"""Random histories of one job: the machine is where a naive job is that hears the same, and keeps its promises."""

from dataclasses import asdict, replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from events.codec import encode
from events.codes import ENDED_TASKS, LIVE_REPORTS, LIVE_TASKS, RunReport, TaskState
from events.columns import pack_ints, pack_longs
from events.records.jobs import (
    JobActionRequested,
    JobPriorityRequested,
    JobStopRequested,
    JobSubmitted,
    JobUpdateRequested,
)
from events.records.lifecycle import CommandAnswered, UpdateEnded
from events.records.parts import HealthCheck, TaskOverride, UpdatePolicy
from events.records.placement import HostLost
from events.records.tasks import HostInventory, RunsReported
from processors.lifecycle.causes import EndCause, Goal, SlaVerdict
from processors.lifecycle.tasks import HELD
from processors.lifecycle.updates.steps import INHERITED, STEP, Step
from processors.state.seconds import second
from tests.helpers.drawn import ALL, drawn
from tests.helpers.machines import columns, of
from tests.processors.lifecycle.harness import World, allowed, columns_of, deferred
from tests.processors.lifecycle.naive.job import Job
from tests.processors.lifecycle.naive.parts import Instance, Policy, Spec
from tests.processors.lifecycle.watch import Watch

KINDS = ("stateless", "stateless", "batch", "stateful")
HOSTS = ("h1", "h2", "h3")
COMPARED = (
    *("state", "run", "goal", "version", "target", "step", "verdict", "causes", "pin"),
    *("failures", "host_failures", "due", "admitted"),
)
"""Columns of the machine."""
NUMBERS = st.integers(0, 1000)
POLICIES = st.builds(
    Policy,
    batch=st.sampled_from([0, 1, 1, 2, 3]),
    max_failures=st.sampled_from([0, 1, 2, 3]),
    max_attempts=st.sampled_from([1, 1, 2]),
    roll_back=st.booleans(),
    healthy_ms=st.sampled_from([0, 5_000]),
    canary=st.sampled_from([0, 0, 0, 1, 2]),
    promote_after_ms=st.sampled_from([0, 3_000]),
    start_paused=st.sampled_from([False, False, False, True]),
    blocked_after_ms=st.sampled_from([0, 0, 10_000]),
    creation=st.sampled_from([False, False, True]),
    progress_deadline_ms=st.sampled_from([0, 5_000, 600_000]),
)


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    """A specification that a job may have."""
    instances = draw(st.integers(1, 5))
    most = draw(st.sampled_from([None, None, 0, 1, 2, 3]))
    return Spec(
        instances=instances,
        command=draw(st.sampled_from(["one", "two", "three"])),
        special=min(instances, draw(st.sampled_from([0, 0, 1, 2]))),
        cpu=draw(st.sampled_from([1, 1, 1, 2])),
        priority=draw(st.integers(0, 1)),
        max_unavailable=None if most is None else min(instances, most),
        policy=draw(POLICIES),
    )


INSTANCES = st.one_of(st.none(), st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True))
OFTEN, SELDOM = st.sampled_from([True, True, False]), st.sampled_from([False, False, False, True])
SECONDS = st.sampled_from([0, 5, 20, 20])
EXPECTED = st.sampled_from([0, 0, 0, 0, 1, 2])
OLD = st.sampled_from([0, 0, 0, 1])
"""How much older than the present one a run or a session is."""
REPORTED = [each for each in RunReport if each is not RunReport.CANNOT_START]
"""What hosts say of runs in these histories; test_batch.py has what no try can help."""
REPORTS = (RunReport.STARTED, RunReport.STARTED, RunReport.HEALTHY, RunReport.EXITED)


def submitted(kind: str, spec: Spec, retries: int) -> JobSubmitted:
    """A job as its submission has it."""
    special: dict[str, Any] = {}
    if spec.special:
        ranges = {"override_first": pack_ints([0]), "override_count": pack_ints([min(spec.special, spec.instances)])}
        special = {"overrides": (TaskOverride(command=("special",)),), "override": pack_ints([0]), **ranges}
    return JobSubmitted(
        job_id="a",
        pool="/p",
        kind=kind,
        instances=spec.instances,
        command=(spec.command,),
        resources={"cpu": spec.cpu},
        priority=spec.priority,
        max_unavailable=spec.max_unavailable,
        **({"on_silence": "stop_after", "stop_after_ms": 20_000} if kind == "stateful" else {}),
        retries_max=retries,
        health=HealthCheck("command", ("true",)) if spec.health else None,
        update=UpdatePolicy(**asdict(spec.policy)),
        **special,
    )


class Histories(RuleBasedStateMachine):
    """Each rule is something that somebody does; both hear of it."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.sessions = dict.fromkeys(HOSTS, 1)
        self.job: Job
        self.watch: Watch
        self.kind, self.health = "", False
        self.spec: Spec
        self.broken: set[int] = set()
        """Versions that exit as soon as they are started."""
        self.seen = 0
        """How many decisions were looked at."""
        self.last: tuple[str, Any, tuple[Any, ...]] | None = None
        """The last command."""

    @initialize(spec=specs(), kind=st.sampled_from(KINDS), health=st.booleans(), retries=st.integers(0, 2), up=OFTEN)
    def submit(self, spec: Spec, kind: str, health: bool, retries: int, up: bool) -> None:
        """A job, whose instances run already or are still to be placed."""
        self.kind, self.health = kind, health
        self.spec = self.fitting(replace(spec, priority=0))
        self.job = Job(kind, self.spec, self.world.now, retries)
        self.watch = Watch()
        self.seen = len(self.world.said)
        self.world.fact("paceline.jobs", submitted(kind, self.spec, retries))
        self.go()
        if up:
            self.everybody_answers("h1", False)

    def fitting(self, spec: Spec) -> Spec:
        """What the job can be; of what runs are made from only services change, and creation is theirs."""
        if self.kind == "batch":
            policy = replace(spec.policy, creation=False)
            return replace(spec, max_unavailable=None, special=0, policy=policy, health=self.health)
        return replace(spec, health=self.health)

    def go(self) -> None:
        """Both decide, unless inputs pile up, and are compared."""
        if self.world.busy:
            return
        self.job.settle()
        new = self.world.said[self.seen :]
        self.seen += len(new)
        codes = [each.code for each in of(self.world.said, CommandAnswered)]
        assert codes == self.job.answers
        ends = [(each.number, each.state, each.code) for each in of(self.world.said, UpdateEnded)]
        assert ends == self.job.ended_updates
        self.watch.hear(new)
        if not self.job.gone:
            self.compare()
        else:
            assert "a" not in self.world.machine.jobs

    def compare(self) -> None:
        """The machine is where the naive job is."""
        machine, job = self.world.machine, self.job
        row = machine.jobs["a"]
        assert (row.state, row.version, row.updates) == (job.state, job.number, job.updates)
        assert (row.stopping, row.on_hold, row.priority) == (job.stopping, job.held, job.priority)
        assert sorted(machine.updates.versions["a"]) == sorted(job.versions)
        assert [*self.rows()] == [self.row(one) for one in job.all()]
        update = machine.updates.table.get("a")
        assert (update is None) == (job.update is None)
        if update is not None:
            assert job.update is not None
            counts = (update.pending, update.flight, update.done, update.bad)
            bad = job.count(Step.BAD) + job.count(Step.STUCK)
            assert counts == (job.pending, job.count(Step.FLIGHT), job.count(Step.DONE), bad)
            assert (update.paused, update.promoted) == (job.update.paused, job.update.promoted)

    def rows(self) -> list[tuple[Any, ...]]:
        """Of each instance that there is what the machine holds of it."""
        found = zip(*(self.world.machine.updates.column("a", name).tolist() for name in COMPARED), strict=True)
        rows = []
        for at, (state, run, goal, version, target, step, verdict, causes, pin, *rest) in enumerate(found):
            waits = causes & EndCause.IN_ORDER and not causes & EndCause.PREEMPT
            said = (step & STEP, step & INHERITED > 0, verdict, causes & ~EndCause.IN_ORDER, waits > 0)
            home = self.world.machine.hosts.named(pin)[0] if pin else ""
            if (state, goal) != (TaskState.NONE, Goal.RUN):
                rest = rest if state not in ENDED_TASKS else []
                rows.append((at, state, run, goal, version, target, *said, home, *rest))
        return rows

    @staticmethod
    def row(one: Instance) -> tuple[Any, ...]:
        """The same of one of the naive job."""
        said = (one.step, one.inherited, one.verdict, sum(one.causes), one.ordered_away, one.home)
        due = HELD if one.behind else 0 if one.due is None else second(one.due)
        rest = () if one.over else (one.failures, one.host_failures, due, int(one.admitted))
        return (one.at, one.state, one.run, one.goal, one.version, one.target, *said, *rest)

    def pick(self, number: int, *states: int) -> Instance | None:
        """An instance in one of some states, or any; None: there is none."""
        found = [one for one in self.job.all() if not states or one.state in states]
        return found[number % len(found)] if found else None

    # Users.

    def fields(self, expected: int = 0) -> dict[str, Any]:
        """What all commands have; now and then one comes again."""
        return {"job_id": "a", "command_id": self.world.command_id(), "expected_version": expected}

    def command(self, name: str, fact: Any, *said: Any) -> None:
        """A user says something."""
        self.job.command(fact.command_id, fact.expected_version, name, *said)
        self.last = name, fact, said
        self.world.fact("paceline.jobs", fact)
        self.go()

    def act(
        self, action: str, name: str, *said: Any, expected: int = 0, instances: list[int] | None = None, **more: Any
    ) -> None:
        ranges = columns_of([(at, 1) for at in instances or ()])
        self.command(name, JobActionRequested(action=action, **self.fields(expected), **ranges, **more), *said)

    @rule(instances=INSTANCES, expected=EXPECTED)
    def stop(self, instances: list[int] | None, expected: int) -> None:
        ranges = columns_of([(at, 1) for at in instances or ()])
        self.command("stop", JobStopRequested(**self.fields(expected), **ranges), instances)

    @rule(instances=INSTANCES, expected=EXPECTED)
    def start(self, instances: list[int] | None, expected: int) -> None:
        self.act("start", "start", instances, expected=expected, instances=instances)

    @rule(what=st.sampled_from(["hold", "release", "release", "again", "priority", "delete"]), sure=SELDOM)
    def command_the_job(self, what: str, sure: bool) -> None:
        """Hold, release, another priority, the last command once more; seldom the job is deleted."""
        if what in ("hold", "release"):
            self.act(what, "hold", what == "hold")
        elif what == "priority":
            self.command("prioritise", JobPriorityRequested(**self.fields(), priority=int(sure)), int(sure))
        elif what == "delete" and (sure or not self.world.busy):
            self.act("delete", "delete", sure, force=sure)
        elif what == "again" and self.last is not None:
            name, fact, said = self.last
            self.command(name, fact, *said)

    @rule(spec=specs(), again=SELDOM, expected=EXPECTED, works=st.booleans(), seconds=SECONDS)
    def update(self, spec: Spec, again: bool, expected: int, works: bool, seconds: int) -> None:
        """Another specification, or the same again; one that doesn't work exits as soon as it is started."""
        if not again:
            self.spec = self.fitting(spec)
        if not works:
            self.broken.add(self.job.number + 1)
        said = encode(submitted(self.kind, self.spec, self.job.retries))
        self.command("change", JobUpdateRequested(**self.fields(expected), spec=said), self.spec)
        self.goes_on("h1", False, seconds)

    @rule(instances=INSTANCES, batch=st.integers(0, 2), seconds=SECONDS)
    def restart(self, instances: list[int] | None, batch: int, seconds: int) -> None:
        self.act("restart", "restart", instances, batch, instances=instances, batch=batch)
        self.goes_on("h2", False, seconds)

    @rule(version=st.sampled_from([0, 0, 1, 2, 3]))
    def roll_back(self, version: int) -> None:
        self.act("roll_back", "roll_back", version, version=version)

    @rule(action=st.sampled_from(["pause", "resume", "resume", "promote", "abort"]))
    def command_the_update(self, action: str) -> None:
        """Pause, resume, promote or abort."""
        if action in ("pause", "resume"):
            self.act(action, "pause", action == "pause")
        else:
            self.act(action, action)

    # Placement, hosts, sla.

    @rule(number=NUMBERS, host=st.sampled_from(HOSTS), old=st.sampled_from([0, 0, 0, 1]))
    def place(self, number: int, host: str, old: int) -> None:
        """A run has a place, perhaps one that is over by now."""
        if one := self.pick(number, *((TaskState.QUEUED,) if not old else ())):
            self.placed(one, one.run - old, host)

    def placed(self, one: Instance, run: int, host: str) -> None:
        self.job.placed(one.at, run, host)
        self.world.place(("a", one.at, run), host=host)
        self.go()

    @rule(number=NUMBERS, report=st.sampled_from(REPORTED), fails=st.booleans(), old=OLD, session=OLD)
    def report(self, number: int, report: RunReport, fails: bool, old: int, session: int) -> None:
        """A host says something of a run of any instance, perhaps of an old one, perhaps late."""
        if one := self.pick(number, *(LIVE_TASKS if not old else ())):
            host = one.host or "h1"
            self.reported(one, one.run - old, report, int(fails), host, self.sessions[host] - session)

    def reported(self, one: Instance, run: int, report: RunReport, code: int, host: str, session: int) -> None:
        self.job.reported(one.at, run, report, code, session >= self.sessions[host])
        if report not in LIVE_REPORTS:
            self.watch.over.add((one.at, run))
        event = RunsReported(
            gateway="g",
            host_ids=(host,),
            **columns([("a", one.at, run)]),
            host_session=pack_longs([session]),
            host=pack_ints([0]),
            state=pack_ints([report]),
            exit_code=pack_ints([code]),
        )
        self.world.fact("paceline.tasks", event)
        self.go()

    @rule(host=st.sampled_from(HOSTS))
    def lose(self, host: str) -> None:
        """A host is given up."""
        self.watch.over |= {(one.at, one.run) for one in self.job.all() if one.host == host}
        self.job.host_lost(host)
        lost = HostLost(host_id=host, session=self.sessions[host], code="SILENT", silent_ms=1)
        self.world.peer("placement", lost)
        self.go()

    @rule(host=st.sampled_from(HOSTS), has=st.integers(0, 31), old=OLD, report=st.sampled_from(REPORTS))
    def comes_back(self, host: str, has: int, old: int, report: RunReport) -> None:
        """A host connects anew and says what it has: some of what it should, or what it had before."""
        here = [one for one in self.job.all() if has >> one.at & 1 and one.run > old]
        runs = [(one.at, one.run - old) for one in here]
        self.sessions[host] += 1
        missing = [one for one in self.job.all() if one.host == host and (one.at, one.run) not in runs]
        self.watch.over |= {(one.at, one.run) for one in missing if one.state == TaskState.RUNNING}
        self.watch.over |= set(runs) if report not in LIVE_REPORTS else set()
        self.job.inventory(host, runs, report)
        event = HostInventory(
            host_id=host,
            session=self.sessions[host],
            **columns([("a", at, run) for at, run in runs]),
            state=pack_ints([report] * len(runs)),
            exit_code=pack_ints([0] * len(runs)),
        )
        self.world.fact("paceline.tasks", event)
        self.go()

    @rule(number=NUMBERS, allows=st.booleans(), old=OLD)
    def verdict(self, number: int, allows: bool, old: int) -> None:
        """Sla speaks of a run that it was asked, or of any: of one that is over, or of one asked no more."""
        asked = [one for one in self.job.all() if one.verdict in (SlaVerdict.ASKED, SlaVerdict.DEFERRED)]
        if one := self.pick(number) if old or not asked else asked[number % len(asked)]:
            self.judged(one, one.run - old, allows)

    def judged(self, one: Instance, run: int, allows: bool) -> None:
        later = one.verdict is SlaVerdict.DEFERRED
        if allows:
            self.watch.allowed.add((one.at, run))
        self.job.judged(one.at, run, allows, later)
        named = ("a", one.at, run)
        self.world.peer("sla", allowed(named, later=int(later)) if allows else deferred(named))
        self.go()

    @rule(number=NUMBERS, old=OLD)
    def preempt(self, number: int, old: int) -> None:
        """Entitlement wants the room of a run; what waits for the instance before it has none."""
        one = self.pick(number)
        if one is not None and not one.behind:
            self.job.preempted(one.at, one.run - old)
            self.world.preempt(("a", one.at, one.run - old))
            self.go()

    @rule(number=NUMBERS, old=OLD)
    def revoke(self, number: int, old: int) -> None:
        """A host lends less than a run holds."""
        one = self.pick(number)
        if one is not None:
            self.job.revoked(one.at, one.run - old)
            self.world.revoke(("a", one.at, one.run - old))
            self.go()

    @rule(host=st.sampled_from(HOSTS), fails=SELDOM, seconds=SECONDS)
    def goes_on(self, host: str, fails: bool, seconds: int) -> None:
        """Whatever waits for somebody goes on, for a time."""
        self.everybody_answers(host, fails)
        for _ in range(seconds // 5):
            self.wait(5)
            self.everybody_answers(host, fails)

    def everybody_answers(self, host: str, fails: bool) -> None:
        """Placement, hosts and sla answer until nothing waits for them, or for long enough."""
        for _ in range(8):
            waiting = [one for one in self.job.all() if self.waits(one)]
            if self.job.gone or self.world.busy or not waiting:
                return
            for one in waiting:
                self.answer(one, host, fails)

    @staticmethod
    def waits(one: Instance) -> bool:
        states = (TaskState.QUEUED, TaskState.ORDERED, TaskState.STOPPING)
        return one.state in states or one.verdict is SlaVerdict.ASKED

    def answer(self, one: Instance, host: str, fails: bool) -> None:
        if one.verdict is SlaVerdict.ASKED:
            self.judged(one, one.run, True)
        elif one.state == TaskState.QUEUED:
            self.placed(one, one.run, host)
        elif one.state in LIVE_TASKS:
            ready = RunReport.HEALTHY if self.spec.health else RunReport.STARTED
            fails |= one.version in self.broken
            report = RunReport.EXITED if fails else ready
            if one.state == TaskState.STOPPING and not fails:
                report = RunReport.STOPPED
            self.reported(one, one.run, report, 1, one.host, self.sessions[one.host])

    # Time.

    @rule(seconds=st.sampled_from([1, 1, 2, 5, 10, 80, 400, 700]))
    def wait(self, seconds: int) -> None:
        self.job.now += 1000 * seconds
        self.world.later(1000 * seconds)
        self.go()

    @precondition(lambda self: not self.world.busy)
    @rule()
    def take_over(self) -> None:
        """Another process goes on from the rows."""
        self.world.restart()
        self.world.quiet()
        self.go()

    @precondition(lambda self: not self.world.busy)
    @rule()
    def pile_up(self) -> None:
        """What is said from now on is decided on at once later."""
        self.world.busy = True

    @precondition(lambda self: self.world.busy)
    @rule()
    def catch_up(self) -> None:
        self.world.busy = False
        self.world.quiet()
        self.go()


TestHistories = drawn(Histories.TestCase)
TestHistories.settings = settings(max_examples=80 if ALL else 20, stateful_step_count=30)
