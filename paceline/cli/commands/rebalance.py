"""`paceline rebalance`: make room for a waiting job, or empty hosts, by moves of other work."""

import time
from itertools import islice
from typing import TYPE_CHECKING

import click

from events.bounds import INT_MAX
from events.words import plural
from paceline.cli.commands.common import DECIDED_S, Duration, cell_option, examples, output_option, with_client
from paceline.cli.commands.reasons import reason_option
from paceline.cli.groups import CommandGroup
from paceline.client.errors import PacelineError, Refused
from paceline.output import DEFAULT_TABLE, Column, note, say, show, table

if TYPE_CHECKING:
    from paceline.client.client import Client
    from paceline.client.maintenance_models import DrainEffects
    from paceline.client.plan_models import RebalancePlan

COLUMNS = [
    Column("JOB", lambda each: each["job_id"]),
    Column("TASK", lambda each: each["instance"], right=True),
    Column("RUN", lambda each: each["run"], right=True),
    Column("FROM", lambda each: each["from_host"]),
    Column("TO", lambda each: each["to_host"] or "it would wait"),
]
OF_HOSTS = [
    Column("HOST", lambda each: each["host_id"]),
    Column("RUNS", lambda each: each["runs"], right=True),
]
OF_JOBS = [
    Column("JOB", lambda each: each["job_id"]),
    Column("RUNS", lambda each: each["runs"], right=True),
    Column("LEAVES", lambda each: each["leaves"]),
]
MOVABLE = ("at_once", "asked", "replaced", "moved")
"""The ways of runs that leave a host without an end of their own and without force."""
TRIES_MAX = 40
"""So many hosts are planned for in search of some that can be emptied."""
JOBS_A_TURN = 20
"""So many jobs, those that wait longest, are planned for in a turn of `watch`."""

JOB = click.option("--for", "job_id", metavar="JOB", help="The job that waits.")
EMPTY = click.option("--empty", type=click.IntRange(1, INT_MAX), metavar="N", help="Empty so many whole hosts instead.")
MOST = click.option("--max-moves", type=click.IntRange(1, INT_MAX), metavar="M", help="Move so many tasks at most.")


@click.group(cls=CommandGroup)
def rebalance() -> None:
    """Make room for a waiting job, or empty hosts, by moves of other work.

    For a job preemptible tasks are moved that have a place elsewhere at once, as few as do, by the rules of preemption,
    without the wait of `move_after`. Nobody leaves in another way.
    """


@rebalance.command(
    epilog=examples("paceline rebalance plan --for train", "paceline rebalance plan --empty 2 --max-moves 8")
)
@JOB
@EMPTY
@MOST
@output_option
@cell_option
@with_client
def plan(client: "Client", job_id: str | None, empty: int | None, max_moves: int | None, form: str) -> int:
    """Tell which tasks would be moved now, and where to; nothing changes."""
    if _job_of(job_id, empty) is None:
        assert empty is not None
        host_ids, effects = _emptied(client, empty, max_moves)
        show(form, effects or {"hosts": [], "jobs": []}, host_ids, lambda: _print_hosts(host_ids, effects, empty))
        return int(len(host_ids) < empty)
    assert job_id is not None
    answer = client.check_rebalance(job_id, max_moves or 0)
    names = (f"{each['job_id']}/{each['instance']}" for each in answer["moves"])
    show(form, answer, names, lambda: _print(answer))
    return int(not answer["moves"])


@rebalance.command(
    epilog=examples("paceline rebalance apply --for train --max-moves 2", "paceline rebalance apply --empty 2")
)
@JOB
@EMPTY
@MOST
@reason_option
@output_option
@cell_option
@with_client
def apply(
    client: "Client", job_id: str | None, empty: int | None, max_moves: int | None, reason: str, form: str
) -> int:
    """Have tasks moved at once.

    For a job placement plans moves for a minute, and judges each as it orders it: it may be otherwise than a plan said
    that is old, but never beyond --max-moves. Hosts are emptied as by `host drain --batch move`, services by their
    SLAs, and stay aside until `paceline host resume`.
    """
    if _job_of(job_id, empty) is None:
        assert empty is not None
        host_ids, _ = _emptied(client, empty, max_moves)
        if len(host_ids) < empty:
            note(f"nothing was done: {_too_few(host_ids, empty)}")
            return 1
        done = client.drain_hosts(host_ids, batch="move", reason=reason or "emptied by a rebalance", wait=DECIDED_S)
        show(
            form, done, host_ids, lambda: say(f"{', '.join(host_ids)}: emptied; `paceline host resume` gives them back")
        )
        return 0
    assert job_id is not None
    answer = client.rebalance(job_id, reason, max_moves or 0, wait=DECIDED_S)
    show(form, answer, [answer["command_id"]], lambda: say(answer.get("message") or f"room is made for job {job_id}"))
    return int(answer["code"] == "DONE" and bool(answer.get("message")))  # else it had been asked before


@rebalance.command(epilog=examples("paceline rebalance watch", "paceline rebalance watch --every 5m"))
@click.option("--every", type=Duration(), default="1m", show_default=True, metavar="TIME", help="Time between turns.")
@click.option("--once", is_flag=True, help="End after one turn.")
@cell_option
@with_client
def watch(client: "Client", every: float, once: bool) -> int:
    """Have tasks moved for jobs that wait, as far as the cell lets that be done without being asked.

    The setting rebalance_moves_per_hour bounds how many tasks are moved in an hour; without it none is. Each turn plans
    for the jobs that wait longest, and asks for the moves of the first that has some.
    """
    while True:
        if not client.cell_settings()["rebalance_moves_per_hour"]:
            raise PacelineError("Nothing may be moved: set it with `paceline cell set rebalance_moves_per_hour=N`.")
        for job in islice(client.jobs(order="wait"), JOBS_A_TURN):
            answer = client.check_rebalance(job["job_id"], by_setting=True)
            if answer["moves"]:
                count = len(answer["moves"])
                try:
                    client.rebalance(job["job_id"], "it waits", count, by_setting=True, wait=DECIDED_S)
                except Refused as refusal:
                    note(str(refusal))
                else:
                    say(f"{job['job_id']}: {plural(count, 'task')} moved, room on {', '.join(answer['host_ids'])}")
                break
        if once:
            return 0
        time.sleep(every)


def _job_of(job_id: str | None, empty: int | None) -> str | None:
    """The job for which room is made; None: hosts are emptied."""
    if (job_id is None) is (empty is None):
        raise click.UsageError("say for whom: --for JOB, or --empty N for whole hosts")
    return job_id


def _emptied(client: "Client", count: int, most: int | None) -> "tuple[list[str], DrainEffects | None]":
    """Hosts that can be emptied together, those with the fewest runs first, and the effects of that."""
    hosts = [each for each in client.hosts(state="UP") if each["runs"] and each["maintenance"] is None]
    hosts.sort(key=lambda host: host["runs"])
    host_ids: list[str] = []
    effects: DrainEffects | None = None
    for host in hosts[:TRIES_MAX]:
        if len(host_ids) == count:
            break
        tried = client.check_drain([*host_ids, host["host_id"]], plan=True, batch="move")
        moves = sum(each["runs"] for each in tried["jobs"])
        if _is_movable(tried) and (most is None or moves <= most):
            host_ids.append(host["host_id"])
            effects = tried
    return host_ids, effects


def _is_movable(effects: "DrainEffects") -> bool:
    """Whether all that runs on some hosts leaves by itself and finds a place elsewhere."""
    answer = effects.get("plan")
    if answer is None or answer["refused"] or answer["unplaced"] or answer["cut_short"]:
        return False
    return all(each["leaves"] in MOVABLE for each in effects["jobs"])


def _too_few(host_ids: list[str], count: int) -> str:
    only = f"only {', '.join(host_ids)} can be emptied" if host_ids else "no host can be emptied"
    return f"{only}, not {count}: the others have work that can't be moved, or there is no room for it elsewhere"


def _print_hosts(host_ids: list[str], effects: "DrainEffects | None", count: int) -> None:
    if effects is not None:
        table(effects["hosts"], OF_HOSTS, DEFAULT_TABLE)
        say()
        table(effects["jobs"], OF_JOBS, DEFAULT_TABLE)
    note(f"{', '.join(host_ids)} would be emptied" if len(host_ids) == count else _too_few(host_ids, count))


def _print(answer: "RebalancePlan") -> None:
    if answer["refused"]:
        say(f"it would be refused: {answer['message']} ({answer['code']})")
    elif not answer["moves"]:
        say(answer["message"] or "no moves make room for it now")
    else:
        table(answer["moves"], COLUMNS, DEFAULT_TABLE)
        note(f"room is made on {', '.join(answer['host_ids'])}")
