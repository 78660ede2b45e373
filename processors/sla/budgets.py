"""The budgets of jobs and of groups of jobs: what they allow, what is used of them, and what is left."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from events import sla
from processors.sla import windows
from processors.sla.availability import Availability
from processors.sla.rows import GroupRow, JobRow
from processors.state.seconds import milliseconds, second
from processors.state.table import Table

HOUR_MS = 3_600_000


@dataclass(slots=True)
class Budget:
    """The budget of a job or a group. `slack`: so many healthy instances more may go; below 0 more are missing than
    may be.
    """

    limit: int
    missing: int
    extra: int

    @property
    def slack(self) -> int:
        """The rest of it."""
        return self.limit - self.missing + self.extra


class Budgets:
    """Looks at rows and counts, and keeps which jobs share the budget of a group."""

    def __init__(self, jobs: Table[str, JobRow], groups: Table[str, GroupRow], available: Availability) -> None:
        self._jobs = jobs
        self._groups = groups
        self._available = available
        self._members: dict[str, dict[str, None]] = {}
        """The jobs that name a group, whether it was defined or not."""

    def restored(self) -> None:
        """Rebuilds what follows from the rows."""
        self._members.clear()
        for job_id in self._jobs:
            self.join(job_id)

    def join(self, job_id: str) -> None:
        """A job has its policy."""
        group = self._jobs[job_id].rules.group
        if group:
            self._members.setdefault(group, {})[job_id] = None

    def leave(self, job_id: str) -> None:
        """It has it no more."""
        group = self._jobs[job_id].rules.group
        if group:
            members = self._members[group]
            del members[job_id]
            if not members:
                del self._members[group]

    def members(self, group: str) -> Mapping[str, None]:
        """The jobs that name a group."""
        return self._members.get(group, {})

    def group_of(self, job_id: str) -> str:
        """The group whose budget binds a job; empty: none does."""
        group = self._jobs[job_id].rules.group
        return group if group in self._groups else ""

    def limit(self, job_id: str) -> int:
        """The number of instances of a job that may be unavailable on purpose."""
        row = self._jobs[job_id]
        return sla.limit(row.max_unavailable, row.policy, self._available.counts[job_id].expected)

    def of_job(self, job_id: str) -> Budget:
        """The budget of a job."""
        counts = self._available.counts[job_id]
        return Budget(self.limit(job_id), counts.missing, counts.extra)

    def of_group(self, group: str) -> Budget:
        """The budget of a group: all instances of its jobs count."""
        counts = [self._available.counts[job_id] for job_id in self.members(group)]
        limit = self._groups[group].bounds.limit(sum(each.expected for each in counts))
        return Budget(limit, sum(each.missing for each in counts), sum(each.extra for each in counts))

    def rate(self, job_id: str) -> int | None:
        """The number of instances of a job that may be disrupted in an hour for others; None: any."""
        return sla.hourly(self._jobs[job_id].policy, self._available.counts[job_id].expected)

    def used(self, job_id: str) -> int:
        """The number of those that were allowed within the last hour."""
        return sum(count for _, count in self._jobs[job_id].hour)

    def is_closed(self, job_id: str) -> bool:
        """Whether others may not disrupt a job now, whatever there is of its budget."""
        return windows.is_closed(self._jobs[job_id])

    def look_at_windows(self, job_id: str, now: int) -> None:
        """The time has passed."""
        if self._jobs[job_id].rules.windows:
            windows.look(self._jobs.change(job_id), now)

    def replaces_first(self, job_id: str) -> bool:
        """Whether the next instance of a job is up before the one before it stops."""
        return sla.replaces_first(self._jobs[job_id].policy)

    def hour_over_ms(self, job_id: str) -> int | None:
        """When the oldest of what was allowed within the hour counts no more; None: nothing was."""
        hour = self._jobs[job_id].hour
        return milliseconds(hour[0][0]) + HOUR_MS if hour else None

    def note_hour(self, job_id: str, count: int, now: int) -> int:
        """So many were allowed to go for others now; returns the second at which they count."""
        row, at = self._jobs.change(job_id), second(now)
        self.forget_hour(job_id, now)
        if row.hour and row.hour[-1][0] == at:
            row.hour[-1] = (at, row.hour[-1][1] + count)
        else:
            row.hour.append((at, count))
        return at

    def take_back(self, job_id: str, at: int) -> None:
        """One that was allowed at a second doesn't go."""
        row = self._jobs.change(job_id)
        row.hour = [each for each in _less_one(row.hour, at) if each[1]]

    def forget_hour(self, job_id: str, now: int) -> None:
        """Drops all that was allowed more than an hour ago."""
        hour = self._jobs[job_id].hour
        recent = [(at, count) for at, count in hour if milliseconds(at) + HOUR_MS > now]
        if len(recent) < len(hour):
            self._jobs.change(job_id).hour = recent


def _less_one(hour: list[tuple[int, int]], at: int) -> Iterator[tuple[int, int]]:
    for second_, count in hour:
        yield second_, count - (second_ == at)
