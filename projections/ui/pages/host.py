"""One host: how it stands, what runs and ran there; and an operator's word about it."""

import json
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from starlette.responses import Response

from events.abilities import USAGE, enforced
from events.records.hosts import (
    HostClearRequested,
    HostDeviceRequested,
    HostLossConfirmed,
    HostRemovalRequested,
    HostsCordonRequested,
    HostsDrainRequested,
    HostsResumeRequested,
)
from paceline.client.host_models import Host, Volume
from projections.api import hosts as api
from projections.api.all_cells import OpenCell
from projections.api.commands import Command
from projections.api.context import Context
from projections.api.problems import Problem, not_found
from projections.asked_values import whole_number
from projections.queries import tasks as task_queries
from projections.queries.entities import host_row, volume_json, volume_rows
from projections.queries.host_maintenance import whole_host
from projections.queries.host_runs import host_runs
from projections.queries.resources import kinds_of
from projections.ui.colours import OUTCOMES
from projections.ui.format import lasts, ms_of, titled
from projections.ui.history_lines import history_lines
from projections.ui.host_words import DEVICE_SHAPES, SHAPES, commands_for, since, why
from projections.ui.page_values import PageValues
from projections.ui.pages.hosts import uses
from projections.ui.preemption_matrix import HOUR_MS, hours_of
from projections.ui.run_lanes import drawn
from projections.ui.scene import Action, Page, Scene, Sent, Shown
from projections.views.other_histories import of_host
from projections.views.rows import HostRow

TASKS = 50
VOLUMES = 50
ENDED = 20
HOURS = {1: "1 h", 24: "24 h", 168: "7 d"}
WAIT_S = 10.0
REASON_MAX = 1000


class WordAbout(NamedTuple):
    """A command of an operator about a host: the verb, the effect, and the fact."""

    verb: str
    title: str
    effect: str
    fact: Callable[..., api.Word]
    command: str = ""
    """The words of `paceline host`, where they aren't the verb."""
    device_states: tuple[str, ...] = ()
    """The states of a device that it is about; empty: it is about the host."""


def _of_one(kind: Callable[..., Any], host_id: str, **more: Any) -> Any:
    """A fact about several hosts, of one."""
    return kind(host_ids=(host_id,), **more)


WORDS = {
    "confirm-loss": WordAbout(
        "confirm-loss",
        "Confirm the loss",
        "Its tasks run elsewhere at once. If the host is still alive, they run twice until its agent connects again.",
        HostLossConfirmed,
    ),
    "remove": WordAbout(
        "remove",
        "Remove",
        "The cell forgets it and its volumes. It must have no runs; if it connects again, it is a new host.",
        HostRemovalRequested,
    ),
    "clear": WordAbout(
        "clear",
        "Clear",
        "It takes new tasks again, as if nothing had been suspected.",
        HostClearRequested,
    ),
    "drain": WordAbout(
        "drain",
        "Drain",
        "Nothing new is placed there. What runs there leaves as the SLAs of jobs allow, without an SLA at once; batch "
        "tasks run to their end.",
        partial(_of_one, HostsDrainRequested),
    ),
    "cordon": WordAbout(
        "cordon",
        "Cordon",
        "New tasks are kept away, except those that are bound to it. What runs there goes on.",
        partial(_of_one, HostsCordonRequested),
    ),
    "uncordon": WordAbout(
        "uncordon",
        "Uncordon",
        "It takes new tasks again.",
        partial(_of_one, partial(HostsResumeRequested, cordon_only=True)),
    ),
    "resume": WordAbout(
        "resume",
        "Take back",
        "Its drain and its cordon end. A campaign that works on it has its work done there.",
        partial(_of_one, HostsResumeRequested),
    ),
    "disable-device": WordAbout(
        "disable-device",
        "Disable the device",
        "It takes no new tasks. Its runs go on, unless they are to leave.",
        partial(HostDeviceRequested, disabled=True),
        "device disable",
        ("OK", "UNHEALTHY"),
    ),
    "enable-device": WordAbout(
        "enable-device",
        "Enable the device",
        "It takes new tasks again.",
        partial(HostDeviceRequested, disabled=False),
        "device enable",
        ("DISABLED", "EMPTYING"),
    ),
}
"""By the last part of the address of its form."""


def load(scene: Scene) -> PageValues:
    """The host that the path names."""
    of, row = _found(scene)
    connection, kinds = of.connection, kinds_of(of.connection)
    body = whole_host(connection, row)
    hours = hours_of(scene.query.get("hours", ""))
    begin = whole_number(scene.query.get("first", ""), 15) or 0
    there = task_queries.host_tasks(connection, row, TASKS, begin)
    begin_ms = scene.now_ms - hours * HOUR_MS
    runs = host_runs(connection, row, begin_ms // 1000)
    volumes = volume_rows(connection, VOLUMES, None, row.host_id, "")
    return {
        "body": body,
        "limits": enforced(body["attributes"]),
        "row": row,
        "host_id": row.host_id,
        "of_cell": of.context.cell,
        "shape": SHAPES[body["state"]],
        "maintenance": _maintenance(body),
        "lasting": since(row, body["state"], scene.now_ms),
        "why": why(body),
        "uses": [(name, titled(name, kinds.units[name]), use) for name, use in uses(row, kinds).items()],
        "words": [WORDS[name] for name in commands_for(body)],
        "device_words": {state: word for word in WORDS.values() for state in word.device_states},
        "device_shapes": DEVICE_SHAPES,
        "tasks": [{**task, "ago": lasts(scene.now_ms - ms_of(task["since"]))} for task in there.items],
        "next": there.next,
        "gantt": drawn(runs, begin_ms, scene.now_ms) if runs else None,
        "runs": len(runs),
        "ended": sorted((run for run in runs if run.outcome), key=lambda run: -run.ended_s)[:ENDED],
        "outcomes": OUTCOMES,
        "hours": hours,
        "has_usage": of.context.host_usage is not None and USAGE in body["attributes"],
        "choices": HOURS,
        "volumes": [_aged(volume_json(each), scene.now_ms) for each in volumes.rows],
        "more_volumes": volumes.more,
        "asked": scene.parameters(),
        **history_lines(scene, connection, of_host(row.host_id)),
    }


def _maintenance(body: Host) -> PageValues | None:
    """The maintenance of a host, its times as milliseconds."""
    maintenance = body["maintenance"]
    if maintenance is None:
        return None
    times = {name: ms_of(maintenance[name]) for name in ("since", "begun_at", "preempt_at", "force_at")}
    return {**maintenance, "times": times}


def _aged(volume: Volume, now_ms: int) -> PageValues:
    return {**volume, "ago": lasts(now_ms - ms_of(volume["created_at"]))}


def _found(scene: Scene) -> tuple[OpenCell, HostRow]:
    """The host in the cell where it is; one that was lost here may have come back elsewhere. Raises a problem."""
    name, hosts_there = scene.path["host_id"], []
    for each in scene.cells.values():
        row = host_row(each.connection, name)
        if row is not None:
            hosts_there.append((each, row))
    if not hosts_there:
        raise not_found("host", name)
    return next((pair for pair in hosts_there if not pair[1].lost_code), hosts_there[0])


def ask(scene: Scene) -> PageValues:
    """Loads the meaning of a command about a host, before it is given."""
    of, row = _found(scene)
    word = _word(scene.path["word"])
    body, device = whole_host(of.connection, row), scene.query.get("device", "")
    device_state = next((each["state"] for each in body.get("devices", ()) if each["id"] == device), "")
    if word.device_states and not device_state:
        raise not_found("device", device)
    return {
        "word": word,
        "device": device if word.device_states else "",
        "device_state": device_state,
        "host_id": row.host_id,
        "of_cell": of.context.cell,
        "state_now": body["state"],
        "shape": SHAPES[body["state"]],
        "fits": device_state in word.device_states if word.device_states else word.verb in commands_for(body),
        "runs": row.runs,
        "command_id": uuid.uuid4().hex,
        "answer": None,
    }


def _word(name: str) -> WordAbout:
    if name not in WORDS:
        raise not_found("word about hosts", name)
    return WORDS[name]


async def say(form: Sent) -> Shown | str:
    """Gives the word, and shows what was answered."""
    word, host_id = _word(form.path["word"]), form.path["host_id"]
    reason = form.field("reason").strip()
    if not reason or len(reason) > REASON_MAX:
        raise Problem(422, "INVALID_REQUEST", f"a reason is needed, of {REASON_MAX} characters at most")
    command = Command(command_id=form.field("command_id")[:128] or None, reason=reason)
    context, device = _context(form), form.field("device") if word.device_states else ""
    fact = partial(word.fact, device=device, ends=form.field("ends") == "yes") if word.device_states else word.fact
    try:
        outcome = _told(await api.tell(context, host_id, fact, command, WAIT_S))
        status = 200
    except Problem as problem:
        outcome, status = {"code": problem.code, "message": problem.detail, "fine": False}, problem.status
    values = {
        "word": word,
        "device": device,
        "host_id": host_id,
        "of_cell": context.cell,
        "given": reason,
        "answer": outcome,
    }
    return Shown("host_word.html", values, status)


def _context(form: Sent) -> Context:
    """The cell that the form was made for."""
    number = whole_number(form.field("of_cell"), 9)
    context = None if number is None else form.contexts.get(number)
    if context is None:
        raise Problem(422, "CELL_NEEDED", "the form says no cell that is served here")
    return context


def _told(answer: Response) -> PageValues:
    body = json.loads(bytes(answer.body))
    if "code" not in body:
        body |= {"code": "NOT_ANSWERED", "message": f"placement hasn't answered yet; it is at {body['position']}"}
    return {**body, "fine": True}


PAGES = (
    Page("/hosts/{host_id}", "host.html", load, "Hosts"),
    Page("/hosts/{host_id}/{word}", "host_word.html", ask, "Hosts", for_writing=True),
)
ACTIONS = (Action("/hosts/{host_id}/{word}", say, "Hosts"),)
