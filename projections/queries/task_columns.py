"""All tasks of a job at once, as run-lengths of columns: for a grid of them, and for its text."""

from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection

from events.codes import TaskState
from events.columns import I32, I64
from events.instance_ranges import write_ranges
from projections.queries.tasks import TASK_PLACES, columns_of
from projections.views.rows import JobRow

RANGES_SHOWN = 20


class TaskColumns(NamedTuple):
    """Per instance of a job: its state, 0 where there is none; its version, 0 for none yet; and its last run."""

    state: I32
    version: I32
    run: I32

    def run_lengths(self) -> dict[str, list[int]]:
        """Each column as pairs of a value and how many neighbours have it, one after another."""
        return {name: _run_lengths(column) for name, column in self._asdict().items()}

    def ranges(self) -> list[tuple[str, int, str]]:
        """Each state that tasks have, with how many have it and which: the first ranges of instances."""
        starts, values, counts = _runs(self.state)
        out = []
        for state in sorted(set(values.tolist()) - {TaskState.NONE}):
            mine = values == state
            pairs = list(zip(starts[mine].tolist(), counts[mine].tolist(), strict=True))
            text = write_ranges(pairs[:RANGES_SHOWN])
            rest = sum(count for _, count in pairs[RANGES_SHOWN:])
            out.append((TaskState(state).name, int(counts[mine].sum()), f"{text} and {rest} more" * bool(rest) or text))
        return out


def task_columns(connection: Connection, job: JobRow) -> TaskColumns:
    """The columns of a job; they are empty until it is accepted."""
    columns = columns_of(connection, job, np.arange(job.instances if job.base >= 0 else 0))
    return TaskColumns(*(columns[TASK_PLACES[name]] for name in TaskColumns._fields))


def _runs(column: I32) -> tuple[I64, I32, I64]:
    """Where neighbours that are equal begin, what they are, and how many."""
    starts = np.concatenate([[0], np.flatnonzero(np.diff(column)) + 1]) if len(column) else np.zeros(0, dtype=np.int64)
    return starts, column[starts], np.diff(np.append(starts, len(column))).astype(np.int64)


def _run_lengths(column: I32) -> list[int]:
    _, values, counts = _runs(column)
    pairs: list[int] = np.stack([values, counts], axis=1).ravel().tolist()
    return pairs
