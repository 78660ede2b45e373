"""The conditions of a host in words: what was found, what is done for it, and what ends it."""

from collections.abc import Iterable

from events.cell_settings import Settings
from events.host_health import SUSPECTED, Action, action_of, is_broken, release_ms
from events.quantities import write_ms
from paceline.client.host_models import HostCondition, Suspicion
from projections.record_json import at
from projections.views.host_conditions import conditions_of, over_ms
from projections.views.rows import ConditionState, HostRow

_DONE = {
    "DRAINED": "drained, as its policy says",
    "AVOIDED": "takes no new tasks, but those bound to it",
    "HELD": "nothing: no more hosts are avoided at a time",
    "CLEARED": "nothing: an operator cleared it",
    "OFF": "nothing: its policy is off",
}


def conditions_json(row: HostRow, suspected: Suspicion | None, settings: Settings) -> list[HostCondition]:
    """The conditions of a host; `suspected`: why it is avoided where no check is the reason."""
    conditions = [_condition(row, name, state, settings) for name, state in conditions_of(row).items()]
    if suspected is not None:
        conditions.append(_suspected(suspected))
    return conditions


def beyond_caps(rows: Iterable[HostRow], hosts: int, settings: Settings, now_ms: int) -> tuple[int, int]:
    """Counts the hosts that aren't well and take tasks, since no more hosts are avoided, and the checks that are taken
    for broken; `hosts`: how many are heard.
    """
    those = list(rows)
    count = sum(
        any(
            state.bad and _action(row, state, action_of(settings.conditions, settings.drain_after_ms, name)) == "HELD"
            for name, state in conditions_of(row).items()
        )
        for row in those
    )
    onsets = onsets_of(those, settings, now_ms)
    return count, sum(is_broken(sorted(since), hosts) for since in onsets.values())


def onsets_of(rows: Iterable[HostRow], settings: Settings, now_ms: int) -> dict[str, list[int]]:
    """Since when hosts have each condition that isn't over."""
    onsets: dict[str, list[int]] = {}
    for row in rows:
        for name, state in conditions_of(row).items():
            over = over_ms(state, settings.release_after_ms)
            if over is None or over > now_ms:
                onsets.setdefault(name, []).append(state.since_ms)
    return onsets


def _condition(row: HostRow, name: str, state: ConditionState, settings: Settings) -> HostCondition:
    action = action_of(settings.conditions, settings.drain_after_ms, name)
    done = _action(row, state, action)
    drains = state.bad and action.drain_after_ms is not None and done in ("AVOIDED", "HELD")
    return {
        "name": name,
        "code": state.code,
        "evidence": state.text,
        "since": at(state.since_ms),
        "passed_at": at(state.passed_ms),
        "flaps": state.flaps,
        "action": done,
        "done": _DONE[done],
        "drain_at": at(state.since_ms + (action.drain_after_ms or 0)) if drains else None,
        "ends": _ends(row, state, settings),
    }


def _action(row: HostRow, state: ConditionState, action: Action) -> str:
    if not action.avoid:
        return "OFF"
    if state.dismissed:
        return "CLEARED"
    if row.drained_for:
        return "DRAINED"
    return "AVOIDED" if row.avoided_ms else "HELD"


def _ends(row: HostRow, state: ConditionState, settings: Settings) -> str:
    release = release_ms(settings.release_after_ms, state.flaps)
    if state.bad:
        return f"once its check has passed for {write_ms(release)}, or `paceline host clear {row.host_id}`"
    return f"at {at(over_ms(state, settings.release_after_ms) or 0)}, if its check passes until then"


def _suspected(suspected: Suspicion) -> HostCondition:
    return {
        "name": SUSPECTED,
        "code": suspected["code"],
        "evidence": suspected["message"],
        "since": None,
        "passed_at": None,
        "flaps": 0,
        "action": "AVOIDED",
        "done": _DONE["AVOIDED"],
        "drain_at": None,
        "ends": f"at {suspected['until']}" if suspected["until"] else "once it is well",
    }
