"""Commands about jobs as forms send them: carried out by the functions of the API, each answer in words."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from shlex import quote
from typing import Any, NamedTuple

import orjson
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from events.answers import no_job
from events.codes import Code
from projections.api import job_commands
from projections.api.context import Context
from projections.api.job_commands import InstancesCommand, JobCommand, PriorityCommand, RestartCommand, RollBackCommand
from projections.api.job_starts import StartCommand, start_job
from projections.api.problems import Problem
from projections.queries import entities
from projections.ui.page_values import PageValues
from projections.ui.scene import Contexts, Sent
from projections.views.job_states import REJECTED

WAIT_S = 10.0
"""Seconds for which the answer of a machine is waited for."""
AT_ONCE = 32
_MODELS: Mapping[str, type[JobCommand]] = {
    "stop": InstancesCommand,
    "start": StartCommand,
    "restart": RestartCommand,
    "rollback": RollBackCommand,
    "priority": PriorityCommand,
}
_NUMBERS = ("batch", "version", "priority")
_PLAIN = {
    "string_pattern_mismatch": "instances are written as 0-9,12: numbers, and ranges from one to another",
    "missing": "a number is needed",
}
"""Plain words for faults of a field that pydantic describes for developers."""


_AGAIN = {"this command was carried out before": "this was sent already, and is done"}
"""Plain words for lifecycle's answer to a form that is sent again."""


class Outcome(NamedTuple):
    """The outcome of a command about one job."""

    job_id: str
    done: bool
    code: str
    message: str


async def carry_out(form: Sent, name: str, job_ids: Sequence[str]) -> list[Outcome]:
    """Gives a command to each of some jobs. Raises a problem where the form says what no command can."""
    commands = [_command(form, name, at) for at in range(len(job_ids))]
    cells = await run_in_threadpool(_cells, form.contexts, job_ids)
    outcomes: list[Outcome] = []
    for first in range(0, len(job_ids), AT_ONCE):
        part = zip(job_ids[first : first + AT_ONCE], commands[first : first + AT_ONCE], strict=True)
        outcomes += await asyncio.gather(*(_one(cells.get(job_id), job_id, name, each) for job_id, each in part))
    return outcomes


def _command(form: Sent, name: str, at: int) -> JobCommand:
    """The command about the job at a place of the form: the same form gives it the same id again."""
    fields: PageValues = {"command_id": f"{form.field('command_id')[:100]}-{at}", "reason": form.field("reason")}
    if not fields["reason"].strip():
        raise Problem(422, "REASON_NEEDED", "a reason is needed: it is recorded in the log with the command")
    model = _MODELS.get(name, JobCommand)
    for each in ("instances", *_NUMBERS):
        text = form.field(each).replace(" ", "")
        if each in model.model_fields and text:
            fields[each] = _whole(each, text) if each in _NUMBERS else text
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        message = _PLAIN.get(first["type"], first["msg"].lower())
        raise Problem(422, "INVALID_REQUEST", f"{where}: {message}") from error


def _whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise Problem(422, "INVALID_REQUEST", f"{name}: {text[:40]!r} is no whole number") from error


def _cells(contexts: Contexts, job_ids: Iterable[str]) -> dict[str, Context]:
    """The context of each job; a cell that has rejected one comes last."""
    contexts_by_job: dict[str, Context] = {}
    for context in contexts.values():
        with context.views.read() as connection:
            for job_id in job_ids:
                row = entities.job_row(connection, job_id)
                if row is not None and (row.state != REJECTED or job_id not in contexts_by_job):
                    contexts_by_job[job_id] = context
    return contexts_by_job


async def _one(context: Context | None, job_id: str, name: str, command: JobCommand) -> Outcome:
    if context is None:
        return Outcome(job_id, False, Code.NOT_FOUND, no_job(job_id))
    try:
        response = await _call(context, job_id, name, command)
    except Problem as problem:
        return Outcome(job_id, False, problem.code, problem.detail)
    answer = orjson.loads(response.body)
    if "code" not in answer:
        return Outcome(job_id, True, "WRITTEN", f"written at {answer['position']}; it isn't answered yet")
    return Outcome(job_id, True, answer["code"], _AGAIN.get(answer["message"], answer["message"] or "done"))


async def _call(context: Context, job_id: str, name: str, command: JobCommand) -> Any:
    match command:
        case PriorityCommand():
            return await job_commands.set_priority(context, job_id, command, WAIT_S)
        case RollBackCommand():
            return await job_commands.act(context, job_id, command, "roll_back", WAIT_S, version=command.version)
        case RestartCommand():
            more = {"batch": command.batch, **command.columns()}
            return await job_commands.act(context, job_id, command, name, WAIT_S, **more)
        case InstancesCommand() if name == "stop":
            return await job_commands.stop_job(context, job_id, command, WAIT_S)
        case StartCommand():
            return await start_job(context, job_id, command, WAIT_S)
    return await job_commands.act(context, job_id, command, name, WAIT_S)


def command_line(name: str, job_ids: Sequence[str], reason: str, fields: Mapping[str, str]) -> list[str]:
    """The commands that do the same: one, or one for each job where the command takes only one."""
    options = [f"--{option} {quote(fields[field])}" for field, option in _OPTIONS.items() if fields.get(field)]
    end = " ".join([*options, f"--reason {quote(reason)}"])
    if name in ("priority", "rollback"):
        number = f" {fields.get('priority') or 'NUMBER'}" if name == "priority" else ""
        return [f"paceline job {name} {quote(job_id)}{number} {end}" for job_id in job_ids]
    return [f"paceline job {name} {' '.join(map(quote, job_ids))} {end}"]


_OPTIONS = {"instances": "instances", "batch": "batch", "version": "to"}
"""Options of commands by the fields of forms."""
