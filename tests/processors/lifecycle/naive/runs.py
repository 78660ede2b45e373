"""The runs of a job."""

from collections.abc import Callable
from dataclasses import replace

from events.codes import ENDED_TASKS, LIVE_TASKS, Code, JobState, RunReport, TaskState
from processors.lifecycle.causes import EndCause, Goal, SlaVerdict
from processors.lifecycle.task_table import LOST, PLACED
from processors.lifecycle.updates.steps import Step
from tests.processors.lifecycle.naive.parts import Instance, Spec, Update, Version

BACKOFF_MS, BACKOFF_MAX_MS = 1_000, 300_000
START_DEADLINE_MS, STOP_DEADLINE_MS = 600_000, 70_000
UNPLANNED = {
    *(EndCause.REMOVE, EndCause.STOP, EndCause.HEALTH, EndCause.START_LATE, EndCause.HOLD, EndCause.REVOKE),
}
PLANNED = {EndCause.PREEMPT, EndCause.UPDATE}
TAKES_ADMISSION = {EndCause.REMOVE, EndCause.STOP, EndCause.HOLD, EndCause.PREEMPT, EndCause.REVOKE}
RETRIES_SYSTEM = 10
HOSTS_MAX = 3
WAITING = (TaskState.BACKOFF, TaskState.QUEUED, PLACED)
OWN_ENDS = (RunReport.EXITED, RunReport.NOT_STARTED, RunReport.VANISHED)


class Runs:
    """See above. `instances`: by number; those that were removed are missing."""

    def __init__(self, kind: str, spec: Spec, now: int, retries: int = 0) -> None:
        self.kind = kind
        self.retries = retries
        self.now = now
        self.number = 1
        """The number of its newest version."""
        self.completed = [1]
        """The versions that updates have completed, and the first."""
        policy = replace(spec.policy, batch=1) if kind == "stateful" else spec.policy
        self.versions = {1: Version(spec, policy)}
        created = spec.policy.creation
        self.instances = {} if created else {at: Instance(at, 1, 1, 1) for at in range(spec.instances)}
        self.highest = len(self.instances)
        """Its highest instance plus 1, as ranges of commands may name it."""
        self.run_floor = 0
        self.state = JobState.PENDING
        self.priority = spec.priority
        self.stopping = self.held = self.deleting = self.gone = self.forgotten = False
        self.done_commands: list[str] = []
        self.updates = int(created)
        self.update = Update(1, "create", 0, policy, now, spec.policy.start_paused) if created else None
        self.ended_updates: list[tuple[int, str, str]] = []
        self.answers: list[Code] = []
        self.commands: list[Callable[[], Code]] = []
        for one in self.all()[1:] if kind == "stateful" else ():
            one.state, one.behind = TaskState.BACKOFF, True

    @property
    def version(self) -> Version:
        """The newest version."""
        return self.versions[self.number]

    @property
    def sla(self) -> int | None:
        return self.version.spec.max_unavailable

    def all(self) -> list[Instance]:
        """The instances, ascending."""
        return [self.instances[at] for at in sorted(self.instances)]

    # What happens to runs.

    def _present(self, at: int, run: int) -> Instance | None:
        one = self.instances.get(at)
        return one if one is not None and one.run == run else None

    def placed(self, at: int, run: int, host: str) -> None:
        """Placement has found a host."""
        one = self._present(at, run)
        if one is not None and one.state == TaskState.QUEUED:
            one.state, one.host = PLACED, host

    def reported(self, at: int, run: int, report: RunReport, exit_code: int, current: bool = True) -> None:
        """A host says something of a run; `current`: in its present session."""
        one = self._present(at, run)
        if one is None or one.state not in LIVE_TASKS or one.report > RunReport.STARTED:
            return
        checked = self.version.spec.health
        if report in (RunReport.STARTED, RunReport.HEALTHY):
            ready = report == (RunReport.HEALTHY if checked else RunReport.STARTED)
            if ready and current and one.state == TaskState.ORDERED:
                one.report = RunReport.STARTED
        elif report == RunReport.UNHEALTHY:
            if checked and current and one.up:
                one.note(EndCause.HEALTH)
        elif report != RunReport.SURVIVED:  # which speaks against its host alone
            one.report, one.exit_code = report, exit_code

    def host_lost(self, host: str) -> None:
        """All that was on a host is lost."""
        for one in self.all():
            if one.host == host and one.report <= RunReport.STARTED:
                one.report = LOST

    def inventory(self, host: str, runs: list[tuple[int, int]], report: RunReport) -> None:
        """A host is back and says what it has. What it was still to start or to stop it will answer."""
        for one in self.all():
            if one.host == host and one.state in LIVE_TASKS:
                if (one.at, one.run) in runs:
                    self.reported(one.at, one.run, report, 0)
                elif one.state == TaskState.RUNNING and one.report <= RunReport.STARTED:
                    one.report = LOST

    def preempted(self, at: int, run: int) -> None:
        """An order names one run: it goes at once, or sla is heard first."""
        one = self._present(at, run)
        if one is None or one.over or one.ordered_away or EndCause.PREEMPT in one.causes:
            return
        if one.up and self.sla is not None and one.verdict is not SlaVerdict.ALLOWED:
            one.ordered_away = True
        else:
            one.causes.add(EndCause.PREEMPT)

    def revoked(self, at: int, run: int) -> None:
        """Its host lends less than it holds: it ends, whatever sla says, and is no failure."""
        one = self._present(at, run)
        if one is not None and one.state in LIVE_TASKS:
            one.causes.add(EndCause.REVOKE)

    def judged(self, at: int, run: int, allowed: bool, later: bool = False) -> None:
        """Sla has spoken; what it wasn't asked is void."""
        one = self._present(at, run)
        before = SlaVerdict.DEFERRED if later else SlaVerdict.ASKED
        if one is None or not one.up or one.verdict is not before or (later and not allowed):
            return
        one.verdict = SlaVerdict.ALLOWED if allowed else SlaVerdict.DEFERRED
        if allowed and one.ordered_away:
            self._goes(one)

    @staticmethod
    def _goes(one: Instance) -> None:
        one.ordered_away = False
        one.causes.add(EndCause.PREEMPT)

    # What is decided.

    def settle(self) -> None:
        """Decides until nothing is left to decide."""
        while self._decide():
            pass

    def _decide(self) -> bool:
        """One pass: whether anything was decided."""
        answered = bool(self.commands)
        if answered:
            self.answers.append(self.commands.pop(0)())
            if self.answers[-1] is Code.DONE:
                return True
        if self.gone:
            return answered
        state = self._state()
        decisions = [(one, what) for one in self.all() if (what := self._about(one))]
        late = [(one, one.state) for one in self.all() if one.state != TaskState.BACKOFF and self._is_due(one)]
        stays = [one for one in self.all() if one.ordered_away and self._is_refused(one)]
        for one in stays:
            one.ordered_away = False
        for one, what in decisions:
            what(one)
        for one, before in late:
            if one.state == before:
                self._overdue(one)
        if answered or decisions or late or stays:
            self._change(state)
            return True
        return self._about_job() or self._change(state)

    def _is_due(self, one: Instance) -> bool:
        return one.due is not None and one.due <= self.now

    def _is_refused(self, one: Instance) -> bool:
        ends = one.causes & UNPLANNED or one.report > RunReport.STARTED
        return one.up and one.verdict is SlaVerdict.DEFERRED and not ends

    def _about(self, one: Instance) -> Callable[[Instance], None] | None:
        """What is decided of an instance by itself: the first that holds."""
        ends = one.causes & (UNPLANNED | PLANNED)
        if one.report > RunReport.STARTED or (one.state in WAITING and ends):
            return self._end
        waits = self.held or one.behind or not (one.due is None or self._is_due(one))
        if one.state == TaskState.BACKOFF and not waits:
            return self._queue
        if one.state == PLACED:
            return self._order
        if one.up:
            asked = bool(one.causes & PLANNED) or one.ordered_away
            allowed = self.sla is None or one.verdict is SlaVerdict.ALLOWED
            if one.causes & UNPLANNED or (one.causes & PLANNED and allowed):
                return self._stop
            if asked and self.sla is not None and one.verdict is SlaVerdict.NONE:
                return self._ask
            if not asked and one.verdict in (SlaVerdict.ALLOWED, SlaVerdict.DEFERRED):
                return self._withdraw
        if one.state == TaskState.STOPPING and one.due is None:
            return self._stop
        if one.state == TaskState.ORDERED and one.report == RunReport.STARTED:
            return self._available
        return None

    def _queue(self, one: Instance) -> None:
        one.state, one.due, one.version = TaskState.QUEUED, None, one.target
        one.lacks = self.now if one.admitted and self.kind != "batch" else None

    def _order(self, one: Instance) -> None:
        one.state, one.due = TaskState.ORDERED, self.now + START_DEADLINE_MS
        if self.kind == "stateful":
            one.home = one.host

    def _available(self, one: Instance) -> None:
        one.state, one.due, one.report, one.ready = TaskState.RUNNING, None, 0, self.now
        self._up_or_over(one)

    def _up_or_over(self, one: Instance) -> None:
        """The instance behind it may start."""
        behind = self.instances.get(one.at + 1)
        if behind is not None:
            behind.behind = False

    def _stop(self, one: Instance) -> None:
        one.state, one.due = TaskState.STOPPING, self.now + STOP_DEADLINE_MS
        if one.ordered_away:
            self._goes(one)

    def _ask(self, one: Instance) -> None:
        one.verdict = SlaVerdict.ASKED

    def _withdraw(self, one: Instance) -> None:
        one.verdict = SlaVerdict.NONE

    def _overdue(self, one: Instance) -> None:
        one.due = None
        if one.state == TaskState.ORDERED:
            one.note(EndCause.START_LATE)

    def _end(self, one: Instance) -> None:
        """The present run is over; the goal says what follows."""
        own = one.report in OWN_ENDS
        fine = one.report == RunReport.EXITED and one.exit_code == 0
        lost = one.report in (RunReport.SILENCED, LOST)
        cause = None if own or lost else min(one.causes, default=None)
        failed = (own and not fine) or cause in (EndCause.HEALTH, EndCause.START_LATE)
        faulty = failed and self._is_hosts_fault(one, cause)
        if one.goal is Goal.REMOVE:
            following: int = TaskState.NONE
        elif fine and (self.kind == "batch" or one.goal is Goal.STOP):
            following = TaskState.SUCCEEDED
        elif one.goal is Goal.STOP:
            following = TaskState.FAILED if failed else TaskState.KILLED
        elif failed and not self._has_retries(one, faulty):
            following = TaskState.FAILED
        else:
            following = TaskState.BACKOFF
        again = following == TaskState.BACKOFF
        counts = again and (failed or fine)
        one.admitted = one.state != TaskState.QUEUED and not self.held and not self._asks_more(one)
        one.admitted &= (counts or (again and (lost or cause is EndCause.UPDATE))) and not (
            one.ordered_away or one.causes & TAKES_ADMISSION
        )
        one.due, one.behind = None, False
        is_left = one.version != one.target or EndCause.UPDATE in one.causes
        if counts and not (one.step is Step.FLIGHT and is_left):
            self._count(one, faulty)
        if one.report == RunReport.NOT_STARTED and again:
            one.unstarted.add(one.host)
        else:
            one.unstarted.clear()
        one.state, one.run = following, one.run + again
        one.causes, one.report, one.verdict, one.ordered_away = set(), 0, SlaVerdict.NONE, False
        one.ready, one.host, one.lacks = None, "", None
        if again and not (own or lost) and cause in (None, EndCause.STOP, EndCause.HOLD):
            one.behind = self.waits_its_turn(one)
        if one.over:
            self._up_or_over(one)

    def waits_its_turn(self, one: Instance) -> bool:
        """Whether an instance of a stateful job that runs again must wait for the one before it."""
        before = self.instances.get(one.at - 1)
        return self.kind == "stateful" and before is not None and not (before.over or before.state == TaskState.RUNNING)

    def _is_hosts_fault(self, one: Instance, cause: EndCause | None) -> bool:
        """Whether a failure of a batch job is its host's. What three hosts can't start is at fault itself."""
        if self.kind != "batch":
            return False
        if one.report == RunReport.NOT_STARTED:
            return len({*one.unstarted, one.host}) < HOSTS_MAX
        return one.report == RunReport.VANISHED or cause is EndCause.START_LATE

    def _has_retries(self, one: Instance, faulty: bool) -> bool:
        if self.kind != "batch":
            return True
        return one.host_failures < RETRIES_SYSTEM if faulty else one.failures < self.retries

    def _count(self, one: Instance, faulty: bool) -> None:
        """A failure counts, and the next run waits: of a batch job where the host is at fault."""
        recovered = self.kind != "batch" and one.ready is not None and one.ready <= self.now - self._proof_ms(one)
        failures = 0 if recovered else one.host_failures if faulty else one.failures
        if faulty:
            one.host_failures = failures + 1
        else:
            one.failures = failures + 1
        if faulty or self.kind != "batch":
            one.due = self.now + min(BACKOFF_MS << failures, BACKOFF_MAX_MS)

    def _proof_ms(self, one: Instance) -> int:
        """How long a run must have gone on for failures before it to count no more."""
        update = self.update
        if update is None or one.step is Step.NONE or not update.policy.canary or update.promoted:
            return BACKOFF_MAX_MS
        return max(BACKOFF_MAX_MS, update.policy.promote_after_ms)

    def _asks_more(self, one: Instance) -> bool:
        return self._cpu(one.target) > self._cpu(one.version)

    def _cpu(self, number: int) -> int:
        return self.versions[number].spec.cpu

    def _about_job(self) -> bool:
        """Decides something of the job, where there is nothing to decide of its instances."""
        raise NotImplementedError

    def _change(self, state: JobState) -> bool:
        """The job is in this state; whether that is new."""
        raise NotImplementedError

    def _state(self) -> JobState:
        states = [one.state for one in self.all()]
        if not states:
            return JobState.KILLED if self.stopping else JobState.PENDING
        if all(state in ENDED_TASKS for state in states):
            if TaskState.KILLED in states:
                return JobState.KILLED
            return JobState.FAILED if TaskState.FAILED in states else JobState.SUCCEEDED
        if self.stopping:
            return JobState.KILLING
        begun = self.kind == "batch" and {TaskState.SUCCEEDED, TaskState.FAILED} & set(states)
        return JobState.RUNNING if begun or TaskState.RUNNING in states else JobState.PENDING
