"""`paceline job`: submit and follow jobs. What acts on them is in `job_commands.py`, updates in `job_update.py`."""

from typing import TYPE_CHECKING, Any

import click

from events.bounds import INSTANCES_MAX
from paceline.cli.commands import (
    job_commands,
    job_exec,
    job_output,
    job_placement,
    job_plan,
    job_prefetch,
    job_spec,
    job_submit,
    job_update,
    top,
    watch,
)
from paceline.cli.commands.common import (
    FILES,
    Paging,
    Since,
    actor_option,
    at_option,
    cell_column,
    cell_option,
    complete,
    examples,
    list_options,
    note_rest,
    output_option,
    paging_options,
    with_client,
    zone_option,
)
from paceline.cli.commands.job_commands import ID, IDS, TIMEOUT
from paceline.cli.commands.job_explain import explain
from paceline.cli.commands.job_views import print_history, print_job, print_runs, print_tasks, print_throttled
from paceline.cli.filter_types import Pair, States
from paceline.cli.groups import CommandGroup
from paceline.cli.progress import wait_and_report
from paceline.client.models import GOALS
from paceline.output import Column, TableOptions, say, show, table, when, words

JOBS_SHOWN = 100
"""Jobs that a list has, unless it is asked for others."""
_COLUMNS_ON_REQUEST = (
    Column("OWNER", lambda each: each["owner"], on_request=True),
    Column("LABELS", lambda each: words(each["labels"]), on_request=True),
    Column("PRIORITY", lambda each: each["priority"], right=True, on_request=True),
    Column("VERSION", lambda each: each["version"], right=True, on_request=True),
)

if TYPE_CHECKING:
    from paceline.client.client import Client


@click.group(cls=CommandGroup)
def job() -> None:
    """Submit, follow, explain, update, change and stop jobs."""


for _command in (
    job_submit.submit,
    explain,
    job_plan.plan,
    job_placement.placement,
    job_spec.spec,
    top.job_top,
    watch.job_watch,
    *(job_update.update, job_update.rollback, job_update.versions, job_update.diff, job_update.updates),
    *(job_update.pause, job_update.resume, job_update.abort, job_update.promote),
    *(job_output.logs, job_output.attach, job_exec.exec_, job_exec.cp, job_exec.port_forward),
    *(job_commands.stop, job_commands.start, job_update.restart, job_commands.priority),
    job_prefetch.prefetch,
    *(job_commands.hold, job_commands.release, job_commands.delete),
):
    job.add_command(_command)


@job.command(epilog=examples("paceline job wait tiles-1f0c", "paceline job wait web --for running --timeout 30s"))
@IDS
@click.option("--for", "goal", type=click.Choice(GOALS), default="ended", show_default=True, help="State to wait for.")
@TIMEOUT
@cell_option
@output_option
@with_client
def wait(client: "Client", ids: tuple[str, ...], goal: str, timeout: float | None, form: str) -> int:
    """Wait for jobs.

    Exits with 0 when all have reached the state. Otherwise with 1 when one has failed, with 8 when one has run for as
    long as it may (max_runtime), with 7 when one was stopped; with 124 when --timeout has passed.
    """
    return wait_and_report(client, ids, goal, timeout, form)


@job.command(
    "list",
    epilog=examples(
        "paceline job list --state RUNNING --pool /maps",
        "paceline job list --owner ann --since 24h -o name",
        "paceline job list --order wait",
    ),
)
@click.option(
    "--state", type=States("job"), metavar="STATES", help="Only jobs in these states, such as PENDING,RUNNING."
)
@click.option("--pool", help="Only jobs of this pool and of those below it.", shell_complete=complete("pool"))
@click.option("--owner", "owners", multiple=True, help="Only jobs of this owner; repeatable, any of them.")
@click.option(
    "--label", "labels", multiple=True, type=Pair(), metavar="KEY:VALUE", help="Only jobs with this label; repeatable."
)
@click.option("--actor", metavar="SUBJECT", help="Only jobs that this user submitted.")
@click.option("--text", help="Only jobs with this in their id or their command.")
@click.option("--since", type=Since(), help="Only jobs submitted since then: 24h ago, or 2026-08-21T10:44:07Z.")
@click.option("--order", type=click.Choice(("newest", "wait")), help="wait: only jobs that wait, the longest first.")
@paging_options("jobs", str(JOBS_SHOWN))
@zone_option
@list_options
@at_option
@cell_option
@with_client
def list_(
    client: "Client",
    state: str | None,
    pool: str | None,
    owners: tuple[str, ...],
    labels: tuple[str, ...],
    actor: str | None,
    text: str | None,
    since: str | None,
    order: str | None,
    paging: Paging,
    zone: str,
    form: str,
    shape: TableOptions,
) -> None:
    """List jobs, the newest first."""
    more: Any = {"owners": owners, "actor": actor, "text": text, "since": since, "order": order}
    body = paging.collected(lambda *page: client.jobs_page(state, pool, labels, *page, **more), "jobs", JOBS_SHOWN)
    jobs = body["jobs"]
    columns = [
        Column("JOB", lambda each: each["job_id"]),
        Column("STATE", lambda each: each["state"]),
        Column("REASON", lambda each: each["reason"] and each["reason"]["code"]),
        Column("POOL", lambda each: each["pool"]),
        Column("KIND", lambda each: each["kind"]),
        Column("TASKS", lambda each: each["instances"], right=True),
        Column("RUNNING", lambda each: each["tasks"]["running"], right=True),
        Column("FAILED", lambda each: each["tasks"]["failed"], right=True),
        Column("SUBMITTED", lambda each: when(each["submitted_at"], zone), order=lambda each: each["submitted_at"]),
        *_COLUMNS_ON_REQUEST,
        Column("ENDED", lambda each: when(each["ended_at"], zone), False, lambda each: each["ended_at"] or "", True),
        *cell_column(jobs),
    ]
    show(form, body, (each["job_id"] for each in jobs), lambda: table(jobs, columns, shape))
    note_rest(body)


@job.command(epilog=examples("paceline job get tiles-1f0c", "paceline job get tiles-1f0c -o json"))
@ID
@zone_option
@output_option
@at_option
@cell_option
@with_client
def get(client: "Client", job_id: str, zone: str, form: str) -> None:
    """Show a job."""
    body = client.job(job_id)
    show(form, body, [job_id], lambda: print_job(body, zone))


@job.command(epilog=examples("paceline job tasks tiles-1f0c", "paceline job tasks tiles-1f0c --state FAILED"))
@ID
@click.option(
    "--state", type=States("task"), metavar="STATES", help="Only tasks in these states, such as QUEUED,BACKOFF."
)
@click.option("--host", help="Only tasks on this host, or that were there last.", shell_complete=complete("host"))
@click.option("--instances", metavar="RANGES", help="Only these instances, such as 0-99,200.")
@paging_options("tasks", "all")
@list_options
@at_option
@cell_option
@with_client
def tasks(
    client: "Client",
    job_id: str,
    state: str | None,
    host: str | None,
    instances: str | None,
    paging: Paging,
    form: str,
    shape: TableOptions,
) -> None:
    """List the tasks of a job: the host of each, its state and its outcome."""
    body = paging.collected(lambda *page: client.tasks_page(job_id, state, host, instances, *page), "tasks", None)
    rows = body["tasks"]
    show(form, body, (f"{job_id}/{each['instance']}" for each in rows), lambda: print_tasks(rows, shape))
    note_rest(body)


@job.command(epilog=examples("paceline job runs web-1f0c 0", "paceline job runs web-1f0c 0 --sort=-run -o json"))
@ID
@click.argument("instance", type=click.IntRange(0, INSTANCES_MAX - 1))
@zone_option
@list_options
@at_option
@cell_option
@with_client
def runs(client: "Client", job_id: str, instance: int, zone: str, form: str, shape: TableOptions) -> None:
    """List the runs of a task, the newest first: host, exit, resources used and times of each."""
    rows = client.runs(job_id, instance)
    names = (f"{job_id}/{instance}/{each['run']}" for each in rows)
    show(form, {"runs": rows}, names, lambda: print_runs(rows, zone, shape))


@job.command(epilog=examples("paceline job throttled", "paceline job throttled --sort=-failures"))
@zone_option
@list_options
@at_option
@cell_option
@with_client
def throttled(client: "Client", zone: str, form: str, shape: TableOptions) -> None:
    """List the tasks of all jobs that wait before they are run again, and until when."""
    rows = list(client.throttled())
    body = {"tasks": rows, "next_page_token": ""}
    names = (f"{each['job_id']}/{each['instance']}" for each in rows)
    show(form, body, names, lambda: print_throttled(rows, zone, shape))


@job.command(
    epilog=examples(
        "paceline job history tiles-1f0c --utc",
        "paceline job history tiles-1f0c --actor ann",
        "paceline job history tiles-1f0c -o json",
    )
)
@ID
@actor_option
@zone_option
@list_options
@at_option
@cell_option
@with_client
def history(client: "Client", job_id: str, actor: str | None, zone: str, form: str, shape: TableOptions) -> None:
    """Show what happened to a job: each fact, and each decision with its round."""
    rows = list(client.history(job_id, actor))
    body = {"events": rows, "next_page_token": ""}
    show(form, body, (each["position"] for each in rows), lambda: print_history(rows, zone, shape))


@job.command(epilog=examples("paceline job schema > job.schema.json"))
def schema() -> None:
    """Print the JSON Schema of job files, for editors."""
    from events.spec.job import json_schema

    show("json", json_schema())


@job.command(epilog=examples("paceline job validate examples/jobs/", "cat job.yaml | paceline job validate -"))
@FILES
def validate(files: tuple[str, ...]) -> None:
    """Check job files without submitting anything; no cell is needed."""
    from paceline.job_files import read_jobs

    count = len(read_jobs(files))
    say(f"{count} {'job is' if count == 1 else 'jobs are'} well formed")
