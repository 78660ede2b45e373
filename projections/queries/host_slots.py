"""The tasks that are or were last on a host, found by the first columns of blocks of tasks: the rest goes unread."""

from collections.abc import Iterator, Sequence

import numpy as np
from sqlalchemy import Connection

from events.codes import TaskState
from events.columns import I64
from projections.views import tables
from projections.views.blocks import BLOCK
from projections.views.cache import TASK_COLUMNS
from projections.views.reader import rows_as_text
from projections.views.rows import HostRow

_STATE, _HOST = TASK_COLUMNS.index("state"), TASK_COLUMNS.index("host")
_HEAD = max(_STATE, _HOST) + 1
_blocks = tables.task_blocks
_HEADS = f"SELECT block, substr(data, 1, {_HEAD * BLOCK * 4}) FROM {_blocks.name} WHERE block >= ?"


def blocks_of_host(connection: Connection, host: HostRow, first: int = 0, live: bool = False) -> Iterator[int]:
    """The blocks, from the first on, that have a task whose last run is or was on a host; `live`: of those that have
    tasks on hosts.
    """
    wanted = f"{_HEADS} AND live > 0" if live else _HEADS
    for number, head in rows_as_text(connection, f"{wanted} ORDER BY block", (first,)) if host.number else ():
        if (np.frombuffer(head, dtype="<i4", count=BLOCK, offset=_HOST * BLOCK * 4) == host.number).any():
            yield number


def running_on(connection: Connection, numbers: Sequence[int]) -> I64:
    """The slots of the tasks that run on hosts of these numbers, ascending."""
    slots = [np.zeros(0, dtype=np.int64)]
    for number, head in rows_as_text(connection, f"{_HEADS} AND live > 0 ORDER BY block", (0,)) if numbers else ():
        columns = np.frombuffer(head, dtype="<i4").reshape(_HEAD, BLOCK)
        on_hosts = (columns[_STATE] == TaskState.RUNNING) & np.isin(columns[_HOST], numbers)
        slots.append(number * BLOCK + np.flatnonzero(on_hosts))
    return np.concatenate(slots)
