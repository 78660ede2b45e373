"""The specifications by which runs start: of each job those of the versions that runs are of, or may be of again."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from events.columns import indexed
from events.job_versions import wanted_spec
from events.override_chunks import name_of, reader
from events.records.jobs import JobReopenRequested, JobSubmitted, JobUpdateRequested, OverridesUploaded
from events.records.lifecycle import JobAccepted, OverridesDropped, UpdateStarted
from events.structs import known
from events.task_overrides import instance_of, override_keys
from hostagent.task_columns import Column

JobFact = JobSubmitted | JobUpdateRequested | JobReopenRequested | OverridesUploaded
"""Records with specifications of jobs, or overrides."""
BITS, MASK = 32, (1 << 32) - 1
"""Two numbers in one."""


class Variant(NamedTuple):
    """By what a run starts: the version of its job, the key of the override of its instance, 0 for none, and the
    alternative of its rules that it took, -1 for none.
    """

    job_id: str
    version: int
    override: int
    alternative: int = -1


class Specifications:
    """By job and version; lifecycle says which leave. What it hasn't answered yet stands aside, by its offset."""

    def __init__(self) -> None:
        self._of: dict[str, dict[int, JobSubmitted]] = {}
        self._asked: dict[int, JobSubmitted] = {}
        self._later: dict[str, int] = {}
        """The number of earlier runs of jobs whose first run isn't run 1."""
        self._chunks: dict[bytes, bytes] = {}
        """Uploaded overrides by name, compressed as they came."""
        self._nameable: set[bytes] = set()
        """Those that jobs to come may still name."""
        self._read = reader(self._chunks)

    def _uploaded(self, event: OverridesUploaded) -> None:
        name = name_of(event)
        self._chunks[name] = event.content
        self._nameable.add(name)

    def uploads_dropped(self, decision: OverridesDropped) -> None:
        """Overrides that no job to come can name any more leave where no job has them."""
        self._nameable.difference_update(decision.digests)
        self._leave(decision.digests)

    def _leave(self, names: Iterable[bytes]) -> None:
        """Lets go of chunks that nobody needs."""
        used = {chunk.digest for versions in self._of.values() for spec in versions.values() for chunk in spec.chunks}
        used |= {chunk.digest for spec in self._asked.values() for chunk in spec.chunks}
        for name in set(names) - used - self._nameable:
            self._chunks.pop(name, None)

    def asked(self, offset: int, event: JobFact) -> None:
        """A submission or an update that lifecycle has yet to answer, or overrides that one may name."""
        if isinstance(event, OverridesUploaded):
            self._uploaded(event)
            return
        spec = event if isinstance(event, JobSubmitted) else wanted_spec(event)
        if spec is not None:
            self._asked[offset] = spec

    def answered(self, offset: int) -> None:
        """Notes that the request at an offset has its answer."""
        self._asked.pop(offset, None)

    def accepted(self, decision: JobAccepted) -> bool:
        """A job is there; returns whether what was submitted is known."""
        job = self._asked.pop(decision.jobs_offset, None)
        if job is None:
            return False
        if job.job_id != decision.job_id:
            job = msgspec.structs.replace(job, job_id=decision.job_id)
        if decision.first_run > 1:
            self._later[decision.job_id] = decision.first_run - 1
        self._put(decision.job_id, 1, job)
        return True

    def reopened(self, job_id: str) -> None:
        """A job is there again: its simulated failures were those of its first runs."""
        self._later.pop(job_id, None)

    def started(self, decision: UpdateStarted) -> None:
        """A job has a new version; those that nobody needs any more are forgotten."""
        versions = self._of.get(decision.job_id)
        if not versions:
            return
        spec = versions.get(decision.like) if decision.like else self._asked.get(decision.jobs_offset)
        if spec is not None:
            instances = next(iter(versions.values())).instances
            self._put(decision.job_id, decision.version, msgspec.structs.replace(spec, instances=instances))
        self._forget(versions.pop(number, None) for number in decision.forgotten_array.tolist())

    def resized(self, job_id: str, instances: int) -> None:
        """A job has another number of instances: hosts hear it when they start one."""
        for number, spec in list(self._of[job_id].items()):
            self._put(job_id, number, msgspec.structs.replace(spec, instances=instances))

    def dropped(self, job_id: str) -> None:
        """A job has ended."""
        self._forget(self._of.pop(job_id, {}).values())
        self._later.pop(job_id, None)

    def _forget(self, specs: Iterable[JobSubmitted | None]) -> None:
        if chunks := [chunk.digest for spec in specs if spec for chunk in spec.chunks]:
            self._leave(chunks)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._of

    def get(self, variant: Variant) -> JobSubmitted | None:
        """The specification by which a run starts; None where it isn't to start."""
        if not variant.version:
            return None
        spec = instance_of(self._of[variant.job_id][variant.version], variant.override, self._read)
        if variant.alternative > 0 and spec.rules is not None:
            amounts = spec.rules.alternatives[variant.alternative].resources
            spec = msgspec.structs.replace(spec, resources={each.name: each.amount for each in amounts})
        return _fails_later(spec, self._later.get(variant.job_id, 0))

    def variants(
        self, job_ids: Sequence[str], job: Column, instance: Column, version: Column, alternative: Column | None = None
    ) -> tuple[list[Variant], Column]:
        """By what runs start, each once, and for each run which of those. Version 0: it isn't to start."""
        both, index = indexed(job.astype(np.int64) << BITS | version)
        keys = [(job_ids[each >> BITS], each & MASK) for each in both.tolist()]
        override = np.zeros(len(job), dtype=np.int64)
        for at, each in enumerate(keys):
            spec = self._of[each[0]].get(each[1]) if each[1] else None
            if spec is not None and (spec.overrides or spec.chunks):
                override[index == at] = override_keys(spec, instance[index == at], self._read)
        all_, index = indexed(index.astype(np.int64) << BITS | override)
        distinct_keys = [(keys[each >> BITS], each & MASK) for each in all_.tolist()]
        variants = [Variant(job_id, number, at) for (job_id, number), at in distinct_keys]
        if alternative is None:
            return variants, index
        both, index = indexed(index.astype(np.int64) << BITS | (alternative + 1))
        return [variants[each >> BITS]._replace(alternative=(each & MASK) - 1) for each in both.tolist()], index

    def _put(self, job_id: str, number: int, spec: JobSubmitted) -> None:
        self._of.setdefault(job_id, {})[number] = spec

    def dump(self) -> dict[str, Any]:
        """All there is, as values that MessagePack takes."""
        chunks, nameable = list(self._chunks.items()), list(self._nameable)
        return {"of": self._of, "asked": self._asked, "later": self._later, "chunks": chunks, "nameable": nameable}

    def load(self, state: Mapping[str, Any]) -> None:
        """Takes what `dump` gave, while there is nothing yet."""
        for job_id, versions in msgspec.convert(state["of"], known(dict[str, dict[int, JobSubmitted]])).items():
            for number, spec in versions.items():
                self._put(job_id, number, spec)
        self._asked = msgspec.convert(state["asked"], known(dict[int, JobSubmitted]))
        self._later = state["later"]
        self._chunks.update(state["chunks"])
        self._nameable.update(state["nameable"])


def _fails_later(job: JobSubmitted, runs: int) -> JobSubmitted:
    """The job with the same simulated failures, so many runs later."""
    simulated = job.simulated
    if simulated is None or not runs:
        return job
    failures = {name: getattr(simulated, name) for name in ("fail_runs", "fail_run", "unhealthy_runs")}
    later = {name: runs + run for name, run in failures.items() if run}
    return msgspec.structs.replace(job, simulated=msgspec.structs.replace(simulated, **later))
