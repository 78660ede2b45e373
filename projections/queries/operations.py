"""The state of a cell, as far as its views can tell: machines and who has them, gateways, what was skipped."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, cast

import msgspec
from sqlalchemy import Connection, case, func, select

from events.topics import BY_NAME, MACHINES, rounds_of
from paceline.client.cell_models import CellOperations, GatewayHosts, MachineOwner
from paceline.client.operation_models import ProcessOperations
from projections.queries.pages import rows_of
from projections.record_json import at
from projections.views import tables
from projections.views.reader import folded
from projections.views.rows import ChainRow, OwnerRow


class MachineStanding(NamedTuple):
    """A machine: its present epoch and who claimed it, its last round, how many records of each topic are in the log
    and in none of its rounds.
    """

    machine: str
    epoch: int
    claimant: str
    claimed_ms: int
    build: str
    logic: int
    state: int
    round: int
    round_ms: int
    behind: Mapping[str, int]


class GatewayStanding(NamedTuple):
    """A gateway, and how many hosts have it: heard and silent."""

    gateway: str
    hosts: int
    silent: int


def machines(connection: Connection) -> list[MachineStanding]:
    """The machines, those that nobody has claimed yet with epoch 0."""
    owners = {row.machine: row for row in rows_of(connection, OwnerRow, select(tables.owners))}
    chains = {row.machine: row for row in rows_of(connection, ChainRow, select(tables.chains))}
    ends, out = folded(connection), []
    for machine in MACHINES:
        owner = owners.get(machine, OwnerRow(machine, 0, "", 0, "", 0, 0))
        chain = chains.get(machine)
        number = chain.round if chain else 0
        inputs: dict[str, int] = msgspec.json.decode(chain.inputs) if chain else {}
        rounds = tables.rounds.c
        last = select(rounds.at_ms).where(rounds.machine == machine, rounds.number == number)
        behind = {topic: ends.get(topic, 0) - inputs[topic] for topic in inputs if topic != rounds_of(machine)}
        out.append(
            MachineStanding(
                machine,
                chain.epoch if chain else 0,
                owner.claimant,
                owner.claimed_ms,
                owner.build,
                owner.logic,
                owner.state,
                number,
                connection.execute(last).scalar() or 0,
                {topic: count for topic, count in behind.items() if count > 0},
            )
        )
    return out


def gateways(connection: Connection) -> list[GatewayStanding]:
    """The gateways that hosts have, by name."""
    hosts = tables.hosts.c
    silent = func.sum(case((hosts.silent_ms > 0, 1), else_=0))
    query = select(hosts.gateway, func.count(), silent).where(hosts.lost_session < hosts.session)
    return [GatewayStanding(*row) for row in connection.execute(query.group_by(hosts.gateway).order_by(hosts.gateway))]


def quarantined(connection: Connection) -> int:
    """The number of records that were skipped."""
    return connection.execute(select(func.count()).select_from(tables.quarantine)).scalar() or 0


def positions(connection: Connection) -> dict[str, int]:
    """The position of each topic in the views."""
    ends = folded(connection)
    return {topic: ends.get(topic, 0) for topic in BY_NAME}


def standing_json(connection: Connection, ask: Callable[[], ProcessOperations | None] | None) -> CellOperations:
    """All of it as JSON; `ask`: what the process knows beside the views."""
    return {
        "machines": [_machine_json(each) for each in machines(connection)],
        "gateways": [cast(GatewayHosts, each._asdict()) for each in gateways(connection)],
        "quarantined": quarantined(connection),
        "positions": positions(connection),
        "process": ask() if ask else None,
    }


def _machine_json(standing: MachineStanding) -> MachineOwner:
    times = {"claimed_at": at(standing.claimed_ms), "round_at": at(standing.round_ms)}
    fields = {name: value for name, value in standing._asdict().items() if not name.endswith("_ms")} | times
    return cast(MachineOwner, fields)
