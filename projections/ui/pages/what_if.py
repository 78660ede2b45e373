"""The pages of what-ifs: a form for a stretch of history and what is otherwise in it, and the page of the answer."""

from collections.abc import Mapping
from typing import Any

import orjson
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from events.spec.pool import PoolSpec
from events.spec.problems import problems
from events.spec.settings import descriptions
from projections.api.context import Context
from projections.api.problems import Problem, not_found
from projections.api.what_if_questions import Question
from projections.api.what_ifs import ROUTE, RUNS_MAX, WhatIfBody, begin, what_ifs_of
from projections.queries import pool_tree
from projections.ui.format import iso
from projections.ui.page_values import PageValues
from projections.ui.rendering import link
from projections.ui.scene import Action, Page, Scene, Sent, Shown

HOUR_MS = 3_600_000
CELL = "cell"
POOL_FIELDS = [name for name in PoolSpec.model_fields if name not in ("path", "cell")]
BY_RESOURCE = ("share", "reservation", "limit")
FIELDS = ("from", "to", "of", "field", "resource", "value", "more", "change_file", "conditions", "runs")
AGAIN_S = 1
"""Seconds after which a page looks again how far the answer is."""


def load_form(scene: Scene) -> PageValues:
    """The form. The query may say a stretch (`from`, `to`) and a pool; without, it is about the last hour."""
    cell = scene.first()
    cell.context.permits.read(ROUTE)
    what_ifs = what_ifs_of(cell.context)
    fields = {name: scene.query.get(name, "") for name in FIELDS}
    fields["from"] = fields["from"] or iso(scene.now_ms - HOUR_MS)
    fields["to"] = fields["to"] or iso(scene.now_ms)
    fields["of"] = fields["of"] or scene.query.get("pool", "")
    at_work = what_ifs.at_work()
    pools = [pool["path"] for pool in pool_tree.pools_json(cell.connection)]
    return _form(pools, fields, cell.context.cell) | {"at_work": at_work.question.id if at_work else ""}


def _form(pools: list[str], fields: Mapping[str, str], number: int) -> PageValues:
    return {
        "pools": [path for path in pools if path != "/"],
        "given": {**fields, "runs": fields["runs"] or "5"},
        "number": number,
        "pool_fields": POOL_FIELDS,
        "by_resource": BY_RESOURCE,
        "settings": sorted(descriptions()),
        "runs_max": RUNS_MAX,
        "faults": [],
        "at_work": "",
    }


async def ask(form: Sent) -> Shown | str:
    """Begins with a question, and leads to the page of its answer. What can't be asked is told beside the form."""
    context = next((each for each in form.contexts.values() if str(each.cell) == form.field("number")), None)
    if context is None:
        raise not_found("cell", form.field("number"))
    context.permits.read(ROUTE)
    fields = {name: form.field(name) for name in FIELDS}
    try:
        question = WhatIfBody.model_validate(_body(fields)).question()
        what_if = await run_in_threadpool(begin, context, question)
    except ValidationError as error:
        return await _told(context, fields, [(place, text) for place, text in problems(error, WhatIfBody)], 422)
    except Problem as problem:
        return await _told(context, fields, list(problem.errors) or [("", problem.detail)], problem.status)
    return link("", f"/what-if/{what_if.question.id}", cell=context.cell if len(form.contexts) > 1 else None)


def _body(fields: Mapping[str, str]) -> dict[str, Any]:
    changes = _lines(fields["more"])
    if fields["value"].strip():
        resource = f":{fields['resource'].strip()}" if fields["resource"].strip() else ""
        changes.insert(0, f"{fields['of']}:{fields['field']}{resource}={fields['value'].strip()}")
    return {
        "from": fields["from"].strip(),
        "to": fields["to"].strip(),
        "changes": changes,
        "change_file": fields["change_file"].replace("\r\n", "\n"),
        "runs": fields["runs"] or 5,
        "conditions": _lines(fields["conditions"]),
    }


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


async def _told(context: Context, fields: Mapping[str, str], faults: list[tuple[str, str]], status: int) -> Shown:
    """The form once more, with what is wrong."""

    def values() -> PageValues:
        with context.views.read() as connection:
            pools = [pool["path"] for pool in pool_tree.pools_json(connection)]
        at_work = what_ifs_of(context).at_work()
        return _form(pools, fields, context.cell) | {"at_work": at_work.question.id if at_work else ""}

    return Shown("what_if.html", await run_in_threadpool(values) | {"faults": faults}, status)


def load_answer(scene: Scene) -> PageValues:
    """Tells how far a question is; its answer once it is there. The page looks again by itself until then."""
    context = scene.first().context
    context.permits.read(ROUTE)
    what_if = what_ifs_of(context).look(scene.path["what_if_id"])
    if what_if is None:
        raise not_found("what-if", f"{scene.path['what_if_id'][:80]} here any more: ask the question again")
    question = what_if.question
    again = {
        "from": iso(question.from_ms),
        "to": iso(question.to_ms),
        "more": "\n".join(question.changes),
        "change_file": question.change_file or None,
        "conditions": "\n".join(question.conditions) or None,
        "runs": question.runs,
    }
    answer: PageValues = orjson.loads(what_if.page) if what_if.page else {}
    return {
        "what_if": what_if,
        "words": "; ".join(answer.get("change", question.changes)) or "a change file",
        "question": question,
        "ask_again": again,
        "percent": round(what_if.done * 100),
        "same": _command(again, question),
        "again_s": 0 if what_if.over else AGAIN_S,
        **answer,
    }


def _command(again: Mapping[str, Any], question: Question) -> str:
    """The command that asks the same."""
    words = [f"--set '{change}'" for change in question.changes] + (["--file FILE"] if question.change_file else [])
    words += [f"--fail-if '{condition}'" for condition in question.conditions]
    return f"paceline what-if --from {again['from']} --to {again['to']} {' '.join(words)} --runs {again['runs']}"


PAGES = (
    Page("/what-if", "what_if.html", load_form, "Pools", for_writing=True),
    Page("/what-if/{what_if_id}", "what_if_asked.html", load_answer, "Pools", for_writing=True),
)
ACTIONS = (Action("/what-if", ask, "Pools"),)
