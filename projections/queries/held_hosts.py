"""Why nothing is done for a host that isn't well: by the caps of the cell, in numbers."""

from sqlalchemy import Connection, select

from events.cell_settings import Settings
from events.host_health import AVOIDED_PERCENT, is_broken, most
from paceline.client.host_models import Host
from projections.host_states import HostState
from projections.queries.entities import host_state
from projections.queries.host_conditions import onsets_of
from projections.queries.log_time import newest_ms
from projections.queries.pages import rows_of
from projections.views import tables
from projections.views.rows import HostRow


def tell_held(connection: Connection, body: Host, settings: Settings) -> None:
    """Adds to each condition of a host for which nothing is done how many hosts are avoided, or that its check is taken
    for broken.
    """
    those = [each for each in body["conditions"] if each["action"] == "HELD"]
    if not those:
        return
    rows: list[HostRow] = rows_of(connection, HostRow, select(tables.hosts))
    states = [host_state(row) for row in rows]
    avoided = states.count(HostState.SUSPECTED)
    present = avoided + states.count(HostState.UP)
    onsets = onsets_of(rows, settings, newest_ms(connection))
    for each in those:
        since = sorted(onsets.get(each["name"], ()))
        if is_broken(since, present):
            each["drain_at"] = None
            each["done"] = (
                f"nothing: its check is taken for broken, as it is bad on {len(since)} of {present} hosts: none is "
                "drained for it"
            )
        else:
            each["done"] += f" ({avoided} of {present} are, {most(present, AVOIDED_PERCENT)} may be)"
