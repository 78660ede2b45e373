"""The specifications by which runs start: of each job those of the versions that runs are of, or may be of again."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from events.columns import I64, indexed, ints
from events.job_versions import wanted_spec
from events.records.jobs import JobSubmitted, JobUpdateRequested
from events.records.lifecycle import JobAccepted, UpdateStarted
from events.records.parts import TaskOverride
from events.structs import known
from events.task_overrides import instance_of, override_index
from hostagent.task_columns import Column

T = TypeVar("T", JobSubmitted, TaskOverride)
BITS, MASK = 32, (1 << 32) - 1
"""Two numbers in one."""


class Variant(NamedTuple):
    """By what a run starts: the version of its job, and the override of its instance, 0 for none."""

    job_id: str
    version: int
    override: int


class Specifications:
    """By job and version; lifecycle says which leave. What it hasn't answered yet stands aside, by its offset."""

    def __init__(self) -> None:
        self._of: dict[str, dict[int, JobSubmitted]] = {}
        self._asked: dict[int, JobSubmitted] = {}
        self._overrides: dict[tuple[str, int], I64] = {}
        """Of each version with overrides which one each instance has, as `override_index`."""

    def asked(self, offset: int, event: JobSubmitted | JobUpdateRequested) -> None:
        """A submission or an update that lifecycle has yet to answer."""
        spec = wanted_spec(event) if isinstance(event, JobUpdateRequested) else event
        if spec is not None:
            self._asked[offset] = spec

    def answered(self, offset: int) -> None:
        """What was asked has its answer."""
        self._asked.pop(offset, None)

    def accepted(self, decision: JobAccepted) -> bool:
        """A job is there; returns whether what was submitted is known."""
        job = self._asked.pop(decision.jobs_offset, None)
        if job is None:
            return False
        if job.job_id != decision.job_id:
            job = msgspec.structs.replace(job, job_id=decision.job_id)
        if decision.first_run > 1:
            job = _later(job, decision.first_run - 1)
        self._put(decision.job_id, 1, job)
        return True

    def started(self, decision: UpdateStarted) -> None:
        """A job has a new version; those that nobody needs any more are forgotten."""
        versions = self._of.get(decision.job_id)
        if not versions:
            return
        spec = versions.get(decision.like) if decision.like else self._asked.get(decision.jobs_offset)
        if spec is not None:
            instances = next(iter(versions.values())).instances
            self._put(decision.job_id, decision.version, msgspec.structs.replace(spec, instances=instances))
        for number in ints(decision.forgotten).tolist():
            versions.pop(number, None)
            self._overrides.pop((decision.job_id, number), None)

    def resized(self, job_id: str, instances: int) -> None:
        """A job has another number of instances: hosts hear it when they start one."""
        for number, spec in list(self._of[job_id].items()):
            self._put(job_id, number, msgspec.structs.replace(spec, instances=instances))

    def dropped(self, job_id: str) -> None:
        """A job has ended."""
        for number in self._of.pop(job_id, ()):
            self._overrides.pop((job_id, number), None)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._of

    def get(self, variant: Variant) -> JobSubmitted | None:
        """What a run starts by; None where it isn't to start."""
        if not variant.version:
            return None
        return instance_of(self._of[variant.job_id][variant.version], variant.override)

    def variants(
        self, job_ids: Sequence[str], job: Column, instance: Column, version: Column
    ) -> tuple[list[Variant], Column]:
        """By what runs start, each once, and for each run which of those. Version 0: it isn't to start."""
        both, index = indexed(job.astype(np.int64) << BITS | version)
        named = [(job_ids[each >> BITS], each & MASK) for each in both.tolist()]
        override = np.zeros(len(job), dtype=np.int64)
        for at, each in enumerate(named):
            if (known := self._overrides.get(each)) is not None:
                override[index == at] = known[instance[index == at]]
        all_, index = indexed(index.astype(np.int64) << BITS | override)
        found = [(named[each >> BITS], each & MASK) for each in all_.tolist()]
        return [Variant(job_id, number, at) for (job_id, number), at in found], index

    def ports(self, job_id: str) -> int:
        """Most ports that a task of a job has."""
        specs = self._of[job_id].values()
        own = (each.ports or () for spec in specs for each in spec.overrides)
        return max(len(ports) for ports in (*(spec.ports for spec in specs), *own))

    def _put(self, job_id: str, number: int, spec: JobSubmitted) -> None:
        self._of.setdefault(job_id, {})[number] = spec
        if spec.overrides:
            self._overrides[job_id, number] = override_index(spec)

    def dump(self) -> dict[str, Any]:
        """All there is, as values that MessagePack takes."""
        return {"of": self._of, "asked": self._asked}

    def load(self, state: Mapping[str, Any]) -> None:
        """Takes what `dump` gave, while there is nothing yet."""
        for job_id, versions in msgspec.convert(state["of"], known(dict[str, dict[int, JobSubmitted]])).items():
            for number, spec in versions.items():
                self._put(job_id, number, spec)
        self._asked = msgspec.convert(state["asked"], known(dict[int, JobSubmitted]))


def _later(job: JobSubmitted, runs: int) -> JobSubmitted:
    """The job with the same simulated failures, so many runs later."""
    overrides = tuple(_fails_later(each, runs) for each in job.overrides)
    return msgspec.structs.replace(_fails_later(job, runs), overrides=overrides)


def _fails_later(job: T, runs: int) -> T:
    simulated = job.simulated
    if simulated is None:
        return job
    failures = {name: getattr(simulated, name) for name in ("fail_runs", "fail_run", "unhealthy_runs")}
    later = {name: runs + run for name, run in failures.items() if run}
    return msgspec.structs.replace(job, simulated=msgspec.structs.replace(simulated, **later))
