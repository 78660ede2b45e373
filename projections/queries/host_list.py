"""The list of hosts: a filter, and a page in their natural order."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, and_, case, exists, func, select, tuple_

from events.natural_order import natural_key
from projections.host_states import HostState, conditions
from projections.queries.pages import RowsPage, some
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
            query = query.where(_STATE.in_(self.states))
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


def order_of(row: HostRow) -> tuple[str, str]:
    """The key by which lists of several cells are merged."""
    return row.place, row.host_id
