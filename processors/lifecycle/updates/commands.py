"""Answers to those who update a job, or command its update."""

from typing import NamedTuple

import msgspec
import numpy as np

from events.answers import cant_change
from events.bounds import INSTANCES_MAX
from events.codes import Code, UpdateState
from events.columns import I64, ints, spread
from events.records.base import Event
from events.records.lifecycle import ImagePrefetchOrdered, UpdatePaused, UpdatePromoted, UpdateStarted
from events.sla import strictest
from events.words import plural
from processors.lifecycle.rows import ActionRow, JobRow, StopRow, UpdateAskRow
from processors.lifecycle.updates.decisions import ROLL_BACK, UpdateDecisions, back_policy
from processors.lifecycle.updates.rows import UpdateRow, VersionRow
from processors.lifecycle.updates.updates import RESTART, Updates
from processors.lifecycle.updates.versions import fixed_change, pinned_anew, policy_for
from processors.lifecycle.updates.window import most_down
from processors.state.causes import job_fact

COUNTS = ("added", "updated", "removed", "unchanged")
"""The counts of instances in UpdateStarted."""


class Answer(NamedTuple):
    """The answer to a command, and what is decided with it."""

    code: Code
    message: str
    decisions: tuple[Event, ...] = ()
    version: int = 0
    update: int = 0


RELAX = "relax it, or say `replace: before`"
CONTROLLER_OVER = Answer(Code.ALREADY_ENDED, "the controller of the job is over, and the job ends with it")


class UpdateCommands:
    """The commands of one `decide`. Each is about a job that is there, and whose instances were queued before."""

    def __init__(self, updates: Updates, decisions: UpdateDecisions) -> None:
        self._updates = updates
        self._decisions = decisions
        self._actions = {
            "restart": self._restart,
            "roll_back": self._roll_back,
            "pause": self._pause,
            "resume": self._pause,
            "promote": self._promote,
            "abort": self._abort,
        }

    @property
    def actions(self) -> tuple[str, ...]:
        """The actions that are answered here."""
        return tuple(self._actions)

    def update(self, offset: int, ask: UpdateAskRow, row: JobRow, spec_hash: bytes) -> Answer:
        """A job is to have another specification, which is valid by itself."""
        assert ask.spec is not None
        if row.controller_over:
            return CONTROLLER_OVER
        version, before = self._updates.made(ask.spec, spec_hash), self._updates.version(ask.job_id)
        if name := fixed_change(before, version, row.kind):
            return Answer(Code.NOT_UPDATABLE, cant_change(name, row.kind))
        changed = self._updates.differences.changed(ask.job_id, version)
        if row.kind == "batch" and (why := self._updates.differences.batch_fault(ask.job_id, version, changed)):
            return Answer(Code.NOT_UPDATABLE, why)
        same = spec_hash == before.spec_hash and version.priority == row.priority and not pinned_anew(before, version)
        if same and (
            ask.job_id in self._updates.table
            or not (changed.any() or self._updates.differences.lacking(ask.job_id, version.instances))
        ):
            return Answer(Code.REPEATED, f"the job has this specification already, as version {row.version}")
        if changed[: version.instances].any() and (why := barred(version, row.tasks)):
            return Answer(Code.NOT_UPDATABLE, f"{why}, so no instance may be stopped for an update; {RELAX}")
        cause = job_fact(offset)
        started = self._decisions.start(ask.job_id, "update", version, cause, jobs_offset=offset)
        pulls = self._updates.image_waits.orders(ask, version, cause)
        return self._begun(ask.job_id, row, version, (*started, *pulls), offset)

    def act(self, offset: int, ask: ActionRow, row: JobRow) -> Answer:
        """A job, or its update, is to do something."""
        return self._actions[ask.action](offset, ask, row)

    def _begun(
        self,
        job_id: str,
        row: JobRow,
        version: VersionRow,
        started: tuple[Event, ...],
        offset: int,
    ) -> Answer:
        """An update begins; one that is in progress ends for it."""
        number, new_version = row.updates + 1, row.version + 1
        override: tuple[Event, ...] = ()
        if (open_ := self._updates.table.get(job_id)) is not None:
            message = f"update {number} takes its place"
            override = (
                self._decisions.end(job_id, open_, UpdateState.ABORTED, Code.OVERRIDDEN, message, job_fact(offset)),
            )
        begun = next(each for each in started if isinstance(each, UpdateStarted))
        count = begun.added + begun.updated + begun.removed
        most = min(version.policy.batch or count, most_down(version, row.tasks) or count)
        batch = f", at most {most} at a time" if most < count else ""
        start = "; it waits for resume" if version.policy.start_paused else ""
        kinds = [f"{each} {name}" for name in COUNTS if (each := getattr(begun, name))]
        counts = f": {', '.join(kinds)}" if len(kinds) > 1 else ""
        instances = plural(count, "instance")
        what = f"restarts {instances}" if begun.kind == RESTART else f"takes {instances} to version {new_version}"
        if begun.kind == ROLL_BACK:
            what = f"takes {instances} back to version {begun.like}, as version {new_version}"
        hold = f"; the job is held: what runs is taken after `paceline job release {job_id}`" if row.on_hold else ""
        pulling = sum(len(each.host_ids) for each in started if isinstance(each, ImagePrefetchOrdered))
        pulls = f"; first {plural(pulling, 'host')} pull{'s' * (pulling == 1)} the image" if pulling else ""
        message = f"update {number} {what}{batch}{counts}{pulls}{start}{hold}"
        return Answer(Code.DONE, message, (*override, *started), new_version, number)

    def _restart(self, offset: int, ask: ActionRow, row: JobRow) -> Answer:
        job_id, version = ask.job_id, self._updates.version(ask.job_id)
        if row.kind == "batch":
            return Answer(Code.NOT_UPDATABLE, "tasks of a batch job are not restarted; submit it anew")
        if why := barred(version, row.tasks):
            return Answer(Code.NOT_UPDATABLE, f"{why}, so no instance may be stopped for a restart; {RELAX}")
        instances = instances_of(ask, row)
        if instances is None:
            return outside(row)
        if (update := self._updates.table.get(job_id)) is not None:
            return self._join(offset, job_id, update, instances)
        policy = msgspec.structs.replace(back_policy(version.policy), batch=max(0, ask.batch))
        version = msgspec.structs.replace(version, policy=policy_for(row.kind, policy))
        started = self._decisions.start(
            job_id, RESTART, version, job_fact(offset), like=row.version, restarted=instances
        )
        return self._begun(job_id, row, version, tuple(started), offset)

    def _join(self, offset: int, job_id: str, update: UpdateRow, instances: I64) -> Answer:
        """Instances are to be restarted in the middle of an update: it starts them again in its turn, those that it has
        updated, or needn't, too.
        """
        again = self._decisions.again(job_id, update, instances, job_fact(offset))
        count = len(instances)
        waits = "once its canary is promoted" if update.waits_ms else "in its turn"
        when = "once it is resumed" if update.paused else waits
        what = f"goes on and starts {plural(count, 'instance')} again {when}"
        what += "" if update.kind == RESTART else f", with version {update.version}"
        return Answer(Code.DONE, f"update {update.number} {what}", again, update=update.number)

    def _roll_back(self, offset: int, ask: ActionRow, row: JobRow) -> Answer:
        if row.controller_over:
            return CONTROLLER_OVER
        job_id, versions = ask.job_id, self._updates.versions[ask.job_id]
        number = ask.version or self._updates.differences.before(job_id)
        if number not in versions or number == row.version:
            others = ", ".join(str(each) for each in sorted(versions) if each != row.version) or "none"
            why = f"the job can't go back to version {number}" if number else "no other version was completed"
            return Answer(Code.NO_SUCH_VERSION, f"{why}; it can go back to {others}")
        version = msgspec.structs.replace(versions[number], policy=back_policy(self._updates.version(job_id).policy))
        changed = self._updates.differences.changed(job_id, version)
        if row.kind == "batch" and (why := self._updates.differences.batch_fault(job_id, version, changed)):
            return Answer(Code.NOT_UPDATABLE, why)
        if changed[: version.instances].any() and (why := barred(version, row.tasks)):
            return Answer(
                Code.NOT_UPDATABLE, f"{why} there, so no instance may be stopped for it; update the version first"
            )
        started = self._decisions.start(job_id, ROLL_BACK, version, job_fact(offset), like=number)
        return self._begun(job_id, row, version, tuple(started), offset)

    def _pause(self, offset: int, ask: ActionRow, row: JobRow) -> Answer:
        update, paused = self._updates.table.get(ask.job_id), ask.action == "pause"
        if update is None:
            return _no_update(ask.job_id)
        if update.paused == paused:
            state = "paused" if paused else "going on"
            return Answer(Code.REPEATED, f"update {update.number} is {state} already", update=update.number)
        decided = UpdatePaused(job_id=ask.job_id, number=update.number, paused=paused, cause=job_fact(offset))
        message = f"{plural(update.pending, 'instance')} still to be taken, {update.flight} being updated"
        return Answer(Code.DONE, message, (decided,), update=update.number)

    def _promote(self, offset: int, ask: ActionRow, row: JobRow) -> Answer:
        update = self._updates.table.get(ask.job_id)
        if update is None:
            return _no_update(ask.job_id)
        if not update.policy.canary:
            return Answer(Code.NO_CANARY, f"update {update.number} has no canary", update=update.number)
        if update.promoted:
            return Answer(Code.REPEATED, f"update {update.number} was promoted already", update=update.number)
        decided = UpdatePromoted(job_id=ask.job_id, number=update.number, cause=job_fact(offset))
        message = f"{plural(update.pending, 'instance')} to follow the canary of {update.policy.canary}"
        return Answer(Code.DONE, message, (decided,), update=update.number)

    def _abort(self, offset: int, ask: ActionRow, row: JobRow) -> Answer:
        update = self._updates.table.get(ask.job_id)
        if update is None:
            return _no_update(ask.job_id)
        message = f"{plural(update.done, 'instance')} reached version {update.version}, {update.pending} were not taken"
        ended = self._decisions.end(ask.job_id, update, UpdateState.ABORTED, Code.ABORTED, message, job_fact(offset))
        return Answer(Code.DONE, message, (ended,), update=update.number)


def barred(version: VersionRow, tasks: int) -> str:
    """The bound by which an SLA lets no instance go for an update, in words; empty: it lets some. `tasks`: those that
    the job has.
    """
    instances = version.instances if version.instances < INSTANCES_MAX else tasks
    if not instances or most_down(version, tasks) != 0:
        return ""
    return strictest(version.max_unavailable, version.sla, instances)


def _no_update(job_id: str) -> Answer:
    return Answer(Code.NO_UPDATE, f"no update of job {job_id} is in progress")


def outside(row: JobRow) -> Answer:
    """A range is beyond the job."""
    there = f"the job has {plural(row.instances, 'instance')}, 0 to {row.instances - 1}"
    return Answer(Code.INVALID_SPEC, f"{there}: name some of these")


def instances_of(ask: ActionRow | StopRow, row: JobRow) -> I64 | None:
    """The instances that a command names; None: a range is beyond the job."""
    if not ask.first:
        return np.arange(row.instances)
    first, count = ints(ask.first), ints(ask.count)
    if len(first) != len(count) or (first < 0).any() or (count < 1).any():
        return None
    if (first.astype(np.int64) + count > row.instances).any():
        return None
    return np.unique(spread(first, count))
