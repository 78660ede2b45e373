"""Campaigns of maintenance: all of them, and one with its hosts by step and what waits on what."""

from collections.abc import Mapping

from sqlalchemy import Connection

from events.codes import Step
from paceline.client.maintenance_models import HostWait, Maintenance, MaintenanceWindow
from projections.api.problems import not_found
from projections.queries import maintenances as queries
from projections.queries import windows as window_queries
from projections.ui.format import ms_of
from projections.ui.page_values import PageValues
from projections.ui.scene import Page, Scene

SHOWN = 50
HOSTS = 200
STEPS: Mapping[str, str] = {
    "DONE": "done",
    "CHECK": "in check",
    "WORK": "at work",
    "DRAIN": "draining",
    "PENDING": "pending",
    "FAILED": "failed",
    "SKIPPED": "skipped",
}
"""The words for the steps of hosts, in the order in which they are shown."""


def load(scene: Scene) -> PageValues:
    """The campaigns of a cell, the newest first."""
    of = scene.first()
    page = queries.maintenance_rows(of.connection, SHOWN, None)
    campaigns = [_aged(queries.maintenance_json(of.connection, row)) for row in page.rows]
    windows = [_window(window_queries.window_json(row)) for row in window_queries.window_rows(of.connection)[:SHOWN]]
    values = {"campaigns": campaigns, "more": page.more, "steps": STEPS, "windows": windows}
    return {**values, "of_cell": of.context.cell}


def _window(body: MaintenanceWindow) -> PageValues:
    times = {name: ms_of(body[name]) for name in ("opens_at", "closes_at", "missed_at")}
    return {"window": body, **times, "clock": (body["opens_local"] or "-").replace("T", " ")}


def load_one(scene: Scene) -> PageValues:
    """The campaign that the path names."""
    of = scene.first()
    name = scene.path["maintenance_id"]
    row = queries.maintenance_row(of.connection, name)
    if row is None:
        raise not_found("maintenance", name)
    body = _aged(queries.whole_maintenance(of.connection, row))
    step = scene.query.get("step", "")
    steps = [step] if step in STEPS else []
    return {
        "body": body,
        "hosts": _hosts(of.connection, name, steps),
        "chosen": step,
        "steps": STEPS,
        "of_cell": of.context.cell,
        "waits": _waits(body["campaign"]),
        "asked": scene.parameters(),
    }


def _hosts(connection: Connection, name: str, steps: list[str]) -> PageValues:
    page = queries.host_rows(connection, name, HOSTS, "", steps)
    rows = [{**row, "since_ms": ms_of(row["since"])} for row in queries.hosts_json(connection, page.rows)]
    return {"rows": rows, "more": page.more}


def _aged(body: Maintenance) -> PageValues:
    over = sum(body["steps"].get(step.name, 0) for step in (Step.DONE, Step.FAILED, Step.SKIPPED))
    return {
        "campaign": body,
        "started_ms": ms_of(body["started_at"]),
        "ended_ms": ms_of(body["ended_at"]),
        "estimated_ms": ms_of(body.get("estimated_at")),
        "share": 100 * over // body["hosts"] if body["hosts"] else 0,
        "over": over,
    }


def _waits(body: Maintenance) -> list[tuple[HostWait, list[str]]]:
    """The reasons for which runs are still on hosts that drain, each with its hosts, by job."""
    waits: dict[tuple[str, str], tuple[HostWait, list[str]]] = {}
    for host in body.get("at_work", ()):
        for wait in host.get("waits", ()):
            _, names = waits.setdefault((wait["job_id"], wait["code"]), (wait, []))
            names.append(host["host_id"])
    return [waits[key] for key in sorted(waits)]


PAGES = (
    Page("/maintenances", "maintenances.html", load, "Hosts"),
    Page("/maintenances/{maintenance_id}", "maintenance.html", load_one, "Hosts"),
)
