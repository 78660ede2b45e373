"""Submitting a job from a page: a job file in YAML or JSON, checked by the cell before it is written."""

import uuid
from typing import Any

import orjson
from starlette.concurrency import run_in_threadpool

from events.yaml_documents import Fault, parse
from projections.api.context import Context
from projections.api.job_plans import plan_job, plan_jobs
from projections.api.problems import Problem
from projections.api.submissions import submit_job
from projections.queries import pool_tree
from projections.ui.job_orders import WAIT_S
from projections.ui.page_values import PageValues
from projections.ui.rendering import link
from projections.ui.scene import Action, Contexts, Page, Scene, Sent, Shown

NOT_FOR_JOBS = ("/", "/system")
"""Pools that a cell has from its start: the root takes no jobs, and the one for its operators is nobody's first
choice.
"""
EXAMPLE = """job_id: hello
pool: /default
command: [sh, -c, echo hello]
instances: 1
resources: {cpu: 0.1, memory: 64MiB}
"""


def load(scene: Scene) -> PageValues:
    """An empty form, with an example to begin from."""
    for each in scene.cells.values():
        each.context.prepare_plans()
    paths = [pool["path"] for each in scene.cells.values() for pool in pool_tree.pools_json(each.connection)]
    above = {path.rpartition("/")[0] or "/" for path in paths}
    leaf = next((path for path in paths if path not in above and path not in NOT_FOR_JOBS), "/default")
    return _form(EXAMPLE.replace("/default", leaf), uuid.uuid4().hex)


def _form(text: str, command_id: str, **more: Any) -> PageValues:
    return {"text": text, "command_id": command_id, "faults": [], "plans": [], "checked": None, "warnings": []} | more


async def submit(form: Sent) -> Shown | str:
    """Checks the job, and submits it unless only the check, or the plan, was asked for. What the cell refuses is told
    by the fields of the job, beside its text.
    """
    text, command_id = form.field("spec"), form.field("command_id")
    read: list[Fault] = []
    documents = list(parse("job", text, read.append))
    if form.field("do") == "plan" and documents and not read:
        return await _planned(form.contexts, text, command_id, [each.value for each in documents])
    if read or len(documents) != 1:
        faults = [(f"line {each.line}", each.message) for each in read] or [("", "write one job here, in YAML or JSON")]
        return Shown("submit.html", _form(text, command_id, faults=faults), 422)
    body = _with_id(documents[0].value, command_id)
    only_check = form.field("do") == "check"
    context = await run_in_threadpool(_cell_of, form.contexts, body)
    try:
        response = await submit_job(context, body, WAIT_S, only_check)
    except Problem as problem:
        faults = list(problem.errors) or [("", f"{problem.code}: {problem.detail}")]
        return Shown("submit.html", _form(text, command_id, faults=faults), problem.status)
    answer = orjson.loads(response.body)
    if only_check:
        values = _form(text, command_id, checked=answer["job_id"], warnings=answer.get("warnings", []))
        return Shown("submit.html", values)
    return link("", f"/jobs/{answer['job_id']}")


async def _planned(contexts: Contexts, text: str, command_id: str, bodies: list[Any]) -> Shown:
    """The plans of the jobs of a form, together."""

    async def find(body: Any) -> Context:
        return await run_in_threadpool(_cell_of, contexts, body)

    jobs = [_with_id(body, command_id, number) for number, body in enumerate(bodies)]
    try:
        plans = await plan_jobs(find, jobs) if len(jobs) > 1 else [await plan_job(await find(jobs[0]), jobs[0])]
    except Problem as problem:
        faults = list(problem.errors) or [("", f"{problem.code}: {problem.detail}")]
        return Shown("submit.html", _form(text, command_id, faults=faults), problem.status)
    warnings = [warning for plan in plans for warning in plan.get("warnings", [])]
    return Shown("submit.html", _form(text, command_id, plans=plans, warnings=warnings))


def _with_id(body: Any, command_id: str, number: int = 0) -> Any:
    """A job with an id, which the same form gives it again."""
    if isinstance(body, dict) and not body.get("job_id"):
        return {**body, "job_id": f"job-{command_id[:12]}{f'-{number}' if number else ''}"}
    return body


def _cell_of(contexts: Contexts, body: Any) -> Context:
    """The cell of the pool that a job names; the first where none has it."""
    pool = str(body.get("pool", "")) if isinstance(body, dict) else ""
    for context in contexts.values() if pool else ():
        with context.views.read() as connection:
            pool_body = next(iter(pool_tree.pools_json(connection, pool)), None)
        if pool_body is not None and pool_body["cell"] in contexts:
            return contexts[pool_body["cell"]]
    return next(iter(contexts.values()))


PAGES = (Page("/submit", "submit.html", load, "Jobs", for_writing=True),)
ACTIONS = (Action("/submit", submit, "Jobs"),)
