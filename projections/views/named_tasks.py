"""The tasks that a record names, and how jobs count their tasks."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from events.codes import TaskState
from events.columns import I64
from projections.views.rows import JobRow

STATES = 9
COUNTS = {
    TaskState.QUEUED: "queued",
    TaskState.ORDERED: "ordered",
    TaskState.RUNNING: "running",
    TaskState.STOPPING: "stopping_tasks",
    TaskState.BACKOFF: "backoff",
    TaskState.SUCCEEDED: "succeeded",
    TaskState.FAILED: "failed",
    TaskState.KILLED: "killed",
}
"""The column of a job's row that counts its tasks of a state."""


class NamedTasks(NamedTuple):
    """Tasks that a record names: their jobs, and per task the index of its job, its instance, its place in the
    columns, and where it stands in the record.
    """

    jobs: list[JobRow]
    job: I64
    instance: I64
    places: I64
    at: I64

    def some(self, mask: NDArray[np.bool_]) -> "NamedTasks":
        """Those of them that a mask says."""
        return self._replace(
            job=self.job[mask], instance=self.instance[mask], places=self.places[mask], at=self.at[mask]
        )
