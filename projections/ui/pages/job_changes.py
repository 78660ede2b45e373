"""Changing jobs: a page names what is affected and asks for a reason, then each job says what became of it."""

import uuid

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams

from events.bounds import INT_MAX
from events.codes import Code
from events.instance_ranges import PATTERN
from projections.api.problems import Problem
from projections.queries import entities, versions
from projections.queries.task_columns import task_columns
from projections.ui.found_job import FoundJob, find_job
from projections.ui.job_actions import BY_NAME, JobAction
from projections.ui.job_orders import carry_out, command_line
from projections.ui.page_values import PageValues
from projections.ui.pages.job_filters import asked
from projections.ui.scene import Action, Page, Scene, Sent, Shown, opened
from projections.views.rows import JobRow

MANY_MAX = 500
"""Jobs of one form."""
PATTERN_OF_FORMS = PATTERN.strip("^$").replace("(,", "(, ?")
"""The pattern of instances in forms; a space may follow a comma."""
NAMED_MAX = 20
"""Jobs that are named one by one before that."""
FOR_MANY = ("stop", "hold", "release", "priority")
FIELDS = ("instances", "batch", "version", "priority")


def load_one(scene: Scene) -> PageValues:
    """Loads what an action would do to the job."""
    action, of_job = _action(scene.path["action"]), find_job(scene)
    row = of_job.row
    update = versions.newest_updates(of_job.connection, [row]).get(row.job_id)
    lacks = action.lacks(row, versions.update_json(update) if update else {})
    form = _of_one(action, of_job)
    return form | {"lacks": lacks, "given": form["given"] | {"instances": scene.query.get("instances", "")}}


def _of_one(action: JobAction, of_job: FoundJob) -> PageValues:
    row = of_job.row
    other_versions = [each.version for each in versions.versions(of_job.connection, row) if each.version != row.version]
    return _form(action, [row]) | {
        "ranges": task_columns(of_job.connection, row).ranges(),
        "versions": other_versions,
    }


def load_many(scene: Scene) -> PageValues:
    """Loads what an action would do to the selected jobs, or to all of the list."""
    action = _action(scene.query.get("do", ""))
    if action.name not in FOR_MANY:
        raise Problem(422, "INVALID_REQUEST", f"{action.word} is for one job at a time")
    rows, more = _matching(scene) if scene.query.get("all") else (_chosen(scene), False)
    sensible = [row for row in rows if not action.lacks(row, {})]
    return _form(action, sensible) | {"left_out": len(rows) - len(sensible), "more": more}


def _form(action: JobAction, rows: list[JobRow]) -> PageValues:
    job_ids = [row.job_id for row in rows]
    return {
        "action": action,
        "rows": rows,
        "named": rows[:NAMED_MAX],
        "tasks": sum(row.tasks for row in rows),
        "running": sum(row.running for row in rows),
        "waiting": sum(row.queued + row.backoff for row in rows),
        "command_id": uuid.uuid4().hex,
        "commands": command_line(action.name, job_ids[:NAMED_MAX], "REASON", {}) if rows else [],
        "left_out": 0,
        "more": False,
        "ranges": [],
        "versions": [],
        "many_max": MANY_MAX,
        "instances_pattern": PATTERN_OF_FORMS,
        "int_max": INT_MAX,
        "lacks": "",
        "fault": "",
        "given": dict.fromkeys((*FIELDS, "reason"), ""),
    }


def _action(name: str) -> JobAction:
    if name not in BY_NAME:
        raise Problem(404, Code.NOT_FOUND, f"there is no action {name[:40]!r}; there are {', '.join(BY_NAME)}")
    return BY_NAME[name]


def _chosen(scene: Scene) -> list[JobRow]:
    job_ids = list(dict.fromkeys(scene.query.getlist("job")))[:MANY_MAX]
    job_rows = (entities.job_row(cell.connection, job_id) for job_id in job_ids for cell in scene.cells.values())
    return [row for row in job_rows if row is not None]


def _matching(scene: Scene) -> tuple[list[JobRow], bool]:
    """The first jobs of the list as its address has it, and whether there are more."""
    job_filter = asked(scene.query).filter(scene.now_ms)
    rows: list[JobRow] = []
    more = False
    for cell in scene.cells.values():
        page = cell.context.texts.page(cell.connection, job_filter, MANY_MAX, None)
        more |= page.more
        rows += entities.job_rows(cell.connection, [each.number for each in page.rows])
    return rows[:MANY_MAX], more or len(rows) > MANY_MAX


async def change(form: Sent) -> Shown | str:
    """Gives the command of the form to its jobs."""
    action, job_ids = _action(form.field("do")), form.form.get("job", [])[:MANY_MAX]
    if not job_ids:
        raise Problem(422, "INVALID_REQUEST", "no job was chosen")
    try:
        outcomes = await carry_out(form, action.name, job_ids)
    except Problem as problem:
        return Shown("job_change.html", await run_in_threadpool(_again, form, action, problem), problem.status)
    fields = {name: form.field(name) for name in FIELDS}
    values = {
        "action": action,
        "reason_given": form.field("reason"),
        "outcomes": sorted(outcomes, key=lambda each: each.done),
        "done": sum(each.done for each in outcomes),
        "commands": command_line(action.name, job_ids[:NAMED_MAX], form.field("reason"), fields),
    }
    return Shown("job_changed.html", values)


def _again(submission: Sent, action: JobAction, problem: Problem) -> PageValues:
    """The form as it was sent, with what is wrong with it."""
    fields = {name: submission.field(name) for name in (*FIELDS, "reason")}
    job_ids = submission.form["job"]
    with opened(
        submission.contexts, {"job_id": job_ids[0]}, QueryParams([("job", each) for each in job_ids]), 0
    ) as scene:
        form = _of_one(action, find_job(scene)) if len(job_ids) == 1 else _form(action, _chosen(scene))
    fault = f"{problem.code}: {problem.detail}"
    return form | {"given": fields, "fault": fault, "command_id": submission.field("command_id")}


PAGES = (
    Page("/jobs/{job_id}/do/{action}", "job_change.html", load_one, "Jobs", for_writing=True),
    Page("/change-jobs", "job_change.html", load_many, "Jobs", for_writing=True),
)
ACTIONS = (Action("/change-jobs", change, "Jobs"),)
