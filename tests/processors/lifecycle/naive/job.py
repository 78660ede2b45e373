"""The commands of a job."""

from dataclasses import replace
from typing import Any

from events.codes import Code, TaskState
from processors.lifecycle.causes import EndCause, Goal
from processors.lifecycle.updates.steps import Step
from tests.processors.lifecycle.naive.parts import Instance, Policy, Spec, Version, back_policy
from tests.processors.lifecycle.naive.updates import Updates

KNOWN_COMMANDS = 8


class Job(Updates):
    """What each command is answered, and what it does."""

    def command(self, command_id: str, expected: int, name: str, *said: Any) -> None:
        """A command, to be answered when its turn comes; `expected`: the version that it is for, 0: any."""
        self.commands.append(lambda: self._answer(command_id, expected, name, said))

    def _answer(self, command_id: str, expected: int, name: str, said: tuple[Any, ...]) -> Code:
        if self.forgotten:
            return Code.NOT_FOUND
        if self.gone:
            self.forgotten = name == "delete"
            return Code.DONE if self.forgotten else Code.ALREADY_ENDED
        if command_id in self.done_commands[-KNOWN_COMMANDS:]:
            return Code.REPEATED
        if self.deleting:
            return Code.BEING_DELETED
        if expected not in (0, self.number):
            return Code.VERSION_CONFLICT
        code: Code = getattr(self, name)(*said)
        if code is Code.DONE:
            self.done_commands.append(command_id)
        return code

    # Instances.

    def _named(self, instances: list[int] | None) -> list[Instance] | None:
        """The instances of a command; None: it names such as the job hasn't."""
        if instances is not None and any(not 0 <= at < self.highest for at in instances):
            return None
        return [one for one in self.all() if instances is None or one.at in instances]

    def stop(self, instances: list[int] | None) -> Code:
        """Instances, or all, are to end and to stay so."""
        if (named := self._named(instances)) is None:
            return Code.INVALID_SPEC
        found = [one for one in named if one.goal is Goal.RUN and not one.over]
        if not found if instances else self.stopping:
            return Code.REPEATED
        self.stopping |= not instances
        for one in found:
            one.goal = Goal.STOP
            one.note(EndCause.STOP)
        return Code.DONE

    def start(self, instances: list[int] | None) -> Code:
        """Instances, or all that don't run, are to run."""
        if (named := self._named(instances)) is None:
            return Code.INVALID_SPEC
        found = [one for one in named if self._may_start(one, bool(instances))]
        if not found and not (self.stopping and not instances):
            return Code.REPEATED
        self.stopping = False
        for one in found:
            one.goal = Goal.RUN
            if one.over:
                one.run, one.state, one.admitted = one.run + 1, TaskState.BACKOFF, False
                one.failures = one.host_failures = 0
                one.behind = self.waits_its_turn(one)
            elif one.state != TaskState.STOPPING:
                one.causes.discard(EndCause.STOP)
        return Code.DONE

    @staticmethod
    def _may_start(one: Instance, named: bool) -> bool:
        if one.goal is Goal.REMOVE:
            return False
        ended = one.state in (TaskState.FAILED, TaskState.KILLED) or (named and one.state == TaskState.SUCCEEDED)
        return ended or one.goal is Goal.STOP

    def hold(self, held: bool) -> Code:
        """Nothing more is queued, or it is again."""
        if self.held == held:
            return Code.REPEATED
        self.held = held
        for one in self.all():
            if not held:
                one.causes.discard(EndCause.HOLD)
            elif one.state in (TaskState.QUEUED, TaskState.BACKOFF) and (one.state == TaskState.QUEUED or one.admitted):
                one.note(EndCause.HOLD)
        return Code.DONE

    def delete(self, force: bool) -> Code:
        """The job is to end and to be forgotten."""
        if not force and any(not one.over for one in self.all()):
            return Code.NEEDS_FORCE
        self.deleting = self.stopping = True
        for one in self.all():
            if one.goal is not Goal.REMOVE and not one.over:
                one.goal = Goal.STOP
                one.note(EndCause.STOP)
        return Code.DONE

    def prioritise(self, priority: int) -> Code:
        """The job gets another priority."""
        if priority == self.priority:
            return Code.REPEATED
        self.priority = priority
        return Code.DONE

    # Updates.

    def change(self, spec: Spec) -> Code:
        """The job gets another specification."""
        before, version = self.version.spec, Version(spec, self._policy(spec.policy))
        if self.kind == "batch" and (spec.instances < self.highest or self._other_content(spec)):
            return Code.NOT_UPDATABLE
        changed = self.changed(version)
        lacks = spec.instances != sum(one.at < spec.instances for one in self.there())
        same = spec == before and spec.priority == self.priority  # a command may have changed the job's since
        if same and (self.update is not None or not (changed or lacks)):
            return Code.REPEATED
        return self._begin("update", version, changed)

    def _other_content(self, spec: Spec) -> bool:
        before = self.version.spec
        allowed = replace(spec, instances=before.instances, priority=before.priority, policy=before.policy)
        return allowed != before

    def _begin(self, kind: str, version: Version, changed: list[Instance], restarted: list[int] | None = None) -> Code:
        if version.spec.max_unavailable == 0 and any(one.at < version.spec.instances for one in changed):
            return Code.NOT_UPDATABLE
        self.start_update(kind, version, restarted)
        return Code.DONE

    def _policy(self, policy: Policy) -> Policy:
        """Instances of a stateful job are updated one after another."""
        return replace(policy, batch=1) if self.kind == "stateful" else policy

    def restart(self, instances: list[int] | None, batch: int) -> Code:
        """Instances, or all, get a new run of the same content."""
        if self.kind == "batch" or self.sla == 0:
            return Code.NOT_UPDATABLE
        if self._named(instances) is None:
            return Code.INVALID_SPEC
        if self.update is not None:
            for one in self._named(instances) or ():
                if one.goal is Goal.RUN and one.step in (Step.NONE, Step.DONE, Step.BAD, Step.STUCK):
                    one.step, one.inherited = Step.PENDING, False
                    self.update.progressed, self.update.waits = self.now, None
            return Code.DONE
        policy = self._policy(replace(back_policy(self.version.policy), batch=batch))
        version = Version(self.version.spec, policy)
        self.start_update("restart", version, list(range(self.highest)) if instances is None else instances)
        return Code.DONE

    def roll_back(self, number: int) -> Code:
        """The job goes back to a version; 0: to the one before."""
        kept = [each for each in self.completed if each in self.versions]
        other = [each for each in kept if self.versions[each].spec != self.version.spec]
        number = number or max(other, default=0)
        if number == self.number or number not in self.versions:
            return Code.NO_SUCH_VERSION
        version = Version(self.versions[number].spec, back_policy(self.version.policy))
        if self.kind == "batch" and version.spec.instances < self.highest:
            return Code.NOT_UPDATABLE
        return self._begin("roll_back", version, self.changed(version))

    def pause(self, paused: bool) -> Code:
        """The update takes no more instances, or does again."""
        if self.update is None:
            return Code.NO_UPDATE
        if self.update.paused == paused:
            return Code.REPEATED
        self.update.paused, self.update.progressed = paused, self.now
        for one in self.all() if not paused else ():
            one.lacks = one.lacks and self.now
        return Code.DONE

    def promote(self) -> Code:
        """The others follow the canary."""
        if self.update is None:
            return Code.NO_UPDATE
        if not self.update.policy.canary:
            return Code.NO_CANARY
        if self.update.promoted:
            return Code.REPEATED
        self.update.promoted, self.update.waits, self.update.progressed = True, None, self.now
        return Code.DONE

    def abort(self) -> Code:
        """The update ends where it is."""
        if self.update is None:
            return Code.NO_UPDATE
        self.end_update("ABORTED", Code.ABORTED)
        return Code.DONE
