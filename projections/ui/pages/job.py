"""A job: its state and what explains it, its tasks, runs, history and versions."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson

from events.codes import Outcome
from projections.asked_values import whole_number
from projections.queries import entities, versions
from projections.queries.explain import reason_json
from projections.queries.explanation_bars import measures
from projections.queries.job_runs import runs_by_host
from projections.queries.reason import Reason
from projections.queries.story_jobs import line_of
from projections.queries.strategies import strategy_of_job
from projections.queries.task_columns import TaskColumns, task_columns
from projections.ui import forecast_cards, wait_bars
from projections.ui.colours import GRID_STATES, OUTCOMES
from projections.ui.format import lasts, ms_of
from projections.ui.found_job import FoundJob, find_job, named
from projections.ui.job_actions import offered
from projections.ui.job_failure import failure_shown
from projections.ui.job_gantt import drawn
from projections.ui.job_update import update_shown
from projections.ui.job_usage import used_by
from projections.ui.page_values import PageValues
from projections.ui.scene import Data, Page, Scene
from projections.views.job_states import OVER
from projections.views.rows import JobRow

STORY_SHOWN, STORY_PAGE = 10, 100
HOSTS_SHOWN = 9
SHAPES = {
    "RunsAvailable": "running",
    "RunsOrdered": "ordered",
    "TasksPlaced": "ordered",
    "RunsStopping": "stopping",
    "GangsQueued": "queued",
    "GangsHeld": "pending",
    "GangsUnplaced": "pending",
    "PreemptionsOrdered": "preempted",
    "JobRejected": "rejected",
}
"""The shapes of events in the story; of users' facts it is that of a policy, of other decisions that of one."""


def load(scene: Scene) -> PageValues:
    """All of the page."""
    of_job = find_job(scene)
    _, _, connection, row = of_job
    [job] = entities.jobs_json(connection, [row])
    spec = versions.present_spec(connection, row, overrides=False)
    columns = task_columns(connection, row)
    output_of = _output_of(row, columns)
    ledger = wait_bars.of_job(connection, row, scene.now_ms)
    of_machines = entities.reasons_of(connection, row)
    reasons = [_reason(each, scene.now_ms) for each in of_machines]
    return named(scene, of_job) | {
        "job": job,
        "per_task": _per_task(spec),
        "strategy": strategy_of_job(connection, row),
        "open": row.state not in OVER,
        "waiting": row.queued + row.backoff,
        "reasons": reasons,
        "forecast": forecast_cards.of_job(connection, row, of_machines, scene.now_ms),
        "failure": failure_shown(connection, row, scene.now_ms),
        "measured": next((each for each in reasons if each["measures"]), None),
        "seen": next((each for each in reasons if each["hosts_considered"] is not None), None),
        "actions": offered(row, job["update"] or {}),
        "ranges": columns.ranges(),
        "grid": {"position": job["position"], "instances": len(columns.state)},
        "grid_states": GRID_STATES,
        "story": story(scene, of_job, STORY_SHOWN, None)["story"],
        "gantt": drawn(runs_by_host(connection, row, HOSTS_SHOWN), row.version, scene.now_ms),
        "update": update_shown(connection, row, scene.now_ms),
        "diff": _diff(connection, row),
        "age": {
            "submitted": lasts(scene.now_ms - ms_of(job["submitted_at"])),
            "started": lasts(scene.now_ms - ms_of(job["started_at"])),
            "ended": lasts(scene.now_ms - ms_of(job["ended_at"])),
        },
        "ledger": ledger,
        "ledger_keys": wait_bars.keys([ledger] if ledger else []),
        "used": used_by(connection, row.job_id),
        "output_of": output_of,
        "commands": _commands(row.job_id, output_of, scene.at),
    }


def story(scene: Scene, of_job: FoundJob, size: int, before: Any) -> PageValues:
    """The history of a job in sentences, the newest first."""
    page = entities.history_page(of_job.connection, of_job.row.job_id, size, before, newest=True)
    return {"story": [_told(event) for event in page.items], "next": page.next}


def load_tasks(scene: Scene) -> PageValues:
    """The columns of all tasks."""
    of_job = find_job(scene)
    columns = task_columns(of_job.connection, of_job.row)
    return {"instances": len(columns.state), "newest": of_job.row.version, **columns.run_lengths()}


def load_spec(scene: Scene) -> PageValues:
    """The specification of the job."""
    of_job = find_job(scene)
    spec = versions.present_spec(of_job.connection, of_job.row, overrides=True)
    return named(scene, of_job) | {"text": orjson.dumps(spec, option=orjson.OPT_INDENT_2).decode()}


def load_story(scene: Scene) -> PageValues:
    """A page of what happened to the job."""
    of_job = find_job(scene)
    text = scene.query.get("before", "")
    before = [part for part in map(whole_number, text.split(".")) if part is not None]
    values = story(scene, of_job, STORY_PAGE, before if len(before) == 5 else None)
    return named(scene, of_job) | values | {"next": ".".join(map(str, values["next"] or ())), "first": not text}


def load_versions(scene: Scene) -> PageValues:
    """The versions of the job, and how two of them differ."""
    of_job = find_job(scene)
    _, _, connection, row = of_job
    kept_versions = versions.versions(connection, row)
    numbers = {each.version: each for each in kept_versions}
    newest = row.version
    begin, end = (whole_number(scene.query.get(name, "")) for name in ("from", "to"))
    to = end if end in numbers else newest
    older = [number for number in numbers if number < to]
    since = begin if begin in numbers else max(older or [to])
    changes = (
        versions.changes_json(*(versions.whole_spec(connection, numbers[each].offset) for each in (since, to)))
        if numbers
        else {"changes": [], "more": 0}
    )
    bodies = [versions.version_json(each) for each in kept_versions]
    return (
        named(scene, of_job)
        | {"versions": bodies, "since": since, "to": to}
        | {
            "different": changes["changes"],
            "more": changes["more"],
        }
    )


def _diff(connection: Any, row: Any) -> PageValues | None:
    """The difference of the newest version from the one before that is kept; None: there is none before."""
    kept_versions = versions.versions(connection, row)
    if len(kept_versions) < 2:
        return None
    old, new = (versions.whole_spec(connection, each.offset) for each in (kept_versions[1], kept_versions[0]))
    return {"from": kept_versions[1].version, "to": kept_versions[0].version, **versions.changes_json(old, new)}


def _per_task(spec: PageValues) -> str:
    """The needs of one task in words."""
    ports = spec.get("ports") or []
    ports_words = f"{'port' if len(ports) == 1 else 'ports'} {', '.join(ports)}" if ports else ""
    requests = [*filter(None, map(_request, spec.get("any_of") or [spec]))]
    return ", ".join(filter(None, ["; or else ".join(requests), ports_words])) or "nothing"


def _request(spec: PageValues) -> str:
    """The amounts of a request in words, and the devices and whole cores that it asks for."""
    cores, devices = spec.get("cores") or 0, spec.get("devices") or {}
    models = devices.get("models") or {}
    parts = [f"{cores} whole {'core' if cores == 1 else 'cores'}"] if cores else []
    for name, amount in spec.get("resources", {}).items():
        if amount not in (0, "0MiB") and not (cores and name == "cpu"):
            parts.append(
                " ".join([str(_large(amount)), name, *([" or ".join(models[name])] if name in models else [])])
            )
    within = {"numa": "at one NUMA node", "link_group": "in one link group"}.get(devices.get("within") or "")
    return ", ".join([*parts, *([within] if within else [])])


def _large(amount: Any) -> Any:
    """An amount; of a size that is no whole number of GiB, but many, about how many."""
    mib = int(amount.removesuffix("MiB")) if isinstance(amount, str) and amount.endswith("MiB") else 0
    return f"{mib / 1024:,.1f}GiB" if mib >= 10 * 1024 else amount


def _commands(job_id: str, output_of: int | None, at: str) -> list[str]:
    """Commands that say what the page says."""
    then = f" --at {at}" if at else ""
    commands = [f"paceline job {verb} {job_id}{then}" for verb in ("get", "explain", "tasks", "history", "versions")]
    commands += [f"paceline job logs {job_id} --task {output_of} --follow"] if output_of is not None else []
    return [*commands, f"paceline log why {job_id}"]


def _reason(reason: Reason, now_ms: int) -> PageValues:
    fields = reason_json(reason)
    return {
        **fields,
        "say": reason.message if reason.also else reason.text,
        "measures": measures(fields),
        "lasts": lasts(now_ms - reason.since_ms) if reason.since_ms else "",
    }


def _told(event: Mapping[str, Any]) -> PageValues:
    """An event of the story: its sentence, its shape, and where it stands."""
    name, detail = event["event"], event["detail"]
    shape = SHAPES.get(name, "decide" if event["machine"] else "policy")
    if name == "RunsEnded":
        shape = OUTCOMES.get(next(iter(detail.get("outcomes", ())), ""), OUTCOMES[Outcome.STOPPED.name])
    cause = detail.get("cause") or ""
    return {**event, "line": line_of(name, detail), "shape": shape, "cause": cause if ":" in cause else ""}


def _output_of(row: JobRow, columns: TaskColumns) -> int | None:
    """The task whose output is looked at first: the one that failed last, or the first one that was told to run; None:
    none was.
    """
    ordered = np.flatnonzero(columns.version)
    if 0 <= row.failed_instance < len(columns.version) and columns.version[row.failed_instance]:
        return row.failed_instance
    return int(ordered[0]) if len(ordered) else None


PAGES = (
    Page("/jobs/{job_id}", "job.html", load, "Jobs"),
    Page("/jobs/{job_id}/spec", "job_spec.html", load_spec, "Jobs"),
    Page("/jobs/{job_id}/history", "job_history.html", load_story, "Jobs"),
    Page("/jobs/{job_id}/versions", "job_versions.html", load_versions, "Jobs"),
)
DATA = (Data("/data/jobs/{job_id}/tasks", load_tasks),)
