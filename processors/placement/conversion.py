"""Rows of placement of 0.3 as it keeps them now (docs/decisions/032)."""

from collections.abc import Iterator, Mapping

import msgspec

from events.codes import Code
from processors.placement.ports import TaskPorts
from processors.placement.rows import DaemonRow, HostRow, JobRow
from processors.state.conversion import Rows, with_defaults
from processors.state.record_rows import ConstraintRow
from processors.state.shapes import shape_of_0_3
from processors.state.table import RowChange

_PLACES = 5
"""So many fields rows of plans and reservations both begin with: how many tasks at which run are to be where."""
_defaults = with_defaults({"hosts": HostRow, "jobs": JobRow})


def from_0_3(rows: Rows) -> Iterator[RowChange]:
    """Rows of the format 12 of those of 11: plans and reservations are rows of one table, `room`. A reservation that is
    over, or whose unit has a plan, is one whose end is to be said. Hosts have taints, and daemons tolerate some. Ports
    were a list a task.
    """
    plans, reservations, ports = dict[bytes, bytes](), dict[bytes, bytes](), dict[bytes, bytes]()
    gathered, bases = {"plans": plans, "reservations": reservations, "ports": ports}, dict[str, int]()
    for row in _defaults(rows):
        if row.row is not None and row.table == "jobs":
            bases[msgspec.msgpack.decode(row.key)] = msgspec.msgpack.decode(row.row, type=JobRow).base
        if row.row is not None and row.table == "daemons":
            daemon = DaemonRow(msgspec.msgpack.decode(row.row, type=tuple[ConstraintRow, ...]))
            yield row._replace(row=msgspec.msgpack.encode(daemon))
        elif row.row is not None and row.table == "shapes":
            yield row._replace(row=shape_of_0_3(row.row))
        elif row.row is None or row.table not in gathered:
            yield row
        else:
            gathered[row.table][row.key] = row.row
    yield from _port_rows(ports, bases)
    for key, plan in plans.items():
        fields = msgspec.msgpack.decode(plan)
        by, until_ms, order, victims = fields[_PLACES:]
        yield _row("room", key, fields, Code.WAITING_FOR_PREEMPTION, until_ms, by, order, victims, {}, "")
    for key, reservation in reservations.items():
        fields = msgspec.msgpack.decode(reservation)
        until_ms, reported, over = fields[_PLACES:]
        over = over or (Code.WITHDRAWN if key in plans else "")
        table = "room_over" if over else "room"
        yield _row(table, key, fields, Code.HOSTS_RESERVED, until_ms, None, 0, {}, reported, over)


def _port_rows(old: Mapping[bytes, bytes], bases: Mapping[str, int]) -> Iterator[RowChange]:
    """`old`: the numbers of a task, by its job and instance; `bases`: the first slots of jobs."""
    ports = TaskPorts()
    for key, numbers in old.items():
        job_id, instance = msgspec.msgpack.decode(key)
        ports.put(bases[job_id] + instance, msgspec.msgpack.decode(numbers))
    for table in ports.tables:
        yield from table.take_changes()[0]


def _row(table: str, key: bytes, fields: list[object], *more: object) -> RowChange:
    return RowChange(table, key, msgspec.msgpack.encode([*fields[:_PLACES], *more]))
