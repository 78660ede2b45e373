"""Folds the conditions of hosts, as placement keeps them."""

import msgspec

from events.codes import Code
from events.host_health import release_ms
from events.records.hosts import HostHealthReported
from events.records.placement import HostTrusted
from projections.views.cache import Cache
from projections.views.pools import settings_in
from projections.views.record_context import RecordContext
from projections.views.rows import ConditionState, HostRow

Conditions = dict[str, ConditionState]

_states = msgspec.json.Decoder(Conditions)


def conditions_of(row: HostRow) -> Conditions:
    """The conditions of a host by name, those that are over included."""
    return _states.decode(row.conditions)


def over_ms(state: ConditionState, release_after_ms: int) -> int | None:
    """When a condition is over; None: it is bad."""
    return None if state.bad else state.passed_ms + release_ms(release_after_ms, state.flaps)


class HostConditions:
    """Keeps up the column of conditions."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def reported(self, moment: RecordContext, event: HostHealthReported) -> None:
        """A check has another result."""
        row = self._cache.hosts.change(event.host_id)
        if row is None:
            return
        states = self._lasting(row, moment.now)
        state = states.get(event.condition)
        if event.bad:
            if state is None:
                state = states[event.condition] = ConditionState(moment.now)
            elif not state.bad:
                state.flaps += 1
            state.bad, state.code, state.text, state.passed_ms = True, event.code, event.text, 0
        elif state is not None and state.bad:
            state.bad, state.passed_ms, state.dismissed = False, max(1, moment.now), False
        row.conditions = _written(states)

    def trusted(self, moment: RecordContext, event: HostTrusted, row: HostRow) -> None:
        """A host takes new tasks: as an operator says, as no more hosts are avoided, or as it is well."""
        states = self._lasting(row, moment.now)
        for state in states.values():
            state.is_held = state.is_held or event.code == Code.TOO_MANY_UNHEALTHY
            state.dismissed = state.dismissed or (event.code == Code.ASKED and state.bad)
        row.conditions = _written(states)

    def dismissed(self, row: HostRow) -> None:
        """An operator has taken a host back that isn't well."""
        states = conditions_of(row)
        for state in states.values():
            state.dismissed = state.bad
        row.conditions = _written(states)

    def _lasting(self, row: HostRow, now: int) -> Conditions:
        """The conditions of a host that aren't over."""
        release_after_ms = settings_in(self._cache).release_after_ms if row.conditions != "{}" else 0
        states = conditions_of(row)
        return {
            name: state
            for name, state in states.items()
            if (at := over_ms(state, release_after_ms)) is None or at > now
        }


def _written(states: Conditions) -> str:
    return msgspec.json.encode(dict(sorted(states.items()))).decode()
