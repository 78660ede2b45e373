"""The list of hosts: a filter, and a page in their natural order."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, and_, case, exists, func, or_, select, tuple_

from events.codes import Stage
from events.natural_order import natural_key
from events.resources import Kinds
from paceline.client.host_models import Host
from projections.host_states import STAGES, HostState, conditions
from projections.queries.entities import host_json
from projections.queries.host_maintenance import maintenance_json, stages_of
from projections.queries.pages import RowsPage, some
from projections.queries.resources import settings_of
from projections.views import tables
from projections.views.rows import HostRow

_HOSTS = tables.hosts.c
_STATE: ColumnElement[str] = case(
    *(
        (holds, state.value)
        for state, holds in conditions(
            lost=and_(_HOSTS.lost_code != "", _HOSTS.lost_session >= _HOSTS.session),
            silent=_HOSTS.silent_ms,
            offered=_HOSTS.offered,
            avoided=_HOSTS.avoided_ms,
            session=_HOSTS.session,
            reconciled=_HOSTS.reconciled_session,
        ).items()
    ),
    else_=HostState.CONNECTING.value,
)


_STAGES = tables.host_stages.c


def _of_states(names: Sequence[str]) -> ColumnElement[bool]:
    """Whether the state or the stage of a host is one of these; UP is one that takes tasks, so its stage is UP too."""
    stages = [Stage[name] for name in names if name in STAGES]
    not_up = exists(select(1).where(_STAGES.host_id == _HOSTS.host_id, _STAGES.stage != Stage.UP))
    of_stage = exists(select(1).where(_STAGES.host_id == _HOSTS.host_id, _STAGES.stage.in_(stages)))
    states = [name for name in names if name != HostState.UP]
    in_state = case((not_up, _STATE.in_(states)), else_=_STATE.in_(names))
    return or_(in_state, of_stage)


class HostFilter(NamedTuple):
    """A filter of hosts; an empty field lets all through."""

    states: Sequence[str] = ()
    attributes: Sequence[tuple[str, str]] = ()
    """All must hold."""
    text: str = ""
    """Part of the id, in whatever case."""

    def narrow(self, query: Select[Any]) -> Select[Any]:
        """The query of those hosts alone."""
        if self.states:
            query = query.where(_of_states(self.states))
        if self.text:
            query = query.where(func.instr(func.lower(_HOSTS.host_id), self.text.lower()) > 0)
        for key, value in self.attributes:
            pairs = func.json_each(_HOSTS.attributes).table_valued("key", "value", name="pairs")
            query = query.where(exists(select(1).select_from(pairs).where(pairs.c.key == key, pairs.c.value == value)))
        return query


def host_rows(connection: Connection, host_filter: HostFilter, size: int, after: str) -> RowsPage[HostRow]:
    """Hosts in their natural order, those behind one."""
    query = host_filter.narrow(select(tables.hosts)).order_by(_HOSTS.place, _HOSTS.host_id)
    if after:
        query = query.where(tuple_(_HOSTS.place, _HOSTS.host_id) > tuple_(natural_key(after), after))
    return some(connection, HostRow, query, size, lambda row: len(row.attributes))


def hosts_json(connection: Connection, rows: Sequence[HostRow], kinds: Kinds) -> list[Host]:
    """Hosts as lists have them, each with its stage."""
    stages, settings = stages_of(connection, [row.host_id for row in rows]), settings_of(connection)

    def one(row: HostRow) -> Host:
        stage = stages.get(row.host_id)
        return host_json(row, kinds, maintenance_json(stage, row.runs) if stage is not None else None, settings)

    return [one(row) for row in rows]


def order_of(row: HostRow) -> tuple[str, str]:
    """The key by which lists of several cells are merged."""
    return row.place, row.host_id
