"""The time and the rounds that the views have reached."""

from sqlalchemy import Connection, func, select

from events.topics import MACHINES, RANK, rounds_of
from projections.views import tables
from projections.views.series_steps import CELL_PART, SERIES_KEY
from projections.views.series_table import RESOLUTIONS

_chains, _rounds = tables.chains.c, tables.rounds.c
_OLDEST_STEP = select(func.min(tables.series.c.step)).where(SERIES_KEY)


def round_of(connection: Connection, machine: str) -> int:
    """The number of the newest round of a machine; 0: there is none."""
    return int(connection.execute(select(_chains.round).where(_chains.machine == machine)).scalar() or 0)


def newest_ms(connection: Connection) -> int:
    """When the newest of the rounds was written; 0: there is none."""
    last = (_rounds.machine == _chains.machine) & (_rounds.number == _chains.round)
    return int(connection.execute(select(func.max(_rounds.at_ms)).where(last)).scalar() or 0)


def oldest_ms(connection: Connection) -> int:
    """When the oldest of the rounds that are kept was written; 0: there is none."""
    firsts = (
        connection.execute(select(_rounds.at_ms).where(_rounds.machine == machine).order_by(_rounds.number).limit(1))
        for machine in MACHINES
    )
    return min((int(at_ms) for found in firsts for at_ms in found.scalars()), default=0)


def begin_ms(connection: Connection) -> int:
    """A time early in the log at which the cell had decided something; 0: it has decided nothing. It is that of the
    first round while rounds that old are kept; afterwards the end of the hour in which the series begin.
    """
    oldest = oldest_ms(connection)
    hour_s = RESOLUTIONS[-1].step_s
    steps = [_oldest_step(connection, rounds_of(machine)) for machine in MACHINES]
    ends = [(step // hour_s + 1) * hour_s * 1000 for step in steps if step is not None]
    return min([oldest, *ends]) if oldest else 0


def _oldest_step(connection: Connection, topic: str) -> int | None:
    """The second in which the series of a topic begin. Its coarse rows are the oldest; the first hour has none yet."""
    for resolution in (RESOLUTIONS[-1], RESOLUTIONS[0]):
        key = {"topic": RANK[topic], "step_s": resolution.step_s, "part": CELL_PART}
        step: int | None = connection.execute(_OLDEST_STEP, key).scalar()
        if step is not None:
            return step
    return None
