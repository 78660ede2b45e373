"""CommandAnswers to the facts of the topic of jobs: every submission and every command gets one, repeats too."""

from collections.abc import Iterator
from typing import Protocol, get_args

import numpy as np

from events.acceptance import digest
from events.actors import body_without_actor
from events.answers import no_job, no_pool, not_a_leaf, other_specification, too_many_jobs, too_many_tasks
from events.bounds import RUN_MAX, TASKS_MAX
from events.cell_settings import Settings
from events.codes import Code
from events.columns import I64
from events.job_versions import wanted_content, wanted_spec
from events.records.base import Event
from events.records.jobs import (
    ImagePrefetchRequested,
    JobActionRequested,
    JobPriorityRequested,
    JobReopenRequested,
    JobStopRequested,
    JobSubmitted,
    JobUpdateRequested,
    SlaGroupDefined,
    VolumeRemovalRequested,
)
from events.records.lifecycle import (
    CommandAnswered,
    JobPriorityChanged,
    JobRejected,
    JobReopened,
    UpdateStarted,
)
from events.resources import Kinds
from events.words import plural
from processors.lifecycle.acceptance import accepted, first_queued
from processors.lifecycle.ended_jobs import EndedJobs, spec_digest
from processors.lifecycle.instance_commands import InstanceCommands
from processors.lifecycle.jobs import command_digest
from processors.lifecycle.override_chunks import OverrideChunks
from processors.lifecycle.prefetches import ordered
from processors.lifecycle.reopening import instances_in, queued_again, reopening_fault
from processors.lifecycle.rows import (
    ActionRow,
    AskRow,
    GroupAskRow,
    JobRow,
    PoolFactRow,
    PoolRow,
    PrefetchRow,
    PriorityRow,
    ReopenRow,
    StopRow,
    SubmittedRow,
    UpdateAskRow,
    VolumeRow,
)
from processors.lifecycle.sla_groups import SlaGroups
from processors.lifecycle.updates.commands import Answer, UpdateCommands
from processors.lifecycle.updates.creation import created, is_created, without_instances
from processors.lifecycle.validation import priority_fault, refusal, resources_refusal
from processors.lifecycle.volumes import Volumes
from processors.state.causes import job_fact
from processors.state.record_rows import row_of
from processors.state.table import Table

POOL_WAIT_MS = 500
"""A pool defined just before the job may be read just after it: an unknown pool is believed after this time."""


def last_wait_ms(at_ms: int) -> int:
    """Until when a job that came at a time waits for the definition of what it lacks."""
    return at_ms + POOL_WAIT_MS


class LifecycleView(Protocol):
    """The state that the answers depend on."""

    jobs: Table[str, JobRow]
    pools: Table[str, PoolRow]
    pool_facts: Table[int, PoolFactRow]
    foreign: Table[str, int]
    asks: Table[int, AskRow]
    ended: EndedJobs
    commands: UpdateCommands
    instance_commands: InstanceCommands
    volumes: Volumes
    chunks: OverrideChunks
    sla_groups: SlaGroups

    @property
    def settings(self) -> Settings:
        """The settings of the cell."""
        ...

    @property
    def settings_pending(self) -> bool:
        """Whether settings wait for their answer."""
        ...

    @property
    def kinds(self) -> Kinds:
        """The resources that the cell knows."""
        ...

    @property
    def open_tasks(self) -> int:
        """The tasks of all jobs that haven't ended."""
        ...


CommandRow = StopRow | PriorityRow | UpdateAskRow | ActionRow
JobFact = (
    JobSubmitted
    | JobStopRequested
    | JobPriorityRequested
    | JobUpdateRequested
    | JobReopenRequested
    | JobActionRequested
    | VolumeRemovalRequested
    | ImagePrefetchRequested
    | SlaGroupDefined
)
JOB_FACTS: tuple[type[Event], ...] = get_args(JobFact)


def ask_row(at_ms: int, event: JobFact, value: bytes) -> AskRow:
    """The row of a fact. Submissions are equal if their clients say so by `spec_hash`, else if the log holds the same
    value: not if this build would write the same, for the next one may write a field more.
    """
    match event:
        case JobStopRequested():
            return AskRow(at_ms, row_of(StopRow, event))
        case JobPriorityRequested():
            return AskRow(at_ms, row_of(PriorityRow, event))
        case JobActionRequested():
            return AskRow(at_ms, row_of(ActionRow, event))
        case VolumeRemovalRequested():
            return AskRow(at_ms, row_of(VolumeRow, event))
        case ImagePrefetchRequested():
            return AskRow(at_ms, row_of(PrefetchRow, event))
        case SlaGroupDefined():
            return AskRow(at_ms, row_of(GroupAskRow, event))
        case JobUpdateRequested() | JobReopenRequested():
            submitted = wanted_spec(event)
            content = wanted_content(event, submitted)
            spec = None if submitted is None else row_of(SubmittedRow, submitted)
            row: UpdateAskRow | ReopenRow
            if isinstance(event, JobUpdateRequested):
                row = UpdateAskRow(event.job_id, event.command_id, event.expected_version, spec)
            else:
                ranges = (event.first, event.count, event.over_first, event.over_count, event.over_state)
                row = ReopenRow(event.job_id, event.command_id, spec, *ranges)
            return AskRow(at_ms, row, len(content), (submitted and submitted.spec_hash) or digest(content))
    content = body_without_actor(value, event.actor)
    return AskRow(at_ms, row_of(SubmittedRow, event), len(content), event.spec_hash or digest(content))


class CommandAnswers:
    """The answers of one `decide`: each may depend on those before it."""

    def __init__(self, view: LifecycleView, now: int, caught_up: bool) -> None:
        self._view = view
        self._now = now
        self._caught_up = caught_up
        self._accepted: dict[str, bytes] = {}
        self._commanded: set[str] = set()
        self._open: dict[str, tuple[int, int]] = {}
        self._delayed: set[str] = set()
        self._fresh: list[tuple[SubmittedRow, int]] = []
        self._reopened: list[tuple[SubmittedRow, I64, int]] = []
        self._created: list[UpdateStarted] = []
        self._before: tuple[Event, ...] = ()
        """Decisions that come with an answer, and before it: its effect looks at the command."""
        self._tasks = view.open_tasks
        self.answered = 0
        """The number of facts answered."""

    def all(self, budget: int) -> Iterator[Event]:
        """The answers to at most `budget` facts, in the order of the log."""
        for offset, ask in list(self._view.asks.items())[:budget]:
            answer = self._answer(offset, ask)
            yield from self._before
            self._before = ()
            if answer is not None:
                self.answered += 1
                yield answer
        queued = [(job, run) for job, run in self._fresh if job.gang_min > 1 or (job.instances and not job.max_running)]
        if queued:
            yield first_queued(queued)
        if self._reopened and (again := queued_again(self._reopened)):
            yield again
        yield from self._created

    def _answer(self, offset: int, ask: AskRow) -> Event | None:
        match ask.fact:
            case SubmittedRow() as job:
                return self._submission(offset, ask, job)
            case VolumeRow() as volume:
                return self._decided(offset, volume, self._view.volumes.remove(offset, volume))
            case PrefetchRow() as prefetch:
                return self._decided(offset, prefetch, ordered(offset, prefetch))
            case GroupAskRow() as group:
                return self._group(offset, group)
            case fact if fact.job_id in self._delayed:
                return None
            case ReopenRow() as wish:
                return self._reopening(offset, ask, wish)
            case fact:
                return self._command(offset, ask, fact)

    def _group(self, offset: int, ask: GroupAskRow) -> Event | None:
        """The answer about a group; None: it waits for what was just decided of it."""
        if ask.job_id in self._commanded:
            return None
        self._commanded.add(ask.job_id)
        return self._decided(offset, ask, self._view.sla_groups.answer(offset, ask))

    def _command(self, offset: int, ask: AskRow, fact: CommandRow) -> Event | None:
        """The answer to a command; None: it waits for what was just decided of its job."""
        job_id = fact.job_id
        if job_id in self._accepted or job_id in self._commanded:
            self._delayed.add(job_id)
            return None
        refused = self._no_job(job_id) or self._conflict(fact)
        if refused is None and isinstance(fact, UpdateAskRow):
            refused = self._update_refusal(ask, fact)
            if refused and fact.spec and self._may_come(refused[0], fact.spec, ask.at_ms):
                self._delayed.add(job_id)
                return None
        if isinstance(fact, ActionRow) and fact.action == "delete" and refused and refused[0] is Code.ALREADY_ENDED:
            answer = self._view.instance_commands.forget(offset, fact)
        else:
            answer = Answer(*refused) if refused else self._carried_out(offset, ask, fact)
        self._commanded.add(job_id)
        return self._decided(offset, fact, answer)

    def _reopening(self, offset: int, ask: AskRow, wish: ReopenRow) -> Event | None:
        """The answer to a request that tasks of an ended job run again; None: it waits, as a command does."""
        ended, job, job_id = self._view.ended.get(wish.job_id), wish.spec, wish.job_id
        if job_id in self._accepted or job_id in self._commanded:
            self._delayed.add(job_id)
            return None
        if ended is None:
            problem = f"job {job_id} hasn't ended: it is there again, or was never over"
            refused = (Code.REPEATED, problem) if job_id in self._view.jobs else (Code.NOT_FOUND, no_job(job_id))
            return self._decided(offset, wish, Answer(*refused))
        why = reopening_fault(wish, ended, ask.spec_hash)
        if job is not None:
            why = why or self._spec_refusal(ask, job) or self._pool_refusal(job)
        if why or job is None:
            return self._decided(offset, wish, Answer(*(why or (Code.INVALID_SPEC, ""))))
        self._count_accepted(job, ask.spec_hash)
        run, again = ended.run + 1, np.sort(instances_in(wish))
        self._reopened.append((job, again, run))
        over = {"first": wish.over_first, "count": wish.over_count, "state": wish.over_state}
        there_again = JobReopened(job_id=job.job_id, **over, cause=job_fact(offset))
        decisions = (accepted(offset, self._view.chunks.whole_of(job), run), there_again)
        message = f"running {len(again)} of {plural(job.instances, 'task')} again"
        return self._decided(offset, wish, Answer(Code.DONE, message, decisions))

    def _count_accepted(self, job: SubmittedRow, spec_hash: bytes) -> None:
        """A job is accepted in this decision."""
        self._accepted[job.job_id] = spec_digest(spec_hash)
        jobs, tasks = self._open.get(job.pool, (0, 0))
        self._open[job.pool] = (jobs + 1, tasks + job.instances)
        self._tasks += job.instances

    def _decided(
        self, offset: int, fact: CommandRow | VolumeRow | PrefetchRow | ReopenRow | GroupAskRow, answer: Answer
    ) -> Event:
        """An answer as a decision, after what is decided with it."""
        self._before = answer.decisions
        return CommandAnswered(
            job_id=fact.job_id,
            jobs_offset=offset,
            command_id=fact.command_id,
            code=answer.code,
            message=answer.message,
            version=answer.version,
            update=answer.update,
        )

    def _carried_out(self, offset: int, ask: AskRow, fact: CommandRow) -> Answer:
        """The answer to a command about a job that is there, and what is decided with it."""
        row, updates, instances = self._view.jobs[fact.job_id], self._view.commands, self._view.instance_commands
        match fact:
            case StopRow():
                return instances.stop(offset, fact, row)
            case PriorityRow():
                return _change_priority(offset, fact, row)
            case UpdateAskRow():
                return updates.update(offset, fact, row, ask.spec_hash)
            case ActionRow() if fact.action in instances.actions:
                return instances.act(offset, fact, row)
            case ActionRow() if fact.action in updates.actions:
                return updates.act(offset, fact, row)
        actions = ", ".join((*instances.actions, *updates.actions))
        return Answer(Code.INVALID_SPEC, f"action is {fact.action[:40]!r}, it must be one of {actions}")

    def _conflict(self, fact: CommandRow) -> tuple[Code, str] | None:
        row, name = self._view.jobs[fact.job_id], f"job {fact.job_id}"
        if command_digest(fact.command_id) in row.commands:
            return Code.REPEATED, "this command was carried out before"
        if row.deleting:
            return Code.BEING_DELETED, f"{name} is being deleted: it is forgotten as soon as its tasks have ended"
        if fact.expected_version not in (0, row.version):
            return Code.VERSION_CONFLICT, (
                f"{name} has version {row.version}, the command expects {fact.expected_version}; look at what changed"
            )
        return None

    def _update_refusal(self, ask: AskRow, fact: UpdateAskRow) -> tuple[Code, str] | None:
        """Why a job can't have this specification, whatever it has now."""
        job = fact.spec
        if job is None or job.job_id != fact.job_id:
            what = "no specification of a job" if job is None else f"the specification of job {job.job_id[:140]}"
            return Code.INVALID_SPEC, f"the update of job {fact.job_id} holds {what}"
        why = self._spec_refusal(ask, job)
        row = self._view.jobs[job.job_id]
        return why or self._tasks_refusal(row.pool, self._view.pools.get(row.pool), job.instances - row.tasks)

    def _submission(self, offset: int, ask: AskRow, job: SubmittedRow) -> Event | None:
        """The answer; None: it may have to wait for its pool."""
        other_digest = self._known_spec(job.job_id)
        if other_digest is not None:
            if other_digest == spec_digest(ask.spec_hash):
                message = "this job was submitted before with the same content; nothing was done again"
                return CommandAnswered(
                    job_id=job.job_id, jobs_offset=offset, command_id="", code=Code.REPEATED, message=message
                )
            message = other_specification(job.job_id, self._view.ended.get(job.job_id) is not None)
            return JobRejected(job_id=job.job_id, jobs_offset=offset, code=Code.ID_TAKEN, message=message)
        first_run = self._view.ended.first_run(job.job_id)
        if first_run > RUN_MAX:
            message = f"jobs of the id {job.job_id} have had all runs up to {first_run - 1}; choose another id"
            return JobRejected(job_id=job.job_id, jobs_offset=offset, code=Code.ID_TAKEN, message=message)
        why = self._spec_refusal(ask, job) or self._pool_refusal(job)
        if why and self._may_come(why[0], job, ask.at_ms):
            self._delayed.add(job.job_id)
            return None
        if why:
            cell = self._view.foreign.get(job.pool) if why[0] is Code.WRONG_CELL else None
            return JobRejected(job_id=job.job_id, jobs_offset=offset, code=why[0], message=why[1], cell=cell)
        self._count_accepted(job, ask.spec_hash)
        acceptance = accepted(offset, self._view.chunks.whole_of(job), first_run)
        if is_created(job):
            self._created.append(created(offset, job, ask.spec_hash))
            return without_instances(acceptance)
        self._fresh.append((job, first_run))
        return acceptance

    def _may_come(self, why: Code, job: SubmittedRow, at_ms: int) -> bool:
        """Whether what a job lacks may have been defined before it: the log isn't read yet, or a fact not answered."""
        if why is Code.NO_SUCH_POOL:
            facts = self._view.pool_facts.values()
            pending = any(fact.path == job.pool and not fact.removed for fact in facts)
        elif why is Code.UNKNOWN_RESOURCE:
            pending = self._view.settings_pending
        elif why is Code.SLACK_OFF:
            return self._view.settings_pending
        else:
            return False
        return pending or not (self._caught_up and self._now >= last_wait_ms(at_ms))

    def _known_spec(self, job_id: str) -> bytes | None:
        row, ended = self._view.jobs.get(job_id), self._view.ended.get(job_id)
        if row is not None:
            return spec_digest(row.spec_hash)
        return ended.spec if ended is not None else self._accepted.get(job_id)

    def _spec_refusal(self, ask: AskRow, job: SubmittedRow) -> tuple[Code, str] | None:
        """Why a specification can't be taken, by itself and for the resources that it names."""
        whole, settings = self._view.chunks.whole(job), self._view.settings
        if isinstance(whole, str):
            return Code.OVERRIDES_MISSING, whole
        return refusal(whole, ask.size, settings.host_lost_after_ms) or resources_refusal(
            whole, self._view.kinds, settings.slack
        )

    def _pool_refusal(self, job: SubmittedRow) -> tuple[Code, str] | None:
        pool, cell = self._view.pools.get(job.pool), self._view.foreign.get(job.pool)
        if cell is not None:
            return Code.WRONG_CELL, (
                f"pool {job.pool} belongs to cell {cell}: submit the job there, to partition {cell} of paceline.jobs"
            )
        if pool is None:
            return Code.NO_SUCH_POOL, no_pool(job.pool)
        if pool.children:
            return Code.POOL_NOT_A_LEAF, not_a_leaf(job.pool)
        jobs, _ = self._open.get(job.pool, (0, 0))
        if why := too_many_jobs(job.pool, pool.open_jobs + jobs, pool.open_jobs_max):
            return Code.OPEN_JOBS_MAX, why
        return self._tasks_refusal(job.pool, pool, job.instances)

    def _tasks_refusal(self, path: str, pool: PoolRow | None, more: int) -> tuple[Code, str] | None:
        """Why a pool, or the cell, can't take so many tasks more."""
        _, tasks = self._open.get(path, (0, 0))
        why = too_many_tasks("the cell", self._tasks, more, TASKS_MAX)
        if pool is not None:
            why = too_many_tasks(f"pool {path}", pool.open_tasks + tasks, more, pool.open_tasks_max) or why
        return (Code.OPEN_TASKS_MAX, why) if why else None

    def _no_job(self, job_id: str) -> tuple[Code, str] | None:
        """Why there is nothing to command."""
        row, ended = self._view.jobs.get(job_id), self._view.ended.get(job_id)
        if ended is not None:
            return Code.ALREADY_ENDED, f"job {job_id} is {ended.state}"
        if row is None and job_id not in self._accepted:
            return Code.NOT_FOUND, no_job(job_id)
        return None


def _change_priority(offset: int, request: PriorityRow, row: JobRow) -> Answer:
    if fault := priority_fault(request.priority):
        return Answer(Code.INVALID_SPEC, fault)
    if request.priority == row.priority:
        return Answer(Code.REPEATED, f"the priority of the job is {row.priority} already")
    cause = job_fact(offset)
    return Answer(Code.DONE, "", (JobPriorityChanged(job_id=request.job_id, priority=request.priority, cause=cause),))
