"""A change file: what is otherwise in a branch, beside the fields of pools and settings that `--set` names.

Parts are those of scenarios: pools, settings, jobs with the time of their submission, groups of hosts. Times are from
the start of the stretch. What names something that the stretch doesn't have is a fault, with its line.
"""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace
from pydantic import ConfigDict, Field, model_validator

from events.codec import decode, encode
from events.nearest import meant
from events.records.base import Event
from events.records.hosts import HostConnected, HostOffered
from events.records.jobs import JobPriorityRequested, JobStopRequested, JobSubmitted, JobUpdateRequested
from events.spec.parts import Int32, Spec, Text, Word, at
from events.spec.settings import CellSpec
from events.words import plural
from events.yaml_documents import Document, Fault
from paceline.client.errors import Faults
from paceline.job_files import PoolFile, read_pools_or_one
from paceline.simulate.scenario.parts import HostGroup, Job, Pool, ScenarioJob, ScenarioPool
from paceline.whatif.added_hosts import facts_of, loss_of
from paceline.whatif.branch import Change, Timed
from paceline.whatif.settings import CELL, COMMAND, Setting, change_of
from paceline.whatif.stretch import Stretch
from processors.lifecycle.machine import Lifecycle
from processors.placement.machine import Placement

NAMES_SHOWN = 3


def _or_a_pattern(schema: dict[str, Any]) -> None:
    fields = {**schema}
    schema.clear()
    schema["anyOf"] = [{"type": "string"}, fields]


class JobsLeftOut(Spec):
    """Jobs that all of this is true of; a text instead is the pattern of their ids."""

    model_config = ConfigDict(json_schema_extra=_or_a_pattern)

    job_id: Word | None = Field(default=None, description="Its id, or a pattern such as nightly-*.")
    pool: Pool | None = Field(default=None, description="Its pool, or one above it.")
    owner: Word | None = None

    @model_validator(mode="before")
    @classmethod
    def _pattern_alone(cls, value: Any) -> Any:
        return {"job_id": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _says_something(self) -> "JobsLeftOut":
        if not self.model_fields_set:
            raise at("", "must say which jobs: job_id, pool or owner", None)
        return self

    def has(self, job: "OpenJob") -> bool:
        """Whether a job is among them."""
        return (
            (self.job_id is None or fnmatchcase(job.job_id, self.job_id))
            and (self.pool is None or f"{job.pool}/".startswith(f"{self.pool}/"))
            and (self.owner is None or job.owner == self.owner)
        )


class LeftOut(Spec):
    """Jobs and hosts that a branch doesn't have."""

    jobs: list[JobsLeftOut] = Field(default=[])
    hosts: list[Text] = Field(default=[], description="Names, patterns such as gpu-*, or an attribute: rack=r1.")


class AddedJob(ScenarioJob):
    """A job that nobody submitted."""

    def says_how_long(self) -> bool:
        """Whether it says how long its runs take, or that they fail; else their lengths are drawn."""
        return bool(self.sim.model_fields_set)


class AddedHosts(HostGroup):
    """Hosts that weren't there."""

    @model_validator(mode="after")
    def _at_any_rate(self) -> "AddedHosts":
        if self.starts_per_second:
            raise at("starts_per_second", "has no meaning here: runs start as in history", self.starts_per_second)
        return self


class ChangeFile(Spec):
    """All that is otherwise."""

    pools: list[ScenarioPool] = Field(default=[], description="Whole pools, as in pool files.")
    settings: CellSpec | None = Field(default=None, description="Settings of the cell.")
    priorities: dict[Job, Int32] = Field(default={}, description="Jobs by id, with the priority that they have.")
    without: LeftOut = LeftOut()
    jobs: list[AddedJob] = Field(default=[], description="Jobs that are submitted beside those of history.")
    hosts: list[AddedHosts] = Field(default=[], description="Hosts that join beside those of history.")


class InvalidChange(Faults):
    """A file after `--file` is wrong; one line each."""

    exit_code = 2


class ReadFile(NamedTuple):
    """The contents of a file after `--file`: pools by path, settings, and a change file where it is one."""

    pools: dict[str, dict[str, Any]]
    settings: list[Setting]
    change: ChangeFile | None = None
    document: Document | None = None


class OpenJob(NamedTuple):
    """A job that is open at the start of a stretch or is submitted within it."""

    job_id: str
    pool: str
    owner: str


def read_change(file: Path) -> ReadFile:
    """Reads a pool file or a change file. Raises `InvalidChange`."""
    try:
        read = read_pools_or_one(str(file), ChangeFile)
    except Faults as faults:
        raise InvalidChange(faults.lines) from faults
    if isinstance(read, list):
        return ReadFile({each.path: each.body for each in read if isinstance(each, PoolFile)}, [])
    change, document = read
    paths = [pool.path for pool in change.pools]
    twice = [
        document.fault(f"/pools/{index}/path", "is the path of another pool")
        for index, path in enumerate(paths)
        if path in paths[:index]
    ]
    if twice:
        raise InvalidChange([*map(str, twice)])
    bodies = [{name: part for name, part in body.items() if name != "path"} for body in document.value.get("pools", [])]
    values = document.value.get("settings") or {}
    return ReadFile(
        dict(zip(paths, bodies, strict=True)),
        [Setting(CELL, name, "", value) for name, value in values.items()],
        change,
        document,
    )


def with_file(stretch: Stretch, change: Change, read: ReadFile) -> Change:
    """A change with what a change file says beside pools and settings. Raises `InvalidChange`."""
    if read.change is None or read.document is None:
        return change
    return _Reader(stretch, change, read.change, read.document).change()


def whole_change(stretch: Stretch, read: ReadFile, settings: Sequence[Setting]) -> Change:
    """The change of a file, and of `settings`, which go over its own. Raises `InvalidChange`, `InvalidValue`."""
    return with_file(stretch, change_of(stretch, [*read.settings, *settings], read.pools), read)


class _Reader:
    """Makes a change of a change file."""

    def __init__(self, stretch: Stretch, base: Change, file: ChangeFile, document: Document) -> None:
        self._stretch = stretch
        self._base = base
        self._file = file
        self._document = document
        lifecycle, placement = stretch.fold("lifecycle").machine, stretch.fold("placement").machine
        assert isinstance(lifecycle, Lifecycle)
        assert isinstance(placement, Placement)
        jobs = stretch.runs.jobs
        self._open = {
            job_id: OpenJob(job_id, row.pool, jobs[job_id].owner if job_id in jobs else "")
            for job_id, row in lifecycle.jobs.items()
        }
        """Jobs that are open at the start."""
        submitted = (fact.event for fact in stretch.facts if isinstance(fact.event, JobSubmitted))
        self._jobs = self._open | {each.job_id: OpenJob(each.job_id, each.pool, each.owner) for each in submitted}
        self._present = {host_id: row.session for host_id, row in placement.hosts.table.items() if not row.lost}
        """The session of each host that is there at the start."""
        self._attributes = {host_id: {**row.attributes} for host_id, row in placement.hosts.table.items()}
        for event in (fact.event for fact in stretch.facts):
            if isinstance(event, HostConnected):
                self._attributes.setdefault(event.host_id, {})
            elif isinstance(event, HostOffered):
                self._attributes.setdefault(event.host_id, {}).update(event.attributes)
        self._jobs_out: set[str] = set()
        self._hosts_out: set[str] = set()
        self._lines: list[str] = []

    def change(self) -> Change:
        """The whole. Raises `InvalidChange`."""
        faults = [
            *self._leave_out_jobs(), *self._leave_out_hosts(), *self._check_priorities(), *self._check_jobs(),
            *self._check_hosts(),
        ]  # fmt: skip
        if faults:
            raise InvalidChange([*map(str, sorted(faults, key=lambda fault: (fault.line, fault.column)))])
        added = [job.fact(0) for job in self._file.jobs]
        start_ms = self._stretch.from_ms
        later = [
            Timed(start_ms + job.at, fact, fact.job_id.encode())
            for job, fact in zip(self._file.jobs, added, strict=True)
        ]
        for group in self._file.hosts:
            later += facts_of(group, start_ms)
        self._lines += [f"job {job.job_id} is submitted to {job.pool}" for job in self._file.jobs]
        self._lines += [f"{plural(group.count, 'host')} {group.name} more" for group in self._file.hosts]
        return Change(
            [*self._base.first, *self._first()],
            self._alter,
            [*self._base.lines, *self._lines],
            [*self._base.later, *later],
            {fact.job_id: fact for job, fact in zip(self._file.jobs, added, strict=True) if job.says_how_long()},
            frozenset(self._jobs_out),
        )

    def _first(self) -> Iterator[Event]:
        for host_id in sorted(self._hosts_out & self._present.keys()):
            yield from loss_of(host_id, self._present[host_id])
        for job_id in sorted(self._jobs_out & self._open.keys()):
            yield JobStopRequested.pack(job_id=job_id, command_id=f"{COMMAND} {job_id}", first=(), count=())
        for job_id, priority in self._file.priorities.items():
            if job_id in self._open:
                yield JobPriorityRequested(job_id=job_id, command_id=f"{COMMAND} {job_id}", priority=priority)

    def _alter(self, event: Event) -> Event | None:
        altered = self._base.alter(event)
        if getattr(altered, "job_id", None) in self._jobs_out or getattr(altered, "host_id", None) in self._hosts_out:
            return None
        priorities = self._file.priorities
        if isinstance(altered, JobPriorityRequested) and altered.job_id in priorities:
            return None
        if isinstance(altered, JobSubmitted) and altered.job_id in priorities:
            return replace(altered, priority=priorities[altered.job_id])
        if isinstance(altered, JobUpdateRequested) and altered.job_id in priorities:
            spec = decode(altered.spec)
            assert isinstance(spec, JobSubmitted)
            return replace(altered, spec=encode(replace(spec, priority=priorities[altered.job_id])))
        return altered

    # Faults, and what is noted on the way

    def _leave_out_jobs(self) -> Iterator[Fault]:
        for index, which in enumerate(self._file.without.jobs):
            these = {job_id for job_id, job in self._jobs.items() if which.has(job)}
            if not these:
                yield self._document.fault(f"/without/jobs/{index}", "no job of the stretch is one of these")
            self._jobs_out |= these
        if self._jobs_out:
            self._lines.append(f"without {_named('job', self._jobs_out)}")

    def _leave_out_hosts(self) -> Iterator[Fault]:
        for index, text in enumerate(self._file.without.hosts):
            name, is_attribute, value = text.partition("=")
            these = {
                host_id
                for host_id, attributes in self._attributes.items()
                if (attributes.get(name) == value if is_attribute else fnmatchcase(host_id, text))
            }
            if not these:
                yield self._document.fault(
                    f"/without/hosts/{index}", f"no host of the stretch is {text}{meant(text, self._attributes)}"
                )
            self._hosts_out |= these
        if self._hosts_out:
            self._lines.append(f"without {_named('host', self._hosts_out)}")

    def _check_priorities(self) -> Iterator[Fault]:
        for job_id, priority in self._file.priorities.items():
            if job_id not in self._jobs:
                yield self._document.fault(
                    f"/priorities/{job_id}", f"no job of the stretch has this id{meant(job_id, self._jobs)}"
                )
            self._lines.append(f"job {job_id} has priority {priority}")

    def _check_jobs(self) -> Iterator[Fault]:
        machine = self._stretch.entitlement
        paths = {*machine.pools, *(str(pool.path) for pool in self._file.pools)}
        paths |= {getattr(fact.event, "path", "") for fact in self._stretch.facts}
        seen = {*self._stretch.runs.jobs, *self._jobs}
        for index, job in enumerate(self._file.jobs):
            if job.job_id in seen:
                yield self._document.fault(f"/jobs/{index}/job_id", f"{job.job_id} is the id of another job")
            seen.add(str(job.job_id))
            if job.pool not in paths:
                yield self._document.fault(
                    f"/jobs/{index}/pool", f"there is no pool {job.pool}{meant(job.pool, paths)}"
                )
            if self._is_late(job.at):
                yield self._document.fault(f"/jobs/{index}/at", "is after the end of the stretch")

    def _check_hosts(self) -> Iterator[Fault]:
        seen = set(self._attributes)
        for index, group in enumerate(self._file.hosts):
            names = set(group.names())
            if twice := sorted(names & seen):
                yield self._document.fault(f"/hosts/{index}", f"{twice[0]} is the name of another host")
            seen |= names
            if self._is_late(group.joins):
                yield self._document.fault(f"/hosts/{index}/joins", "is after the end of the stretch")

    def _is_late(self, after_ms: int) -> bool:
        return self._stretch.from_ms + after_ms >= self._stretch.to_ms


def _named(what: str, names: set[str]) -> str:
    if len(names) > NAMES_SHOWN:
        return plural(len(names), what)
    return f"{what}{'s' if len(names) > 1 else ''} {', '.join(sorted(names))}"
