"""`paceline job plan`: where jobs would go now, without submitting them."""

import re
from typing import TYPE_CHECKING, Any

import click

from events.words import plural
from paceline.cli.commands.common import FILES, cell_option, examples, output_option, pool_paths, with_client
from paceline.output import Column, note, say, show, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from paceline.client.client import Client
    from paceline.client.plan_models import JobPlan
    from paceline.job_files import JobFile

SHOWN_MAX = 40
"""Hosts, and runs that would be preempted, that are listed of one plan."""
TOGETHER_MAX = 1000
"""Jobs that a cell plans together; of more each thousand is planned as if the others weren't there."""
NO_PLACE = ("WAITS", "PARTLY_PLACED", "UPDATE_WAITS", "UPDATE_FAILS")
"""Outcomes for which the exit code is 1, as it is where any task waits."""
REFUSED = "REFUSED"
DONE = (REFUSED, "REPEATED")
"""Outcomes after which there is nothing to submit."""


@click.command(
    epilog=examples(
        "paceline job plan tiles.yaml", "paceline job plan first.yaml second.yaml", "paceline job plan web.yaml -o json"
    )
)
@FILES
@output_option
@cell_option
@with_client
def plan(client: "Client", files: tuple[str, ...], form: str) -> int:
    """Show where jobs would go now, what would wait and why, and what would be preempted.

    The machines of the cell decide on a copy of their state; nothing is written. Runs go on as they are, time is
    simulated until all tasks have a host, or the preemption delay and what follows has passed. Several jobs are planned
    together, as if each was submitted after those before it. Of a job that exists and differs from FILE, the update is
    planned.

    Exits with 1 where a task would wait or an update would not end well, with 2 where a job would be refused, as one is
    whose file is invalid.
    """
    from paceline.client.errors import Faults
    from paceline.job_files import read_jobs

    try:
        plans = _checked_plans(client, read_jobs(files, lambda: pool_paths(client)))
    except Faults as error:
        note(f"paceline: {error}")
        return 2
    body = plans if len(plans) > 1 else plans[0]
    show(form, body, [each["job_id"] for each in plans], lambda: _print(plans))
    if any(each["outcome"] == REFUSED for each in plans):
        return 2
    return int(any(each["waiting"] or each["outcome"] in NO_PLACE for each in plans))


def _checked_plans(client: "Client", jobs: "Sequence[JobFile]") -> "list[JobPlan]":
    """The plans. Raises `Faults` with the lines of the files where jobs are invalid."""
    from paceline.client.errors import Faults, Refused

    try:
        return _plans(client, [each.body for each in jobs])
    except Refused as error:
        report = error.errors or [("", f"{error.detail or error.title} ({error.code})")]
        raise Faults([fault(jobs, pointer, message) for pointer, message in report]) from None


def planned(client: "Client", specs: "Sequence[Mapping[str, Any]]") -> "dict[str, JobPlan]":
    """The plans of jobs for a dry run, by id. It tells the rest also where there are none, as in an older cell."""
    from paceline.client.errors import NotFound, Refused, Unavailable

    parts = [specs[at : at + TOGETHER_MAX] for at in range(0, len(specs), TOGETHER_MAX)]
    try:
        return {each["job_id"]: each for part in parts for each in _plans(client, part)}
    except (NotFound, Refused, Unavailable) as error:
        first = f"job {specs[0]['job_id']}" + (f" and {plural(len(specs) - 1, 'more job')}" if specs[1:] else "")
        note(f"paceline: {first}: {error}")
        return {}


def _plans(client: "Client", specs: "Sequence[Mapping[str, Any]]") -> "list[JobPlan]":
    return client.plan_jobs(specs) if len(specs) > 1 else [client.plan_job(spec) for spec in specs]


def fault(jobs: "Sequence[JobFile]", pointer: str, message: str) -> str:
    """A fault of one of some jobs that were planned together, by its line."""
    match = re.match(r"/jobs/(\d+)", pointer) if len(jobs) > 1 else None
    of = jobs[int(match[1])] if match else jobs[0]
    return str(of.document.fault(pointer[match.end() :] if match else pointer, message))


def _print(plans: "list[JobPlan]") -> None:
    for each in plans:
        for warning in each.get("warnings", ()):
            note(f"warning: {warning}")
        say(f"job {each['job_id']}  {each['outcome']}  {sentence(each)}")
        for reason in each["reasons"]:
            say(f"  not placed now: {reason['code']}  {reason['message']}")
        first = [reason["message"] for reason in each["reasons"]]
        for reason in (later for later in each["later_reasons"] if later["message"] not in first):
            say(f"  after {each['looked_ahead_s']:g} s: {reason['code']}  {reason['message']}")
        if each["hosts"]:
            _print_hosts(each)
        if each["preempts"]:
            _print_victims(each)
        if each["cut_short"]:
            note("the plan took too long: this is how far it came")
    todo = {"update" if each["update"] is not None else "submit" for each in plans if each["outcome"] not in DONE}
    how = "; ".join(f"{verb} with: paceline job {verb} FILE" for verb in sorted(todo))
    note(f"nothing was written; {how}" if how else "nothing was written")


def sentence(plan: "JobPlan") -> str:
    """The outcome in a sentence."""
    tasks, outcome = plural(plan["tasks"], "task"), plan["outcome"]
    last_s = max((each["after_s"] for each in plan["hosts"]), default=0)
    when = f"within {last_s:g} s" if last_s else "at once"
    if outcome == REFUSED:
        return f"{plan['message']} ({plan['code']})"
    if outcome == "REPEATED":
        return f"was submitted before: {plan['placed']} of {tasks} {'has' if plan['tasks'] == 1 else 'have'} a host"
    if outcome == "PLACED":
        return f"{tasks} would get a host {when}"
    if plan["update"] is not None:
        update, after = plan["update"], f"{plan['looked_ahead_s']:g} s"
        done, every = update["steps"]["done"], plural(sum(update["steps"].values()), "instance")
        if outcome == "UPDATED":
            waits = f", {plural(plan['waiting'], 'task')} would wait" if plan["waiting"] else ""
            return f"{every} would be updated to version {update['version']} within {after}{waits}"
        return f"{done} of {every} would be updated to version {update['version']}; {update['state']} after {after}"
    return f"{plan['placed']} of {tasks} would get a host {when}, {plan['waiting']} would wait"


def outlook(plan: "JobPlan") -> str:
    """The outcome in a sentence, and what keeps tasks waiting at the end, for a dry run."""
    why = [f"{reason['code']}  {reason['message']}" for reason in plan["later_reasons"]]
    return "\n  ".join([sentence(plan), *why])


def _print_hosts(plan: "JobPlan") -> None:
    hosts = plan["hosts"][:SHOWN_MAX]
    table(
        hosts,
        [
            Column("HOST", lambda each: each["host_id"]),
            Column("TASKS", lambda each: each["tasks"], right=True),
            Column("INSTANCES", lambda each: each["instances"]),
            Column("AFTER", lambda each: f"{each['after_s']:g} s", right=True),
        ],
    )
    _note_more(len(plan["hosts"]) - len(hosts), "host")


def _print_victims(plan: "JobPlan") -> None:
    preempts = plan["preempts"][:SHOWN_MAX]
    say("  it would preempt:")
    table(
        preempts,
        [
            Column("JOB", lambda each: each["job_id"]),
            Column("POOL", lambda each: each["pool"]),
            Column("TASK", lambda each: each["instance"], right=True),
            Column("RUN", lambda each: each["run"], right=True),
            Column("HOST", lambda each: each["host_id"]),
            Column("BY", lambda each: each["way"]),
            Column("AFTER", lambda each: f"{each['after_s']:g} s", right=True),
            Column("SLA", lambda each: "deferred" if each["deferred"] else None),
        ],
    )
    _note_more(len(plan["preempts"]) - len(preempts), "run")


def _note_more(count: int, noun: str) -> None:
    if count > 0:
        note(f"and {plural(count, f'more {noun}')}; -o json lists all")
