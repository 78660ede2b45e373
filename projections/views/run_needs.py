"""The amounts of single runs that are not what their job asks: by an override, or by the alternative they took."""

from collections import OrderedDict
from collections.abc import Iterator

import msgspec
import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from events.codec import decode
from events.columns import I64
from events.override_chunks import read
from events.records.jobs import JobSubmitted
from events.records.lifecycle import RunsOrdered
from events.resources import Amounts, in_order, of_slack
from events.task_overrides import instance_of, override_keys
from projections.views import tables
from projections.views.cache import Cache
from projections.views.named_tasks import NamedTasks
from projections.views.rows import JobRow, amounts_in, to_json
from projections.views.run_rows import RunNeedsRow

SPECS_KEPT = 16
NONE = -1


def need_of_version(need: str, needs: str, version: int) -> Amounts:
    """The needs of a task of a version of a job, by these columns of its row."""
    older: dict[str, Amounts] = msgspec.json.decode(needs)
    return older.get(str(version)) or amounts_in(need)


class RunNeeds:
    """The fold of what single runs hold. In a cell whose tasks ask what their jobs do it does nothing."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._any = False
        """Whether some live run holds anything else."""
        self._specs: OrderedDict[int, JobSubmitted] = OrderedDict()

    def restore(self, connection: Connection) -> None:
        """Finds out whether some live run holds anything else."""
        self._any = connection.execute(select(tables.run_needs.c.instance).limit(1)).first() is not None

    def ordered(self, selection: NamedTasks, event: RunsOrdered) -> None:
        """Notes what runs hold that begin."""
        took = event.alternative_array[selection.at] if event.alternative else np.full(len(selection.at), NONE)
        own = (took != NONE) | np.array([bool(row.overridden) for row in selection.jobs])[selection.job]
        if not own.any():
            return
        some, took = selection.some(own), took[own]
        versions = self._cache.tasks["version"][some.places]
        keys = np.stack([some.job, versions, took])
        for job, version, number in np.unique(keys, axis=1).T.tolist():
            mine = np.flatnonzero((keys == np.array([[job], [version], [number]])).all(axis=0))
            self._note(some.jobs[job], version, number, some.instance[mine])

    def _note(self, job: JobRow, version: int, number: int, instances: I64) -> None:
        """Notes the needs of instances of a version that took an alternative."""
        spec = self._spec(job, version)
        if spec is None:
            return
        usual = need_of_version(job.need, job.needs, version)
        keys = override_keys(spec, instances, self._chunk)
        for key in np.unique(keys).tolist():
            need = _need(instance_of(spec, key, self._chunk), number)
            if need != usual:
                self._any = True
                for instance in instances[keys == key].tolist():
                    self._cache.run_needs.put(RunNeedsRow(job.job_id, instance, to_json(need)))

    def own(self, selection: NamedTasks) -> Iterator[tuple[Amounts, NDArray[np.bool_]]]:
        """Yields the amounts of some of these runs that aren't what their jobs ask, and which runs hold them."""
        if not self._any:
            return
        names = [job.job_id for job in selection.jobs]
        keys = [
            (names[job], each) for job, each in zip(selection.job.tolist(), selection.instance.tolist(), strict=True)
        ]
        texts = [row.need if row is not None else "" for row in self._cache.run_needs.get_all(keys)]
        for text in dict.fromkeys(filter(None, texts)):
            yield amounts_in(text), np.array([each == text for each in texts])

    def ended(self, selection: NamedTasks) -> None:
        """Runs are over."""
        for _, mask in list(self.own(selection)):
            over = selection.some(mask)
            for job, instance in zip(over.job.tolist(), over.instance.tolist(), strict=True):
                self._cache.run_needs.remove((over.jobs[job].job_id, instance))

    def _spec(self, job: JobRow, version: int) -> JobSubmitted | None:
        """The specification of a version; None: the views have it no more."""
        of = self._cache.versions.get((job.job_id, version)) if version != job.version else None
        offset = of.offset if of is not None else job.offset
        if offset not in self._specs:
            row = self._cache.submissions.get(offset)
            spec = decode(row.value) if row is not None else None
            if not isinstance(spec, JobSubmitted):
                return None
            self._specs[offset] = spec
            if len(self._specs) > SPECS_KEPT:
                self._specs.popitem(last=False)
        return self._specs[offset]

    def _chunk(self, name: bytes) -> JobSubmitted:
        row = self._cache.override_chunks.get(name.hex())
        overrides = read(row.content) if row is not None else None
        assert overrides is not None, "lifecycle has accepted the job, so it has read them"
        return overrides


def _need(job: JobSubmitted, number: int) -> Amounts:
    """The amounts that a task asks, of the alternative with a number."""
    if number != NONE and job.rules is not None and number < len(job.rules.alternatives):
        return in_order({each.name: each.amount for each in job.rules.alternatives[number].resources})
    return of_slack(job.resources) if job.revocable else job.resources
