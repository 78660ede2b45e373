"""The updates of a job, and what becomes of the job itself."""

from events.codes import Code, JobState, TaskState
from processors.lifecycle.causes import EndCause, Goal, SlaVerdict
from processors.lifecycle.task_table import PLACED
from processors.lifecycle.updates.steps import Step
from tests.processors.lifecycle.naive.parts import Instance, Policy, Update, Version, back_policy
from tests.processors.lifecycle.naive.runs import Runs

KEPT = 10
OPEN = (Step.FLIGHT, Step.BAD, Step.STUCK)
TAKEN = (*OPEN, Step.DONE)


class Updates(Runs):
    """What is decided where no instance has something to decide by itself: one thing at a time."""

    def _about_job(self) -> bool:
        return self._about_update() or self._remove()

    def count(self, step: Step) -> int:
        """How many instances are at a step of the update; those that it has removed are done."""
        left = self.update.left if self.update is not None and step is Step.DONE else 0
        return sum(one.step is step for one in self.all()) + left

    @property
    def pending(self) -> int:
        """How many instances are still to be taken, or to be added."""
        return self.count(Step.PENDING) + (0 if self._restarts() else self.lacking())

    def _restarts(self) -> bool:
        """Whether instances are only restarted: none is added or removed, and each stays with what it runs."""
        return self.update is not None and self.update.kind == "restart"

    def _bound(self) -> int:
        """How many instances the update is to leave."""
        return self.highest if self._restarts() else self.version.spec.instances

    def there(self) -> list[Instance]:
        """The instances that aren't being removed."""
        return [one for one in self.all() if one.goal is not Goal.REMOVE]

    def lacking(self) -> int:
        """How many instances the newest version has and the job hasn't."""
        wanted = self.version.spec.instances
        return wanted - sum(one.at < wanted for one in self.there())

    # An update begins and ends.

    def changed(self, version: Version, restarted: list[int] | None = None) -> list[Instance]:
        """The instances that must be taken to come to a version."""
        if restarted is not None:
            return [one for one in self.there() if one.at in restarted and one.goal is Goal.RUN]
        return [one for one in self.there() if self._differs(one, version) or one.at >= version.spec.instances]

    def _differs(self, one: Instance, version: Version) -> bool:
        return self.versions[self._would_be(one)].spec.content(one.at) != version.spec.content(one.at)

    def _would_be(self, one: Instance) -> int:
        """The version of its next run, if the update in progress ended now."""
        return one.version if self._stays(one) else one.target

    @staticmethod
    def _stays(one: Instance) -> bool:
        """Whether an update has taken it, and it wasn't told to stop."""
        return one.step in OPEN and one.up and EndCause.UPDATE in one.causes

    def start_update(self, kind: str, version: Version, restarted: list[int] | None = None) -> None:
        """A new version; the update in progress ends for it."""
        if self.update is not None:
            self.end_update("ABORTED", Code.OVERRIDDEN)
        changed, other = self.changed(version, restarted), self.changed(version)
        used = {self.completed[-1], *(number for one in self.all() for number in (one.version, one.target))}
        for number in sorted(self.versions)[: 1 - KEPT]:
            if number not in used:
                del self.versions[number]
        if kind != "restart":
            self.priority = version.spec.priority
        before, self.number, self.updates = self.number, self.number + 1, self.updates + 1
        self.versions[self.number] = version
        for one in self.all():
            if one.ordered_away and self.sla is None:
                self._goes(one)
            if one in changed:
                one.step = Step.PENDING
            elif one not in other:
                one.target = self.number
        paused = version.policy.start_paused
        self.update = Update(self.updates, kind, before, version.policy, self.now, paused)

    def end_update(self, state: str, code: str) -> None:
        """Whoever wasn't told to stop stays as it is; the others go on to their target."""
        assert self.update is not None
        self.ended_updates.append((self.update.number, state, code))
        if state == "SUCCEEDED" and (self.update.kind != "restart" or self.update.from_version in self.completed):
            self.completed.append(self.number)
        for one in self.all():
            if self._stays(one):
                self._let_go(one)
            elif one.step in OPEN and one.goal is Goal.RUN:
                one.inherited = True
            one.step = Step.NONE
        self.update = None

    @staticmethod
    def _let_go(one: Instance) -> None:
        one.causes.discard(EndCause.UPDATE)
        one.target = one.version

    # An update goes on.

    def _about_update(self) -> bool:
        update = self.update
        if update is None:
            return False
        steps = [(one, step) for one in self.all() if (step := self._step(one, update.policy)) is not one.step]
        for one, step in steps:
            if one.step is Step.PENDING:
                self._aim(one)
            one.step = step
            if step is Step.DONE and not self._has_canary(update):
                one.failures = 0
        again = [one for one in self.all() if one.inherited and self._is_up(one, update.policy)]
        for one in again:
            one.inherited = False
        if steps or again:
            update.progressed = self.now
            update.waits = None
            return True
        waits = self._canary_is_done(update)
        if waits != (update.waits is not None):
            update.waits, update.progressed = self.now if waits else None, self.now
            return True
        if update.paused or (self.stopping and (self.deleting or self.kind == "batch" or update.kind == "create")):
            return False
        if failure := self._failure(update):
            self._fail(update, failure)
            return True
        if not self.pending and not self.count(Step.FLIGHT):
            self.end_update("SUCCEEDED", "")
            return True
        return self._promote(update) if waits else self._take(update)

    def _step(self, one: Instance, policy: Policy) -> Step:
        if one.step is Step.PENDING and one.goal is Goal.STOP and one.over and one.at < self._bound():
            return Step.DONE
        if one.step not in TAKEN:
            return one.step
        if self.kind == "batch":
            return Step.DONE
        if one.goal is not Goal.RUN:
            return Step.DONE if one.over or one.state == TaskState.NONE else one.step
        if one.version == one.target and EndCause.UPDATE not in one.causes and self._is_up(one, policy):
            return Step.DONE
        if one.failures >= policy.max_attempts:
            return Step.BAD
        if one.step is Step.FLIGHT and self._is_stuck(one):
            return Step.STUCK
        assert self.update is not None
        return Step.FLIGHT if one.step is Step.DONE and self._has_canary(self.update) else one.step

    def _is_stuck(self, one: Instance) -> bool:
        """Whether it found no place for as long as the update lets it wait."""
        update = self.update
        if update is None or update.paused or one.lacks is None or one.state != TaskState.QUEUED:
            return False
        deadline = update.policy.progress_deadline_ms
        return deadline > 0 and one.lacks + deadline <= self.now

    @staticmethod
    def _has_canary(update: Update) -> bool:
        """Whether it has one that isn't promoted."""
        return update.policy.canary > 0 and not update.promoted

    def _is_up(self, one: Instance, policy: Policy) -> bool:
        """Whether it runs for as long as an update asks."""
        return one.state == TaskState.RUNNING and one.ready is not None and one.ready + policy.healthy_ms <= self.now

    def _canary_is_done(self, update: Update) -> bool:
        return bool(
            self._has_canary(update)
            and self.pending
            and not any(self.count(step) for step in OPEN)
            and self.count(Step.DONE) - self._stopped() >= update.policy.canary
        )

    def _stopped(self) -> int:
        """How many instances are done because they are stopped: no canary."""
        return sum(one.step is Step.DONE and one.goal is Goal.STOP for one in self.all())

    def _promote(self, update: Update) -> bool:
        after = update.policy.promote_after_ms
        if not after or update.waits is None or self.now < update.waits + after:
            return False
        update.promoted, update.waits, update.progressed = True, None, self.now
        return True

    def _failure(self, update: Update) -> str:
        policy, bad = update.policy, self.count(Step.BAD) + self.count(Step.STUCK)
        most = 1 if self._has_canary(update) else policy.max_failures
        if most and bad >= most:
            return Code.MAX_FAILURES
        if self.count(Step.FLIGHT):
            late = policy.blocked_after_ms and self.now >= update.progressed + policy.blocked_after_ms
            return Code.BLOCKED if late and (self._deferred() or self._takes_all(update)) else ""
        if bad and not self.pending and not policy.max_failures:
            return Code.STALLED
        failing = [one for one in self._inherited() if one.step is Step.NONE]
        stuck = bad + sum(one.failures >= policy.max_attempts or self._is_stuck(one) for one in failing)
        width, free = self._width(update), bool(self._down() or self._addable())
        if self.pending and stuck >= width and (bad >= width or not free):
            return Code.STALLED
        return ""

    def _fail(self, update: Update, code: str) -> None:
        before = self.versions[self.completed[-1]]
        if not update.policy.roll_back or update.kind in ("create", "roll_back"):
            self.end_update("FAILED", code)
            return
        self.end_update("ROLLED_BACK", code)
        self.start_update("roll_back", Version(before.spec, back_policy(update.policy)))

    def _takes_all(self, update: Update) -> bool:
        """Whether instances without a place take all that the SLA leaves the update."""
        flight = [one for one in self.all() if one.step is Step.FLIGHT]
        taken = len(flight) + self.count(Step.BAD) + self.count(Step.STUCK)
        lacking = all(one.lacks is not None and one.state == TaskState.QUEUED for one in flight)
        return bool(self.sla and self.pending and self._width(update) >= self.sla <= taken and lacking)

    def _width(self, update: Update) -> int:
        everything = self.pending + sum(self.count(step) for step in TAKEN)
        most = update.policy.batch or everything
        return min(most, self.sla) if self.sla and update.kind != "create" else most

    def _deferred(self) -> list[Instance]:
        """Instances that are taken and that sla doesn't let go."""
        held = [one for one in self.all() if one.step is Step.FLIGHT and one.verdict is SlaVerdict.DEFERRED]
        return [one for one in held if EndCause.UPDATE in one.causes and self.sla is not None]

    def _down(self) -> list[Instance]:
        """Instances that are still to be taken and that it costs nothing to take."""
        return [one for one in self._to_take() if not self._costs(one)]

    def _to_take(self) -> list[Instance]:
        """Instances that are still to be taken; such as are being stopped are done by themselves."""
        pending = [one for one in self.all() if one.step is Step.PENDING]
        return [one for one in pending if one.goal is Goal.RUN or one.at >= self._bound()]

    def _costs(self, one: Instance) -> bool:
        """Whether it is taken after those that are down: it is up, or another one must come up before it."""
        return one.up or (one.state == TaskState.BACKOFF and one.behind and one.at < self._bound())

    def _inherited(self) -> list[Instance]:
        """Instances that an earlier update brought down and that aren't up again."""
        return [one for one in self.all() if one.inherited and one.goal is Goal.RUN]

    def _addable(self) -> list[int]:
        """Numbers of instances that may be added now: a run of one that goes is over first."""
        wanted = 0 if self._restarts() else self.version.spec.instances
        return [at for at in range(wanted) if at not in self.instances]

    def _take(self, update: Update) -> bool:
        """Takes instances as long as there is room: who is down, who is added, who is up, who is removed."""
        all_, costly = self._room(update)
        if all_ <= 0:
            return self._give_back()
        wanted, pending = self._bound(), self._to_take()
        stays, goes = [one for one in pending if one.at < wanted], [one for one in pending if one.at >= wanted]
        taken = [one for one in stays if not self._costs(one)][:all_]
        added = self._addable()[: all_ - len(taken)]
        up = [one for one in stays if self._costs(one)][: max(0, min(all_ - len(taken) - len(added), costly))]
        costly -= len(up)
        for one in goes[: all_ - len(taken) - len(added) - len(up)]:
            if not one.up or costly > 0:
                taken.append(one)
                costly -= one.up
        if not (taken or added or up):
            return False
        for at in added:
            self._add(at)
        for one in [*taken, *up]:
            self._aim(one)
        update.progressed = self.now
        return True

    def _room(self, update: Update) -> tuple[int, int]:
        """How many may be taken, and how many of those may be up."""
        flight, done = self.count(Step.FLIGHT), self.count(Step.DONE)
        bad = self.count(Step.BAD) + self.count(Step.STUCK)
        free = self._width(update) - flight - bad
        if self._has_canary(update):
            free = min(free, update.policy.canary - flight - (done - self._stopped()) - bad)
        return free, 0 if self.held else free - len(self._inherited())

    def _give_back(self) -> bool:
        """Where sla lets none of those go that were taken, another that is down is taken in their place."""
        deferred = self._deferred()
        if not self._down() or len(deferred) != self.count(Step.FLIGHT):
            return False
        for one in deferred:
            self._let_go(one)
            one.step = Step.PENDING
        return True

    def _add(self, at: int) -> None:
        run = self.run_floor + 1
        state = TaskState.BACKOFF if self.held or self.kind == "stateful" else TaskState.QUEUED
        one = self.instances[at] = Instance(at, run, self.number, self.number, state, step=Step.FLIGHT)
        one.behind = self.waits_its_turn(one)
        if self.stopping:
            one.goal = Goal.STOP
            one.note(EndCause.STOP)
        self.highest = max(self.highest, at + 1)

    def _aim(self, one: Instance) -> None:
        """Its next run is of the new version, or it has none. What wasn't ordered yet may be of it at once."""
        one.step, one.inherited = Step.FLIGHT, False
        if one.at >= self._bound():
            one.goal = Goal.REMOVE
            one.note(EndCause.REMOVE)
            return
        if one.lacks is not None:
            one.lacks = self.now
        stays = self._restarts() and one in self.changed(self.version)
        one.target, one.failures = one.target if stays else self.number, 0
        other = self._cpu(one.version) != self._cpu(one.target)
        if one.state in (TaskState.QUEUED, PLACED) and not other:
            one.version = one.target
        elif one.state == TaskState.BACKOFF:
            one.due = None  # what is behind another one still waits for that
            if one.admitted and self._asks_more(one):
                one.note(EndCause.UPDATE)
        elif one.state in (TaskState.QUEUED, PLACED) or one.up:
            one.note(EndCause.UPDATE)

    # What becomes of the job.

    def _remove(self) -> bool:
        """Instances leave whose last run is over."""
        gone = [one for one in self.all() if one.goal is Goal.REMOVE and (one.over or one.state == TaskState.NONE)]
        gone = [one for one in gone if one.step is not Step.FLIGHT]
        for one in gone:
            del self.instances[one.at]
            self.run_floor = max(self.run_floor, one.run)
            if self.update is not None:
                self.update.left += one.step is Step.DONE
        if gone:
            self.highest = max(self.instances, default=-1) + 1
        return bool(gone)

    def _change(self, state: JobState) -> bool:
        over = state in (JobState.SUCCEEDED, JobState.FAILED, JobState.KILLED)
        if state == self.state and not (over and self.deleting):
            return False
        self.state = state
        if over and (self.kind == "batch" or self.deleting):
            self.gone, self.forgotten = True, self.deleting
            if self.update is not None:
                self.end_update("ABORTED", Code.ALREADY_ENDED)
        return True
