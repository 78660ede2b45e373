"""Updates that begin once the hosts of the instances that they change have pulled the new image.

All of these hosts are told at once, in the round that starts the update. It takes its first instance when each has
answered, has failed or is lost, or `PULL_MS` later: a host without the image pulls it when its run comes, as ever.
"""

from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from events.codes import LIVE_TASKS
from events.columns import distinct
from events.records.lifecycle import ImagePrefetchOrdered, UpdateImagePulled
from events.records.parts import Cause
from events.records.placement import HostLost, HostRemoved
from events.records.tasks import ImagePrefetched
from processors.lifecycle.causes import Goal
from processors.lifecycle.jobs import Jobs
from processors.lifecycle.lookups import among
from processors.lifecycle.rows import UpdateAskRow
from processors.lifecycle.tasks import Tasks
from processors.lifecycle.updates.differences import Differences
from processors.lifecycle.updates.rows import ImageWaitRow, UpdateRow, VersionRow
from processors.state.handlers import Row
from processors.state.table import Table, struct_table


class ImageWaits:
    """The hosts from which updates wait to hear, by id: of each the jobs, and the image that it is to pull for them.
    `host_id` gives the id of a host by its number; `touch` is called when there is news for the update of a job.
    """

    def __init__(
        self,
        tasks: Tasks,
        jobs: Jobs,
        updates: Table[str, UpdateRow],
        differences: Differences,
        host_id: Callable[[int], str],
        touch: Callable[[str], None],
    ) -> None:
        self.table: Table[str, dict[str, str]] = struct_table("image_waits", dict[str, str])
        self._tasks = tasks
        self._jobs = jobs
        self._updates = updates
        self._differences = differences
        self._host_id = host_id
        self._touch = touch
        self.rows: tuple[Row, ...] = (
            (ImagePrefetchOrdered, self._ordered),
            (ImagePrefetched, self._answered),
        )

    def orders(self, ask: UpdateAskRow, version: VersionRow, cause: Cause) -> tuple[ImagePrefetchOrdered, ...]:
        """The order that is decided with the start of an update whose policy says so; none where the job has no image,
        or no instance that changes is on a host.
        """
        apart = ask.spec.isolation if ask.spec is not None else None
        if apart is None or not apart.image or not version.policy.prefetch:
            return ()
        host_ids = tuple(self._hosts(ask.job_id, version))
        order = ImagePrefetchOrdered(
            job_id=ask.job_id, image=apart.image, image_digest=apart.image_digest, host_ids=host_ids, cause=cause
        )
        return (order,) if host_ids else ()

    def _hosts(self, job_id: str, version: VersionRow) -> Iterator[str]:
        """The hosts of the instances that change and stay, by number: where they are, or where alone they may run."""
        row, arena = self._jobs.table[job_id], self._tasks.arena
        changed = np.flatnonzero(self._differences.changed(job_id, version)[: version.instances]) + row.base
        changed = changed[arena["goal"][changed] == Goal.RUN]
        live = among(arena["state"][changed], LIVE_TASKS)
        numbers = distinct(np.where(live, arena["host"][changed], arena["pin"][changed]).astype(np.int64))
        numbers = numbers[numbers > 0]
        return map(self._host_id, numbers[~self._tasks.is_lost(numbers)].tolist())

    def decided(self, job_id: str, update: UpdateRow, now: int) -> UpdateImagePulled | None:
        """The news of the hosts that an update waits for; None: there are none."""
        wait = update.image
        late = wait is not None and wait.due_ms <= now
        if wait is None or not (wait.untold or late):
            return None
        return UpdateImagePulled(
            job_id=job_id,
            number=update.number,
            hosts=wait.hosts,
            have=wait.have,
            faults=wait.faults,
            fault=wait.fault,
            waits=wait.remaining > 0 and not late,
            cause=Cause(due_ms=wait.due_ms) if late and wait.remaining else update.changed_by.record,
        )

    def told(self, update: UpdateRow, event: UpdateImagePulled) -> None:
        """That was decided, of an update whose row may change."""
        if event.waits and update.image is not None:
            update.image = msgspec.structs.replace(update.image, untold=False)
        else:
            self.over(event.job_id, update)
            update.image = None

    def over(self, job_id: str, update: UpdateRow) -> None:
        """An update waits for no host any more."""
        if update.image is not None and update.image.remaining:
            for host_id in [host_id for host_id, digests in self.table.items() if job_id in digests]:
                self._take(host_id, job_id)

    def left(self, event: HostLost | HostRemoved, now: int) -> None:
        """A host is lost or forgotten: no update waits for it."""
        for job_id in self.table.get(event.host_id) or ():
            wait = self._waiting(job_id)
            self._note(job_id, msgspec.structs.replace(wait, hosts=wait.hosts - 1))
        if event.host_id in self.table:
            self.table.remove(event.host_id)

    def _ordered(self, event: ImagePrefetchOrdered, now: int) -> None:
        """Hosts are told: those that are named, for the update that has just started."""
        if event.host_ids:
            wait = ImageWaitRow(now, len(event.host_ids))
            self._updates.change(event.job_id).image = wait
        for host_id in event.host_ids:
            digests = self.table.get(host_id) or {}
            self.table.put(host_id, digests | {event.job_id: event.image_digest})

    def _answered(self, event: ImagePrefetched, now: int) -> None:
        """A host says what has come of it; who was asked for another image, or by nobody, is no news."""
        digests = self.table.get(event.host_id) or {}
        if digests.get(event.job_id) != event.image_digest:
            return
        self._take(event.host_id, event.job_id)
        wait = self._waiting(event.job_id)
        if event.fault:
            wait = msgspec.structs.replace(wait, faults=wait.faults + 1, fault=event.fault)
        else:
            wait = msgspec.structs.replace(wait, have=wait.have + 1)
        self._note(event.job_id, wait)

    def _waiting(self, job_id: str) -> ImageWaitRow:
        wait = self._updates[job_id].image
        assert wait is not None, job_id
        return wait

    def _note(self, job_id: str, wait: ImageWaitRow) -> None:
        self._updates.change(job_id).image = msgspec.structs.replace(wait, untold=True)
        self._touch(job_id)

    def _take(self, host_id: str, job_id: str) -> None:
        digests = {other: digest for other, digest in self.table[host_id].items() if other != job_id}
        if digests:
            self.table.put(host_id, digests)
        else:
            self.table.remove(host_id)
