"""The list of jobs: counted, grouped, a page of it at a time."""

from collections import defaultdict
from collections.abc import Iterator

import orjson

from events.codes import Code, JobState
from projections.api.all_cells import jobs_page, page_starts
from projections.api.context import Paging, Place
from projections.api.jobs import JobsRequest
from projections.api.problems import Problem
from projections.queries.job_counts import By, JobGroup, wait_reasons
from projections.queries.job_filter import JobFilter
from projections.queries.known_names import unknown_pool
from projections.ui import job_columns
from projections.ui.colours import task_bar
from projections.ui.format import lasts, ms_of
from projections.ui.page_values import PageValues
from projections.ui.pages import job_filters
from projections.ui.pages.job_filters import Asked, asked
from projections.ui.scene import Data, Page, Scene
from projections.views.job_states import JOB_STATES, OVER, REJECTED, SUBMITTED

SHOWN = 50
"""Jobs of a page."""
GROUPS_SHOWN = 40
EXPORTED_MAX, EXPORTED_AT_ONCE = 100_000, 1000
"""Jobs of a CSV file, and those that are read at a time."""
BARS: dict[str, str] = {
    SUBMITTED: "waiting",
    JobState.PENDING: "waiting",
    JobState.RUNNING: "running",
    JobState.KILLING: "stopping",
    JobState.SUCCEEDED: "succeeded",
    JobState.FAILED: "failed",
    JobState.KILLED: "killed",
    REJECTED: "failed",
}
"""The colours of states."""


def load(scene: Scene) -> PageValues:
    """A page of the jobs that the address asks for, and how many there are."""
    wish = asked(scene.query)
    job_filter = wish.filter(scene.now_ms)
    of_all = job_filter._replace(states=())
    of_state: dict[str, int] = defaultdict(int)
    for group in counted(scene, of_all):
        of_state[group.state] += group.jobs
    page = Paging(SHOWN, scene.query.get("page_token", ""))
    body = _page(scene, wish, job_filter, page)
    return {
        "asked": wish,
        "unknown_pool": unknown_pool([each.connection for each in scene.cells.values()], wish.pool),
        "jobs": [_shown(job, scene.now_ms) for job in body["jobs"]],
        "next_page_token": body["next_page_token"],
        "first_page": not page.token,
        "total": sum(of_state[state] for state in job_filter.states or of_state),
        "facets": [(state, of_state[state]) for state in JOB_STATES if of_state[state] or state in job_filter.states],
        "all_states": sum(of_state.values()),
        "open": sum(count for state, count in of_state.items() if state not in OVER),
        "groups": _reasons(scene, job_filter) if wish.group == "reason" else _groups(scene, of_all, wish),
        "known_groups": job_filters.GROUPS,
        "sorts": job_filters.SORTS,
        "spans": job_filters.SPANS,
        "cell_shown": len(scene.cells) > 1,
        "known_columns": [name for name in job_columns.COLUMNS if name != "cell" or len(scene.cells) > 1],
        "columns": job_columns,
        "bulk_query": _pairs(wish.query(group="", columns=[])),
        "command": wish.command(scene.now_ms),
        "api": wish.api(scene.now_ms),
    }


def load_csv(scene: Scene) -> bytes:
    """All jobs that the address asks for, with its columns, all where it names none. Raises a problem where they are
    too many.
    """
    wish = asked(scene.query)
    job_filter = wish.filter(scene.now_ms)
    count = sum(group.jobs for group in counted(scene, job_filter))
    if count > EXPORTED_MAX:
        detail = f"{count:,} jobs are asked for; an export has {EXPORTED_MAX:,} at most: narrow the filter"
        raise Problem(422, Code.TOO_LARGE, detail)
    usual = [name for name in job_columns.COLUMNS if name != "cell" or len(scene.cells) > 1]
    return job_columns.csv_of(_all_jobs(scene, wish, job_filter), wish.columns or usual)


def _all_jobs(scene: Scene, wish: Asked, job_filter: JobFilter) -> Iterator[PageValues]:
    token: str | None = ""
    while token is not None:
        body = _page(scene, wish, job_filter, Paging(EXPORTED_AT_ONCE, token))
        yield from body["jobs"]
        token = body["next_page_token"] or None


def _page(scene: Scene, wish: Asked, job_filter: JobFilter, page: Paging) -> PageValues:
    """The answer of the API: jobs, and the token of the next page."""
    words = (wish._asdict(),)
    at = page_starts(page, tuple[Place, Place], *words)
    body: PageValues = orjson.loads(jobs_page(scene.cells, page, JobsRequest(job_filter, words), at))
    return body


def counted(scene: Scene, job_filter: JobFilter, by: By = "pool", label_key: str = "") -> list[JobGroup]:
    """The groups of the jobs of all cells that a filter lets through."""
    return [
        each
        for cell in scene.cells.values()
        for each in cell.context.counts.of(cell.connection, job_filter, by, label_key)
    ]


def _groups(scene: Scene, job_filter: JobFilter, wish: Asked) -> list[PageValues]:
    """Jobs by what the address groups them by, most jobs first; `parts` of a bar by state."""
    by_name: dict[str, dict[str, JobGroup]] = defaultdict(dict)
    by: By = "owner" if wish.group == "owner" else "label" if wish.group == "label" else "pool"
    for group in counted(scene, job_filter, by, wish.label_key):
        name = group.state if wish.group == "state" else group.name
        before = by_name[name].get(group.state, JobGroup(name, group.state, 0, 0))
        by_name[name][group.state] = JobGroup(
            name, group.state, before.jobs + group.jobs, before.waiting + group.waiting
        )
    totals = {name: sum(each.jobs for each in states.values()) for name, states in by_name.items()}
    largest = sorted(totals, key=lambda name: (-totals[name], name))[:GROUPS_SHOWN]
    return [
        {
            "name": name,
            "jobs": (jobs := totals[name]),
            "waiting": sum(each.waiting for each in states.values()),
            "parts": [(BARS[state], states[state].jobs * 100 / jobs) for state in JOB_STATES if state in states],
            "label": ", ".join(f"{states[state].jobs} {state.lower()}" for state in JOB_STATES if state in states),
            "now": name in _chosen(wish),
            "query": wish.query(**_narrowed(wish, name)) if name else None,
        }
        for name, states in ((name, by_name[name]) for name in largest)
    ]


def _chosen(wish: Asked) -> list[str]:
    """The groups that the filter lets through, where it names some."""
    of_key = [pair.removeprefix(f"{wish.label_key}:") for pair in wish.labels if pair.startswith(f"{wish.label_key}:")]
    return {"pool": [wish.pool], "owner": wish.owners, "state": wish.states, "label": of_key}[wish.group]


def _narrowed(wish: Asked, name: str) -> PageValues:
    """The change of the address that shows a group alone; of a key of labels: the jobs by its values."""
    if wish.group != "label":
        return {wish.group: name} if wish.group == "pool" else {f"{wish.group}s": [name]}
    if not wish.label_key:
        return {"label_key": name}
    others = [pair for pair in wish.labels if not pair.startswith(f"{wish.label_key}:")]
    return {"labels": [*others, f"{wish.label_key}:{name}"]}


def _reasons(scene: Scene, job_filter: JobFilter) -> list[PageValues]:
    """Jobs that wait, by what for."""
    by_code: dict[str, tuple[int, int]] = {}
    for cell in scene.cells.values():
        for code, jobs, tasks in wait_reasons(cell.connection, job_filter):
            before = by_code.get(code, (0, 0))
            by_code[code] = before[0] + jobs, before[1] + tasks
    most = max((tasks for _, tasks in by_code.values()), default=1)
    rows = [
        {"name": code, "jobs": jobs, "waiting": tasks, "parts": [("waiting", tasks * 100 / most)], "now": False}
        | {"label": f"{tasks} tasks wait", "query": None}
        for code, (jobs, tasks) in by_code.items()
    ]
    return sorted(rows, key=lambda row: (-row["waiting"], row["name"]))


def _pairs(query: PageValues) -> list[tuple[str, str]]:
    """The fields of a form that say the same as a query."""
    return [(name, each) for name, value in query.items() for each in (value if isinstance(value, list) else [value])]


def _shown(job: PageValues, now_ms: int) -> PageValues:
    submitted, waits, update = ms_of(job["submitted_at"]), ms_of(job["waiting_since"]), job["update"]
    return {
        **job,
        "parts": task_bar(job["tasks"], job["instances"]),
        "counted": job["tasks"]["succeeded" if job["state"] in OVER else "running"],
        "counted_as": "done" if job["state"] in OVER else "running",
        "rolls": update if update and not update["ended_at"] else None,
        "submitted_ms": submitted,
        "since_ms": waits,
        "age": lasts(now_ms - submitted),
        "submitted_ago": f"{lasts(now_ms - submitted)} ago",
        "ended_ago": f"{lasts(now_ms - ms_of(job['ended_at']))} ago",
        "waits": lasts(now_ms - waits) if waits else "",
    }


DATA = (Data("/jobs.csv", load_csv, "text/csv; charset=utf-8; header=present"),)
PAGES = (Page("/jobs", "jobs.html", load, "Jobs"),)
