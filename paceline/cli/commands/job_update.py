"""Commands of `paceline job` about versions and updates."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from events.bounds import INSTANCES_MAX, INT_MAX
from events.words import plural
from paceline.cli.commands.chosen_jobs import chosen_jobs
from paceline.cli.commands.common import (
    DECIDED_S,
    Duration,
    at_option,
    cell_option,
    complete_file_or,
    examples,
    list_options,
    output_option,
    pool_paths,
    with_client,
    zone_option,
)
from paceline.cli.commands.job_commands import (
    ID,
    INSTANCES,
    TIMEOUT,
    act_on_each,
    action,
    check_timeout,
    extra_options,
    told,
)
from paceline.cli.commands.job_plan import outlook, planned
from paceline.cli.commands.job_views import print_changes, print_update, print_updates, print_versions
from paceline.client.json_type import Json
from paceline.output import TableOptions, answers, note, say, show

if TYPE_CHECKING:
    from paceline.client.client import Client
    from paceline.client.models import JobAnswer, Said

COUNT = click.IntRange(0, INSTANCES_MAX)
WAIT = click.option("--wait", "waits", is_flag=True, help="Wait until the update has ended, and show its progress.")


@click.command(
    epilog=examples(
        "paceline job update web.yaml --batch 2 --max-failures 1 --roll-back --wait",
        "paceline job update web.yaml --dry-run",
        "paceline job update web --instances 5",
    )
)
@click.argument("name", metavar="FILE|ID", shell_complete=complete_file_or("job"))
@click.option("--instances", type=click.IntRange(1, INSTANCES_MAX), metavar="N", help="Number of instances.")
@click.option("--batch", type=COUNT, metavar="N", help="Instances updated at a time; 0: all.")
@click.option("--max-failures", type=COUNT, metavar="N", help="Fail when N instances have failed; 0: never.")
@click.option("--roll-back/--no-roll-back", default=None, help="Go back to the version before if the update fails.")
@click.option("--canary", type=COUNT, metavar="N", help="Update N instances first, then wait for `job promote`.")
@click.option(
    "--progress-deadline",
    type=Duration(),
    metavar="TIME",
    help="Count an instance as failed when it finds no host for this long, such as 10m; 0: never.",
)
@click.option(
    "--prefetch/--no-prefetch", default=None, help="Have the hosts pull the new image before the first instance."
)
@click.option("--start-paused", is_flag=True, default=None, help="Wait for `job resume` before the first instance.")
@extra_options
@click.option("--dry-run", is_flag=True, help="Only validate, and show what would change, and what would become of it.")
@WAIT
@TIMEOUT
@output_option
@cell_option
@with_client
def update(
    client: "Client",
    name: str,
    instances: int | None,
    batch: int | None,
    max_failures: int | None,
    roll_back: bool | None,
    canary: int | None,
    progress_deadline: float | None,
    prefetch: bool | None,
    start_paused: bool | None,
    extras: "Said",
    dry_run: bool,
    waits: bool,
    timeout: float | None,
    form: str,
) -> int:
    """Update jobs to a new specification, a batch of instances at a time.

    FILE holds jobs as for `job submit`, whole, each with its `job_id`. With the ID of a job, its present specification
    is taken, changed by the options. Options override `update` in the file.
    """
    check_timeout(waits, timeout)
    policy = {
        "batch": batch,
        "max_failures": max_failures,
        "roll_back": roll_back,
        "canary": canary,
        "progress_deadline": None if progress_deadline is None else f"{round(progress_deadline * 1000)}ms",
        "prefetch": prefetch,
        "start_paused": start_paused,
    }
    specs = _specs(client, name)
    for spec in specs.values():
        if instances is not None:
            spec["instances"] = instances
        if changes := {field: value for field, value in policy.items() if value is not None}:
            spec["update"] = {**(spec.get("update") or {}), **changes}
    if dry_run:
        checks = {job_id: client.check_update(job_id, spec) for job_id, spec in specs.items()}
        changed = [{**specs[job_id], "job_id": job_id} for job_id, checked in checks.items() if checked["changes"]]
        plans = planned(client, changed)
        with answers(form, len(specs)) as report:
            for job_id, checked in checks.items():
                count = len(checked["changes"]) + checked["more"]
                text = f"{plural(count, 'field')} would change" if count else "nothing would change"
                counts = ", ".join(f"{many} {name}" for name, many in (checked["instances"] or {}).items() if many)
                text += f"; instances: {counts}" if counts else ""
                plan = plans.get(job_id)
                text += f"; {outlook(plan)}" if plan else ""
                report({**checked, "plan": plan} if plan else checked, job_id, f"job {job_id}: {text}")
                if form == "table":
                    for warning in checked.get("warnings", ()):
                        note(f"warning: {warning['message']} ({warning['code']})")
                    print_changes(checked["changes"], TableOptions())
        return 0
    answer_by_id, code = act_on_each(
        specs, form, "is being updated", lambda each: client.update_job(each, specs[each], DECIDED_S, **extras)
    )
    begun = {job_id: number for each, answer in answer_by_id.items() for job_id, number in _begun(each, answer).items()}
    followed = _followed(client, begun, waits, timeout, form)
    return code or followed


def _specs(client: "Client", name: str) -> dict[str, Json]:
    """The specifications in a file, or the present one of a job, by id."""
    from paceline.client.errors import Faults
    from paceline.job_files import STDIN, SUFFIXES, read_jobs

    if name != STDIN and Path(name).suffix not in SUFFIXES and not Path(name).exists():
        spec = dict(client.job(name, overrides=True)["spec"])
        if policy := spec.get("update"):
            spec["update"] = {**policy, "start_paused": False}  # that was said of one update
        return {name: spec}
    jobs = read_jobs([name], lambda: pool_paths(client))
    unnamed = [each.document for each in jobs if "job_id" not in each.document.value]
    if unnamed:
        raise Faults([str(each.fault("/job_id", "is missing; it says which job is updated")) for each in unnamed])
    return {each.job_id: each.body for each in jobs}


def _begun(job_id: str, answer: "JobAnswer") -> dict[str, int]:
    """The update that a command began."""
    begun = answer.get("update")
    return {job_id: begun["number"]} if begun is not None else {}


def _answered(
    client: "Client", job_id: str, answer: "JobAnswer", what: str, waits: bool, timeout: float | None, form: str
) -> int:
    """Shows the answer to a command that begins an update, and follows that."""
    show(form, answer, [job_id], lambda: say(told(job_id, answer, what)))
    return _followed(client, _begun(job_id, answer), waits, timeout, form)


def _followed(client: "Client", begun: dict[str, int], waits: bool, timeout: float | None, form: str) -> int:
    """Waits for updates, or says how to follow them."""
    from paceline.cli.update_progress import wait_for_updates

    if waits and begun:
        return wait_for_updates(client, begun, timeout)
    if begun and form == "table":
        note(f"follow with: paceline job updates {next(iter(begun))}")
    return 0


@click.command(epilog=examples('paceline job rollback web --reason "slow"', "paceline job rollback web --to 3 --wait"))
@ID
@click.option(
    "--to", "version", type=click.IntRange(1, INT_MAX), help="Version. [default: the last that an update completed]"
)
@extra_options
@WAIT
@TIMEOUT
@output_option
@cell_option
@with_client
def rollback(
    client: "Client", job_id: str, version: int | None, extras: "Said", waits: bool, timeout: float | None, form: str
) -> int:
    """Go back to an earlier version of a job: an update to a new version that is equal to it."""
    check_timeout(waits, timeout)
    answer = client.roll_back_job(job_id, version or 0, DECIDED_S, **extras)
    return _answered(client, job_id, answer, "is being rolled back", waits, timeout, form)


@click.command(epilog=examples("paceline job restart web --batch 2 --wait", "paceline job restart web --instances 3"))
@INSTANCES
@click.option("--batch", type=click.IntRange(1, INSTANCES_MAX), metavar="N", help="Instances at a time. [default: all]")
@extra_options
@WAIT
@TIMEOUT
@output_option
@cell_option
@with_client
@chosen_jobs("restart")
def restart(
    client: "Client",
    ids: tuple[str, ...],
    instances: str | None,
    batch: int | None,
    extras: "Said",
    waits: bool,
    timeout: float | None,
    form: str,
) -> int:
    """Restart instances of a service: an update to an equal version, within its SLA."""
    check_timeout(waits, timeout)
    answer_by_id, code = act_on_each(
        ids,
        form,
        "is being restarted",
        lambda each: client.restart_job(each, DECIDED_S, instances, batch or 0, **extras),
    )
    begun = {job_id: number for each, answer in answer_by_id.items() for job_id, number in _begun(each, answer).items()}
    return _followed(client, begun, waits, timeout, form) or code


pause = action(
    "pause",
    "pauses",
    "Pause a rolling update: no further instance is updated.",
    "has its update paused",
    'paceline job pause web --reason "errors in the log"',
)
resume = action(
    "resume", "resumes", "Resume a paused rolling update.", "has its update going on", "paceline job resume web"
)
abort = action(
    "abort",
    "aborts",
    "End a rolling update: updated instances stay updated, the others stay as they are.",
    "has its update aborted",
    "paceline job abort web",
)
promote = action(
    "promote",
    "promotions",
    "Let the update of jobs go on from its canary to all instances.",
    "has its update promoted",
    "paceline job promote web",
)


@click.command(epilog=examples("paceline job versions web", "paceline job versions web -o json"))
@ID
@zone_option
@list_options
@at_option
@cell_option
@with_client
def versions(client: "Client", job_id: str, zone: str, form: str, shape: TableOptions) -> None:
    """List the versions of a job: when and why each was made."""
    rows = client.versions(job_id)
    names = (str(each["version"]) for each in rows)
    show(form, {"versions": rows}, names, lambda: print_versions(rows, zone, shape))


@click.command(epilog=examples("paceline job diff web", "paceline job diff web --from 1 --to 3"))
@ID
@click.option("--from", "before", type=click.IntRange(1, INT_MAX), help="Version. [default: the one before --to]")
@click.option("--to", "after", type=click.IntRange(1, INT_MAX), help="Version. [default: the newest]")
@list_options
@at_option
@cell_option
@with_client
def diff(client: "Client", job_id: str, before: int | None, after: int | None, form: str, shape: TableOptions) -> int:
    """Compare two versions of a job. Exits with 3 where they differ."""
    if "/" in job_id or Path(job_id).is_file():
        raise click.UsageError(f"{job_id} is no id of a job. What a file would change: paceline job plan FILE")
    body = client.diff(job_id, before, after)
    changes = body["changes"]
    show(form, body, (each["pointer"] for each in changes), lambda: print_changes(changes, shape))
    more = f"; {plural(body['more'], 'field')} more differ" if body["more"] else ""
    note(f"from version {body['from']} to {body['to']}{more}")
    return 3 if changes else 0


@click.command(epilog=examples("paceline job updates web", "paceline job updates web --number 2"))
@ID
@click.option("--number", type=click.IntRange(1, INT_MAX), metavar="N", help="Show this update, step by step.")
@zone_option
@list_options
@at_option
@cell_option
@with_client
def updates(client: "Client", job_id: str, number: int | None, zone: str, form: str, shape: TableOptions) -> None:
    """List the updates of a job, or show one: what happened to which instances, and when."""
    if number is None:
        rows = client.updates(job_id)
        names = (str(each["number"]) for each in rows)
        show(form, {"updates": rows}, names, lambda: print_updates(rows, zone, shape))
        return
    body, steps = client.update(job_id, number), list(client.update_steps(job_id, number))
    show(form, {**body, "events": steps}, [str(number)], lambda: print_update(body, steps, zone, shape))
