"""`paceline job submit`: the jobs of files are checked by the cell together, and submitted in one request."""

import os
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import click

from events.words import plural
from paceline.cli.commands import job_plan
from paceline.cli.commands.common import DECIDED_S, FILES, cell_option, examples, output_option, pool_paths, with_client
from paceline.cli.commands.job_commands import TIMEOUT, check_timeout
from paceline.cli.progress import how_to_follow, wait_and_report
from paceline.client.errors import PacelineError
from paceline.client.models import FAILED, GOALS, KILLED
from paceline.output import answers, note, say

if TYPE_CHECKING:
    from paceline.client.batch_models import BatchedJob
    from paceline.client.client import Client
    from paceline.client.errors import Refused
    from paceline.client.json_type import Json
    from paceline.client.models import Job, JobCheck
    from paceline.client.plan_models import JobPlan
    from paceline.job_files import JobFile

T = TypeVar("T")
SHOWN_MAX = 20
"""The most jobs that have a line each; of more there is a summary."""


class Submit(click.Command):
    """Lets `--wait` stand alone: click would take the file after it for its value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Writes the state that a bare `--wait` means."""
        for option, value in pairwise(args):
            if option == "--wait" and value in GOALS and not os.path.exists(value):
                raise click.UsageError(f"write --wait={value}, with an equals sign", ctx)
        return super().parse_args(ctx, ["--wait=ended" if arg == "--wait" else arg for arg in args])


class NotPlaced(PacelineError):
    """A job was accepted, and didn't run in the time that its submitter would wait."""

    exit_code = 3


@click.command(
    cls=Submit,
    epilog=examples("paceline job submit examples/jobs/", "paceline job submit tiles.yaml --wait --timeout 10m"),
)
@FILES
@click.option(
    "--wait", type=click.Choice(GOALS), metavar="[=STATE]", help="Wait until the jobs have ended, or reached =STATE."
)
@TIMEOUT
@click.option("--dry-run", is_flag=True, help="Write nothing; show what would be written and where jobs would go.")
@output_option
@cell_option
@with_client
def submit(
    client: "Client", files: tuple[str, ...], wait: str | None, timeout: float | None, dry_run: bool, form: str
) -> int:
    """Submit the jobs in files, folders or standard input (-).

    All jobs are checked by the cell before any is submitted: where one is refused, none is. A file may hold many jobs:
    YAML documents, a list, or JSON lines. A job without a `job_id` gets an id derived from its file name; a job with
    one may be submitted again without harm.

    With --dry-run the machines of the cell decide about the jobs on a copy of their state.
    """
    from paceline.client.errors import TimedOut
    from paceline.job_files import read_unchecked_jobs

    check_timeout(wait, timeout)
    jobs = read_unchecked_jobs(files, lambda: pool_paths(client))
    if dry_run:
        return _dry_run(client, jobs, form)
    answered = _submitted(client, jobs)
    submitted, code = _tell(jobs, answered, form)
    if wait is None or code:
        if submitted and form == "table":
            note(f"follow with: {how_to_follow(submitted, {each.body['pool'] for each in jobs})}")
        return code
    try:
        return wait_and_report(client, submitted, wait, timeout)
    except TimedOut as late:
        if wait == "running":
            raise NotPlaced(str(late)) from late
        raise


def _submitted(client: "Client", jobs: "Sequence[JobFile]") -> "Sequence[BatchedJob | Job]":
    """The answers to jobs that are submitted. Raises `Faults` with all that the cell refuses, by line."""

    def ask(bodies: "Sequence[Json]") -> "Sequence[BatchedJob | Job]":
        if len(bodies) == 1:
            return [client.submit_job(bodies[0], DECIDED_S)]
        return client.submit_jobs(bodies, DECIDED_S, all_or_nothing=True)

    return _asked(client, jobs, ask)


def _asked(
    client: "Client", jobs: "Sequence[JobFile]", ask: "Callable[[Sequence[Json]], Sequence[T]]"
) -> "Sequence[T]":
    """The answers to jobs. Raises `Faults` with all that the cell refuses, by line."""
    from paceline.client.errors import Refused

    try:
        return ask([each.body for each in jobs])
    except Refused as error:
        raise _faults(client, jobs, error) from None
    except ValueError:  # what JSON can't say, such as a number that is none
        raise _faults(client, jobs) from None


def _faults(client: "Client", jobs: "Sequence[JobFile]", error: "Refused | None" = None) -> PacelineError:
    """The faults of jobs that a cell has refused, by line: those that can be told without the cell, else its own."""
    from paceline.client.errors import Faults
    from paceline.job_files import check_jobs

    try:
        check_jobs(jobs, lambda: pool_paths(client))
    except Faults as faults:
        return faults
    report = error.errors or [("", f"{error.detail or error.title} ({error.code})")] if error else []
    return Faults([job_plan.fault(jobs, *each) for each in report] or ["a job has a value that JSON can't hold"])


def _tell(jobs: "Sequence[JobFile]", answered: "Sequence[BatchedJob | Job]", form: str) -> tuple[list[str], int]:
    """Shows the answers; returns the ids of the jobs that are there now, and the exit code."""
    _warn(answered)
    present = [each for each in answered if "problem" not in each]
    with answers(form, len(jobs)) as report:
        is_long = form == "table" and len(jobs) > SHOWN_MAX
        if is_long:
            _summarise(jobs, present)
        for each, answer in zip(jobs, answered, strict=True):
            if form in ("json", "yaml") or ("problem" not in answer and not is_long):
                text = _there_before(answer) if answer.get("repeated") else f"submitted to {each.body['pool']}"
                report(answer, each.job_id, f"job {each.job_id} {text}")
    refused: list[Any] = [each for each in answered if "problem" in each]
    for refusal in refused[:SHOWN_MAX]:
        problem = refusal["problem"]
        note(f"paceline: job {refusal['job_id']}: {problem['detail']} ({problem['code']})")
    if len(refused) > SHOWN_MAX:
        note(f"and {plural(len(refused) - SHOWN_MAX, 'more job')} refused; -o json lists all")
    return [each["job_id"] for each in present], int(bool(refused))


def _summarise(jobs: "Sequence[JobFile]", present: "Sequence[BatchedJob | Job]") -> None:
    """Tells of many jobs how many went to each pool, and which were there before and didn't end well."""
    new = {each["job_id"] for each in present if not each.get("repeated")}
    for pool, count in Counter(each.body["pool"] for each in jobs if each.job_id in new).items():
        say(f"{plural(count, 'job')} submitted to {pool}")
    before = [each for each in present if each.get("repeated")]
    if before:
        say(f"{plural(len(before), 'job')} {'was' if len(before) == 1 else 'were'} there before")
    ended = [each for each in before if each.get("state") in (FAILED, KILLED)]
    for each in ended[:SHOWN_MAX]:
        say(f"  job {each['job_id']} {_there_before(each)}")
    if len(ended) > SHOWN_MAX:
        say(f"  and {len(ended) - SHOWN_MAX} more that failed or were killed")


def _there_before(job: "Mapping[str, Any]") -> str:
    """The note about a job that was submitted before; for one that hasn't succeeded also how it runs again."""
    job_id, state = job["job_id"], job.get("state")
    if state not in (FAILED, KILLED):
        return "was there before"
    which = " --failed" if state == FAILED else ""
    return (
        f"was there before and is {state}; `paceline job start {job_id}{which}` runs its tasks again, "
        f"`paceline job delete {job_id}` forgets it"
    )


def _warn(answered: "Iterable[Mapping[str, Any]]") -> None:
    """Notes the warnings that jobs got, each once."""
    by_text: dict[str, list[str]] = {}
    for each in answered:
        for warning in each.get("warnings", ()):
            by_text.setdefault(warning, []).append(each["job_id"])
    for warning, job_ids in by_text.items():
        more = f" and {plural(len(job_ids) - 1, 'more job')}" if len(job_ids) > 1 else ""
        note(f"paceline: job {job_ids[0]}{more}: {warning}")


def _dry_run(client: "Client", jobs: "Sequence[JobFile]", form: str) -> int:
    """Shows what submitting jobs would write and where they would go. Raises `Faults` where the checks or the machines
    of the cell would refuse one.
    """
    from paceline.client.errors import Faults

    def ask(bodies: "Sequence[Json]") -> "Sequence[BatchedJob | Job | JobCheck]":
        return [client.check_job(bodies[0])] if len(bodies) == 1 else client.check_jobs(bodies)

    checked = _asked(client, jobs, ask)
    _warn(checked)
    new = [job.body for job, answer in zip(jobs, checked, strict=True) if not answer.get("repeated")]
    plans = job_plan.planned(client, new)
    refused = [
        job_plan.fault([job], "", f"{plan['message']} ({plan['code']})")
        for job in jobs
        if (plan := plans.get(job.job_id)) is not None and plan["outcome"] == job_plan.REFUSED
    ]
    if refused:
        raise Faults(refused)
    with answers(form, len(jobs)) as report:
        for answer in checked:
            _tell_dry_run(answer, plans.get(answer["job_id"]), report)
    return 0


def _tell_dry_run(checked: "Any", plan: "JobPlan | None", report: "Callable[[Any, str, str], None]") -> None:
    """Tells what submitting a job would do: that it was there before, or what it would write and where it would go."""
    job_id = checked["job_id"]
    if checked.get("repeated"):
        report(checked, job_id, f"job {job_id} {_there_before(checked)}")
        return
    written = "".join(f"\n  {_written(each)}" for each in checked["events"])
    if plan is None:
        report(checked, job_id, f"job {job_id} would be submitted{written}")
    else:
        text = f"job {job_id} would be submitted: {job_plan.outlook(plan)}{written}"
        report({**checked, "plan": plan}, job_id, text)


def _written(event: "Mapping[str, Any]") -> str:
    """A record that a dry run would write, in a line."""
    from events.quantities import write_amounts
    from events.resources import STANDARD, in_order

    resources = write_amounts(in_order(event.get("resources") or {}), STANDARD)
    isolation = event.get("isolation") or {}
    image = "@".join(filter(None, (isolation.get("image"), isolation.get("image_digest"))))
    parts = [
        f"{event.get('kind', 'job')} in {event.get('pool')}" if "pool" in event else "",
        plural(event["instances"], "task") if event.get("instances") else "",
        *(f"{name} {amount}" for name, amount in resources.items() if amount),
        f"priority {event['priority']}" if event.get("priority") else "",
        f"image {image}" if image else "",
        *(f"secret {each['name']} version {each['version']}" for each in event.get("secrets") or ()),
        shlex.join(event.get("command") or ()),
    ]
    return f"writes {event['event']}: {', '.join(filter(None, parts))}".rstrip(": ")
