"""Folds the topic of hosts and what placement decides of hosts."""

import msgspec

from events.records.base import Event
from events.records.hosts import HostBack, HostConnected, HostOffered, HostSilent
from events.records.placement import HostAnswered, HostLost
from projections.cache import Cache
from projections.moment import Moment
from projections.rows import HostRow, to_json


class HostFold:
    """See above. What is said of an earlier session than the present one is void."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def fact(self, moment: Moment, event: Event) -> None:
        """Folds a fact of the topic of hosts."""
        if not isinstance(event, HostConnected | HostOffered | HostSilent | HostBack):
            return
        row = self._row(event.host_id)
        if event.session < row.session:
            return
        match event:
            case HostConnected():
                row.session, row.gateway, row.connected_ms = event.session, event.gateway, moment.at_ms
                row.silent_ms, row.offered = 0, 0
            case HostOffered():
                row.offered = 1
                row.capacity, row.attributes = to_json(msgspec.to_builtins(event.capacity)), to_json(event.attributes)
                row.port_first, row.port_last = event.port_first, event.port_last
            case HostSilent():
                row.silent_ms = moment.at_ms
            case HostBack():
                row.silent_ms = 0

    def decision(self, moment: Moment, event: Event) -> None:
        """Folds a decision of placement."""
        match event:
            case HostLost():
                row = self._row(event.host_id)
                row.lost_session, row.lost_code, row.lost_ms = event.session, event.code, moment.now
            case HostAnswered():
                self._cache.answers.add(
                    "paceline.hosts",
                    event.hosts_offset,
                    event.host_id,
                    event.command_id,
                    event.code,
                    event.message,
                    moment.machine,
                    moment.round,
                )

    def _row(self, host_id: str) -> HostRow:
        return self._cache.hosts.change(host_id) or self._cache.hosts.put(HostRow(host_id))
