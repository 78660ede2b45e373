"""Volumes that a user may remove: all but those of instances that are at home where the volume is."""

from events.bounds import NAME, VOLUME
from events.codes import LIVE_TASKS, Code
from events.records.lifecycle import VolumeRemovalOrdered
from processors.lifecycle.host_reports import Hosts
from processors.lifecycle.jobs import Jobs
from processors.lifecycle.rows import VolumeRow
from processors.lifecycle.tasks import Tasks
from processors.lifecycle.updates.commands import Answer
from processors.state.causes import job_fact


class Volumes:
    """Answers to those who would remove volumes. Lifecycle doesn't know which there are: agents do."""

    def __init__(self, tasks: Tasks, jobs: Jobs, hosts: Hosts) -> None:
        self._tasks = tasks
        self._jobs = jobs
        self._hosts = hosts

    def remove(self, offset: int, volume: VolumeRow) -> Answer:
        """A volume is to go, with all that is in it."""
        if not (NAME.fullmatch(volume.job_id) and VOLUME.fullmatch(volume.name)) or volume.instance < 0:
            return Answer(Code.NOT_FOUND, "no volume can have that name")
        if self._needed(volume):
            return Answer(
                Code.VOLUME_IN_USE,
                f"task {volume.job_id}/{volume.instance} stays on {volume.host_id} with its volumes; delete the job, "
                "or remove the instance from it by an update, and remove the volume then",
            )
        ordered = VolumeRemovalOrdered(
            host_id=volume.host_id,
            job_id=volume.job_id,
            instance=volume.instance,
            name=volume.name,
            created_ms=volume.created_ms,
            cause=job_fact(offset),
        )
        return Answer(Code.DONE, f"host {volume.host_id} removes it, as soon as it is connected", (ordered,))

    def _needed(self, volume: VolumeRow) -> bool:
        """Whether an instance runs on the host of its volume, or its next run must go there."""
        row, host = self._jobs.table.get(volume.job_id), self._hosts.table.get(volume.host_id)
        if row is None or host is None or not 0 <= volume.instance < row.instances:
            return False
        arena, slot = self._tasks.arena, row.base + volume.instance
        runs = int(arena["state"][slot]) in LIVE_TASKS and int(arena["host"][slot]) == host.number
        return runs or int(arena["pin"][slot]) == host.number
