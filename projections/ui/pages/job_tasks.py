"""The tasks of a job as a table, and one of them with its runs and their output."""

from events.codes import TaskState
from paceline.client.models import Run, Task
from projections.api.problems import not_found
from projections.asked_values import whole_number
from projections.queries import tasks as task_queries
from projections.queries.runs import task_runs
from projections.queries.task_columns import task_columns
from projections.ui.format import lasts, ms_of
from projections.ui.found_job import find_job, named
from projections.ui.job_actions import offered
from projections.ui.page_values import PageValues
from projections.ui.scene import Page, Scene

SHOWN = 100
OF_INSTANCES = ("start", "restart", "stop")
"""Actions that may be about one task."""


def load_list(scene: Scene) -> PageValues:
    """A page of the tasks, those of one state where the address names it."""
    of_job = find_job(scene)
    state, first = scene.query.get("state", "").upper(), scene.query.get("first", "")
    states = [TaskState[state]] if state in TaskState.__members__ else []
    page = task_queries.tasks_page(
        of_job.connection, of_job.row, task_queries.TaskFilter(states), SHOWN, whole_number(first, 9) or 0
    )
    return named(scene, of_job) | {
        "state_shown": state if states else "",
        "ranges": task_columns(of_job.connection, of_job.row).ranges(),
        "tasks": [_since(task, scene.now_ms) for task in page.items],
        "next": page.next,
        "updates": of_job.row.update > 0,
    }


def load_one(scene: Scene) -> PageValues:
    """A task: its state, its runs, and where the output of one of them is."""
    of_job = find_job(scene)
    _, _, connection, row = of_job
    text = scene.path["instance"]
    number = whole_number(text, 9)
    instance = -1 if number is None else number
    task = task_queries.task(connection, row, instance)
    runs = task_runs(connection, row, instance) if instance >= 0 else []
    if task is None and not runs:
        raise not_found("task", f"{text[:40]} of job {row.job_id}")
    choice = whole_number(scene.query.get("run", ""))
    numbers = [run["run"] for run in runs]
    run = choice if choice in numbers else next(iter(numbers), None)
    return named(scene, of_job) | {
        "instance": instance,
        "last": row.instances - 1,
        "task": _since(task, scene.now_ms) if task else None,
        "runs": [_timed(each, scene.now_ms) for each in runs],
        "run": run,
        "actions": [each for each in offered(row, {}) if each.name in OF_INSTANCES],
    }


def _since(task: Task, now_ms: int) -> PageValues:
    since = ms_of(task["since"])
    ahead_ms = ms_of(task["next_run_at"]) - now_ms
    due = {"next_run": f"in {lasts(ahead_ms)}" if ahead_ms > 0 else "now"} if task["next_run_at"] else {}
    had: PageValues = {"devices": [], "cores": []}
    return {**had, **task, "lasts": lasts(now_ms - since) if since else "", **due}


def _timed(run: Run, now_ms: int) -> PageValues:
    started = ms_of(run["started_at"])
    took = lasts((ms_of(run["ended_at"]) or now_ms) - started) if started else ""
    return {"devices": [], **run, "took": took, "age": f"{lasts(now_ms - started)} ago" if started else "-"}


PAGES = (
    Page("/jobs/{job_id}/tasks", "job_tasks.html", load_list, "Jobs"),
    Page("/jobs/{job_id}/tasks/{instance}", "job_task.html", load_one, "Jobs"),
)
