"""`paceline maintenance`: campaigns over many hosts."""

from typing import TYPE_CHECKING, Any

import click

from events.words import plural
from paceline.cli.commands.common import (
    DECIDED_S,
    at_option,
    cell_option,
    examples,
    list_options,
    output_option,
    with_client,
    zone_option,
)
from paceline.cli.commands.host_maintenance import print_effects
from paceline.cli.commands.job_commands import TIMEOUT, check_timeout
from paceline.cli.commands.maintenance_window import window
from paceline.cli.commands.reasons import reason_for_jobs
from paceline.cli.groups import CommandGroup
from paceline.cli.maintenance_progress import campaign_line, wait_maintained, waits_text, why_text
from paceline.output import Column, TableOptions, facts, note, say, show, table, timed, when

if TYPE_CHECKING:
    from paceline.client.client import Client
    from paceline.client.maintenance import MaintenanceAction
    from paceline.client.maintenance_models import Maintenance

ID = click.argument("maintenance_id", metavar="ID")


@click.group(cls=CommandGroup)
def maintenance() -> None:
    """Maintain many hosts: drain, work on, check and take back some at a time."""


maintenance.add_command(window)


@maintenance.command(
    epilog=examples("paceline maintenance start kernel.yaml --dry-run", "paceline maintenance start kernel.yaml --wait")
)
@click.argument("file", metavar="FILE", type=click.Path(allow_dash=True))
@click.option("--reason", default="", help="Reason, in place of that of the file; recorded in the log.")
@click.option("--dry-run", is_flag=True, help="Tell what would leave, and how; write nothing.")
@click.option("--wait", is_flag=True, help="Wait until it is over, with a line for each change.")
@TIMEOUT
@output_option
@cell_option
@with_client
def start(client: "Client", file: str, reason: str, dry_run: bool, wait: bool, timeout: float | None, form: str) -> int:
    """Start a campaign by a plan file.

    With --wait it exits with 0 when all hosts are done, failed or skipped, with 1 when the campaign was paused or
    aborted, with 124 when --timeout has passed: it goes on then.
    """
    from events.spec.maintenance import MaintenanceSpec
    from paceline.job_files import read_one

    check_timeout(wait, timeout)
    plan = dict(read_one(file, MaintenanceSpec)[1].value)
    effects = client.check_maintenance(plan)
    if dry_run:
        show(form, effects, (each["host_id"] for each in effects["hosts"]), lambda: print_effects(effects))
        return 0
    owners = {each["job_id"]: each["owner"] for each in effects["jobs"]}
    plan["reason"] = reason_for_jobs(client, (), reason or str(plan.get("reason") or ""), owners)
    maintenance_id = plan["maintenance_id"]
    answer = client.start_maintenance(plan, wait=DECIDED_S)

    def told() -> None:
        hosts = len(answer.get("host_ids") or effects["hosts"])
        again = " before" if answer.get("code") == "REPEATED" else ""
        say(
            f"maintenance {maintenance_id} started{again} with {plural(hosts, 'host')}; "
            f"follow with: paceline maintenance status {maintenance_id}"
        )
        for each in answer.get("notes", ()):
            note(each)

    show(form, answer, [maintenance_id], told)
    return wait_maintained(client, maintenance_id, timeout) if wait else 0


@maintenance.command("list", epilog=examples("paceline maintenance list"))
@zone_option
@list_options
@at_option
@cell_option
@with_client
def list_(client: "Client", zone: str, form: str, shape: TableOptions) -> None:
    """List the campaigns, the newest first."""
    rows = list(client.maintenances())

    def step(*names: str) -> Any:
        return lambda each: sum(each["steps"].get(name, 0) for name in names)

    columns = [
        Column("MAINTENANCE", lambda each: each["maintenance_id"]),
        Column("STATE", lambda each: each["state"]),
        Column("HOSTS", lambda each: each["hosts"], right=True),
        Column("DONE", step("DONE"), right=True),
        Column("AT WORK", step("DRAIN", "WORK", "CHECK"), right=True),
        Column("FAILED", step("FAILED"), right=True),
        Column("SKIPPED", step("SKIPPED"), right=True),
        Column("STARTED", lambda each: when(each["started_at"], zone)),
        Column("REASON", lambda each: each["reason"] or "-"),
    ]
    names = (each["maintenance_id"] for each in rows)
    show(form, {"maintenances": rows}, names, lambda: table(rows, columns, shape))


@maintenance.command(epilog=examples("paceline maintenance status kernel-6-12"))
@ID
@zone_option
@output_option
@at_option
@cell_option
@with_client
def status(client: "Client", maintenance_id: str, zone: str, form: str) -> None:
    """Show how far a campaign is, the hosts that it is at work on, and what holds it up."""
    body = client.maintenance(maintenance_id)
    show(form, body, [maintenance_id], lambda: _print(body, zone))


def _print(body: "Maintenance", zone: str) -> None:
    say(campaign_line(body))
    pairs: list[tuple[str, object]] = [
        ("why", f"{timed(body['message'], zone)} ({body['code']})" if body["message"] else body["code"]),
        ("reason", body["reason"] or "none"),
        ("by", body["actor"]["name"] if body["actor"] else "not said"),
        ("started", when(body["started_at"], zone)),
        ("ended", when(body["ended_at"], zone)),
    ]
    if body.get("bound"):
        pairs.append(("bound", body.get("bound")))
    if body.get("estimated_at"):
        pairs.append(("estimated end", timed(str(body.get("estimated_at")), zone)))
    facts(pairs)
    if body.get("at_work"):
        say()
        table(
            body["at_work"],
            [
                Column("HOST", lambda each: each["host_id"]),
                Column("STEP", lambda each: each["step"]),
                Column("STAGE", lambda each: each["stage"]),
                Column("STATE", lambda each: each["state"]),
                Column("SINCE", lambda each: when(each["since"], zone)),
                Column("RUNS", lambda each: each["runs_left"], right=True),
                Column("WAITS", lambda each: waits_text(each, body) or "-"),
            ],
        )
    if body.get("not_done"):
        say()
        table(
            body["not_done"],
            [
                Column("HOST", lambda each: each["host_id"]),
                Column("STEP", lambda each: each["step"]),
                Column("SINCE", lambda each: when(each["since"], zone)),
                Column("WHY", why_text),
            ],
        )


def _action(name: str, action: "MaintenanceAction", help_: str, done: str) -> None:
    @maintenance.command(name, help=help_, epilog=examples(f"paceline maintenance {name} kernel-6-12"))
    @ID
    @click.option("--reason", default="", help="Reason, recorded in the log.")
    @output_option
    @cell_option
    @with_client
    def command(client: "Client", maintenance_id: str, reason: str, form: str) -> None:
        answer = client.act_on_maintenance(maintenance_id, action, reason, wait=DECIDED_S)
        show(form, answer, [maintenance_id], lambda: say(f"maintenance {maintenance_id} {done}"))


_action("pause", "pauses", "Start no more hosts.\n\nThose that it has begun with go on.", "starts no more hosts")
_action("resume", "resumptions", "Let a paused campaign go on.\n\nFailures until now are forgiven.", "goes on")
_action(
    "abort",
    "aborts",
    "End a campaign.\n\nHosts that drain are taken back, the other hosts are skipped. Work and checks in progress are "
    "finished first.",
    "is aborted: hosts that drain are taken back",
)
