"""How far the views are: in time, and in rounds of a machine."""

from sqlalchemy import Connection, func, select

from events.topics import MACHINES
from projections.views import tables

_chains, _rounds = tables.chains.c, tables.rounds.c


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
