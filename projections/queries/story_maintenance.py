"""The events of maintenance in sentences: drains, stages of hosts, campaigns, windows, and budgets that jobs share."""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from events.codes import IN_EFFECT, Stage, Step
from events.quantities import write_ms
from events.resources import Kinds
from events.words import plural
from projections.queries.story_parts import NAMED, Part, because, host, joined, named
from projections.record_json import at

_Say = Callable[[Any, Kinds], list[Part]]


def _hosts(event: Any, text: str) -> list[Part]:
    return [*named("host", event.host_ids), f" {text}"]


def _drain(event: Any, _: Kinds) -> list[Part]:
    text = "drain requested"
    if 0 < event.most < len(event.host_ids):
        text += f" for {event.most} of {len(event.host_ids)}"
    if event.force:
        text += " by force at once"
    elif event.deadline_ms:
        text += f" with a deadline after {write_ms(event.deadline_ms)}, then {event.escalate}"
    return _hosts(event, f"{text}{because(event)}")


def _resume(event: Any, _: Kinds) -> list[Part]:
    return _hosts(
        event, f"{'end of the cordon requested' if event.cordon_only else 'resumption requested'}{because(event)}"
    )


def _stages(event: Any, _: Kinds) -> list[Part]:
    """The hosts by stage and step, and why."""
    columns = zip(event.host_ids, event.stage_array.tolist(), event.step_array.tolist(), strict=False)
    lines: list[Sequence[Part]] = []
    for (stage, step), rows in groupby(sorted(columns, key=lambda row: row[1:]), key=lambda row: row[1:]):
        text = f" {Stage(stage).name}" + (f", step {Step(step).name}" if step else "")
        lines.append([*named("host", [host_id for host_id, *_ in rows]), text])
    of = " ".join(filter(None, (event.by, event.source)))
    why = f": {event.code}" + (f", {event.message}" if event.message else "") + (f" ({of})" if of else "")
    return [*joined(lines[:NAMED], "; "), why]


def _answered(event: Any, _: Kinds) -> list[Part]:
    answer = f" answered {event.code}" + (f": {event.message}" if event.message else "")
    about = named("host", event.host_ids, " about ") if event.code in IN_EFFECT or event.codes else []
    return ["command", *about, answer]


def _campaign(event: Any, _: Kinds) -> list[Part]:
    of = f" with {plural(len(event.host_ids), 'host')}" if event.host_ids else ""
    counts = {"done": event.done, "failed": event.failed, "skipped": event.skipped}
    numbers = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    text = f"maintenance {event.maintenance_id} {event.state}{of}: {event.code}"
    return [text + (f", {event.message}" if event.message else "") + (f" ({numbers})" if numbers else "")]


def _requested(event: Any, _: Kinds) -> list[Part]:
    return [f"maintenance {event.maintenance_id} requested", *named("host", event.host_ids, " of "), because(event)]


def _window(event: Any, _: Kinds) -> list[Part]:
    missed = f" ({at(event.cause.due_ms)})" if event.state == "MISSED" and event.cause is not None else ""
    word = "opened" if event.state == "OPEN" else "opens"
    opens = f", {word} {at(event.opens_ms)}" if event.opens_ms else ""
    return [f"maintenance window {event.window_id} {event.state}{missed}{opens}"]


def _window_set(event: Any, _: Kinds) -> list[Part]:
    text = f"maintenance window {event.window_id} set: {event.schedule} for {write_ms(event.duration_ms)}"
    return [text, *named("host", event.host_ids, ", of "), because(event)]


def _health(event: Any, _: Kinds) -> list[Part]:
    text = f" check {event.condition} {'is bad' if event.bad else 'is well'}"
    more = "; ".join(filter(None, (event.code, event.text)))
    return [host(event.host_id), text + (f": {more}" if more else "")]


def _load(event: Any) -> str:
    if event.load < 0:
        return ""
    waiting = f" ({event.waiting} % wait)" if event.waiting else ""
    return f", load {event.load} %{waiting} since {at(event.since_ms)}, bound {event.bound} %"


def _kinds(event: Any) -> str:
    return f"first for {', '.join(event.kinds)}" if event.kinds else "for pools that name it"


def _group(event: Any) -> str:
    bounds = {
        "max_unavailable": (event.max_unavailable, event.max_unavailable_percent),
        "min_available": (event.min_available, event.min_available_percent),
    }
    texts = [
        f"{name} {number if number is not None else f'{percent}%'}"
        for name, (number, percent) in bounds.items()
        if number is not None or percent is not None
    ]
    return ", ".join(texts) or "no bound"


SENTENCES: dict[str, _Say] = {
    "HostsDrainRequested": _drain,
    "HostsCordonRequested": lambda event, _: _hosts(event, f"cordon requested{because(event)}"),
    "HostsResumeRequested": _resume,
    "HostMaintenanceChanged": _stages,
    "HostsAnswered": _answered,
    "MaintenanceRequested": _requested,
    "MaintenanceActionRequested": lambda event, _: [
        f"{event.action} of maintenance {event.maintenance_id} requested{because(event)}"
    ],
    "MaintenanceChanged": _campaign,
    "MaintenanceWindowSet": _window_set,
    "MaintenanceWindowRemoved": lambda event, _: [
        f"removal of maintenance window {event.window_id} requested{because(event)}"
    ],
    "MaintenanceWindowChanged": _window,
    "HostHealthReported": _health,
    "HostPoolDefined": lambda event, _: [
        f"host pool {event.name} to be {'removed' if event.removed else 'defined'}{because(event)}"
    ],
    "HostPoolMoveRequested": lambda event, _: [
        f"{plural(event.hosts or len(event.host_ids), 'host')} to be moved from host pool {event.source} to "
        f"{event.target}{because(event)}"
    ],
    "HostPoolMoveStarted": lambda event, _: [
        *named("host", event.host_ids),
        f" drained for host pool {event.target}, from {event.source}: {event.code}{_load(event)}",
    ],
    "HostPoolAssigned": lambda event, _: [
        *named("host", event.host_ids),
        f" to be in host pool {event.host_pool}{because(event)}",
    ],
    "HostPoolChanged": lambda event, _: [
        f"host pool {event.name} {'removed' if event.removed else f'set: {_kinds(event)}'}"
    ],
    "HostsPooled": lambda event, _: [*named("host", event.host_ids), f" in host pool {event.host_pool}: {event.code}"],
    "SlaGroupDefined": lambda event, _: [
        f"SLA group {event.group}{' to be removed' if event.remove else f' defined: {_group(event)}'}{because(event)}"
    ],
    "SlaGroupSet": lambda event, _: [
        f"SLA group {event.group} {'removed' if event.removed else f'set: {_group(event)}'}"
    ],
    "SurplusSet": lambda event, _: [
        *joined(
            (
                [*named("job", [event.job_ids[job]]), f": {plural(surplus, 'instance')} more than wanted"]
                for job, surplus in zip(event.job_array.tolist(), event.surplus_array.tolist(), strict=False)
            ),
            "; ",
        )
    ],
}
"""By the name of the record."""
