"""The page of blame: the mover of the value that a figure of another page leads from, or that is typed in."""

import json
from typing import Any

from events.pool_paths import ROOT
from projections.api.all_cells import OpenCell
from projections.api.blame import blamed
from projections.api.problems import Problem
from projections.queries import entities
from projections.queries.blame_fields import FIELDS, FORMS, BadTarget, Target, read_target
from projections.queries.pool_levels import pools_named
from projections.queries.pool_tree import spec_of
from projections.ui.page_values import PageValues
from projections.ui.scene import Page, Scene
from projections.views.job_states import REJECTED

PATHS = {"pool": "/pools", "job": "/jobs/", "task": "/jobs/", "host": "/hosts/", "cell": "/"}


def load(scene: Scene) -> PageValues:
    """Loads who moved the value that `of` names; nothing where it names none."""
    text = scene.query.get("of", "").strip()
    if not text:
        return {"of": "", "answer": None, "cell": scene.query.get("cell"), "forms": FORMS}
    try:
        target = read_target(text)
    except BadTarget as error:
        raise Problem(400, "BAD_TARGET", str(error)) from error
    cell = _cell(scene, target)
    answer = blamed(cell.connection, cell.context.log, text, scene.now_ms)
    thing = text.partition(":")[0]
    return {
        "of": text,
        "answer": answer,
        "value": _written(answer["value"]),
        "moved": next((each for each in answer["records"] if each["position"] == answer["moved"]), None),
        "thing": thing,
        "field": target.field,
        "fields": sorted(FIELDS[target.kind]),
        "page": target,
        "forms": FORMS,
        "cell": cell.context.cell if len(scene.cells) > 1 else None,
        "cell_number": cell.context.cell,
    }


def _cell(scene: Scene, target: Target) -> OpenCell:
    """The cell that has the thing; the first where none has it, which then says so."""
    cells = list(scene.cells.items())
    if target.kind in ("job", "task"):
        jobs = [(each, entities.job_row(each.connection, target.name)) for _, each in cells]
        having = [(each, row) for each, row in jobs if row is not None]
        owners = [each for each, _ in sorted(having, key=lambda pair: pair[1].state == REJECTED)]
    elif target.kind == "host":
        hosts = [(each, entities.host_row(each.connection, target.name)) for _, each in cells]
        there = [(each, row) for each, row in hosts if row is not None]
        owners = [each for each, _ in sorted(there, key=lambda pair: bool(pair[1].lost_code))]
    elif target.kind == "pool" and target.name != ROOT:
        rows = [(cell, each, pools_named(each.connection, [target.name]).get(target.name)) for cell, each in cells]
        owners = [each for cell, each, row in rows if row is not None and row.spec and spec_of(row).cell == cell]
    else:
        owners = []
    return owners[0] if owners else scene.first()


def _written(value: Any) -> str:
    return value if isinstance(value, str) else "none" if value is None else json.dumps(value, ensure_ascii=False)


PAGES = (Page("/blame", "blame.html", load, "Log"),)
