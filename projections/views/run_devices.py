"""The devices of runs, from their order to their end, and as those of the last run of a task after it."""

from sqlalchemy import Connection, select

from events.device_columns import devices_of
from events.records.lifecycle import RunsOrdered
from projections.views import tables
from projections.views.cache import Cache
from projections.views.named_tasks import NamedTasks
from projections.views.rows import to_json
from projections.views.run_rows import RunDevicesRow


class RunDevices:
    """The fold of the devices of runs. In a cell whose tasks have none it does nothing."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._any = False
        """Whether some task has had devices."""

    def restore(self, connection: Connection) -> None:
        """Finds out whether some task has had devices."""
        self._any = connection.execute(select(tables.run_devices.c.run).limit(1)).first() is not None

    def ordered(self, selection: NamedTasks, event: RunsOrdered) -> None:
        """Notes what runs have that begin."""
        if not event.device:
            return
        self._any = True
        items = dict(devices_of(event))
        columns = (selection.at.tolist(), selection.job.tolist(), selection.instance.tolist())
        for at, job, instance in zip(*columns, strict=True):
            if at in items:
                host_id, run = event.host_ids[event.host_array[at]], int(event.run_array[at])
                row = RunDevicesRow(selection.jobs[job].job_id, instance, run, host_id, 1, to_json(items[at]))
                self._cache.run_devices.put(row)

    def ended(self, selection: NamedTasks) -> None:
        """Runs are over."""
        if not self._any:
            return
        keys = [
            (selection.jobs[job].job_id, instance)
            for job, instance in zip(selection.job.tolist(), selection.instance.tolist(), strict=True)
        ]
        self._cache.run_devices.load(keys)
        for key in keys:
            row = self._cache.run_devices.get(key)
            if row is not None and row.live and (changed := self._cache.run_devices.change(key)) is not None:
                changed.live = 0
