"""Names of jobs by which lifecycle counts their runs as before (`processors.lifecycle.ended_jobs`).

The runs of a new job count from above those of all forgotten jobs whose digests fall into its bucket. So each new name
gets an ending by which it falls into a bucket where runs count from where they did. A job whose id comes back keeps its
bucket, and so do all others of that bucket.
"""

from collections import Counter
from collections.abc import Callable, Container, Mapping
from itertools import chain
from typing import NamedTuple

from events.id_digests import job_digest, split
from events.job_ends import is_over
from events.records.lifecycle import JobAccepted, JobChanged, JobsForgotten
from events.records.rounds import RoundCommitted
from events.rounds import decode_decisions
from processors.lifecycle.ended_jobs import BUCKETS, EndedJobs, bucket_of

Bucket = tuple[int, int]
TRIES_MAX = 8 * BUCKETS
"""So many endings are tried; of 3,000 names one wouldn't find a bucket that alone fits."""


class _Round(NamedTuple):
    """The jobs that a round accepted, each with its first run, and the digests that it forgot, each with its last."""

    accepted: list[tuple[str, int]]
    forgotten: list[tuple[bytes, int]]


class RunFloors:
    """Notes what the rounds of lifecycle do to the runs from which new jobs count."""

    def __init__(self) -> None:
        self._rounds: list[_Round] = []
        self._runs: dict[bytes, int] = {}
        """The last run of each ended job that isn't forgotten, by its digest."""

    def note(self, round_: RoundCommitted, ended: EndedJobs) -> None:
        """Notes a round; `ended` is as it leaves it."""
        noted = _Round([], [])
        for event in decode_decisions(round_):
            if isinstance(event, JobAccepted):
                noted.accepted.append((event.job_id, event.first_run))
            elif isinstance(event, JobChanged) and is_over(event):
                job = ended.get(event.job_id)
                self._runs[job_digest(event.job_id)] = ended.first_run(event.job_id) - 1 if job is None else job.run
            elif isinstance(event, JobsForgotten):
                for key in (*split(event.digests), *map(job_digest, event.job_ids)):
                    noted.forgotten.append((key, self._runs.pop(key, 0)))
        if noted.accepted or noted.forgotten:
            self._rounds.append(noted)

    def renamed(self, names: Mapping[str, str]) -> dict[str, str]:
        """Gives endings to names; where nothing was ever forgotten they stay as they are."""
        if not any(each.forgotten for each in self._rounds):
            return dict(names)
        times = Counter(job_id for each in self._rounds for job_id, _ in each.accepted)
        homes = {bucket_of(job_digest(job_id)) for job_id, often in times.items() if often > 1}
        floors, new, digests = dict[Bucket, int](), dict(names), dict[bytes, bytes]()
        for each in self._rounds:
            # whether a round forgets first or accepts first, nobody need know
            off_limits = homes | {bucket_of(digests[key]) for key, _ in each.forgotten if key in digests}
            for job_id, first_run in each.accepted:
                old = job_digest(job_id)
                if old in digests:
                    continue
                home = bucket_of(old)
                fits = home.__eq__ if home in homes else _leaves_off_at(floors, first_run - 1, off_limits)
                new[job_id] = _with_ending(names[job_id], fits)
                digests[old] = job_digest(new[job_id])
            for key, run in each.forgotten:
                if key in digests:
                    at = bucket_of(digests[key])
                    floors[at] = max(floors.get(at, 0), run)
        return new


def _leaves_off_at(floors: Mapping[Bucket, int], run: int, off_limits: Container[Bucket]) -> Callable[[Bucket], bool]:
    """Return whether the runs of forgotten jobs in a bucket leave off at a run, and the bucket isn't off limits."""
    return lambda bucket: floors.get(bucket, 0) == run and bucket not in off_limits


def _with_ending(name: str, fits: Callable[[Bucket], bool]) -> str:
    """Return a name with the first ending by which it falls into a bucket that fits, if that is found soon."""
    endings = (f"{name}-{number}" for number in range(TRIES_MAX))
    return next((each for each in chain((name,), endings) if fits(bucket_of(job_digest(each)))), name)
