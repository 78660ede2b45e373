"""Jobs that a command acts on: those that it names, or those that a filter matches, once somebody has said yes."""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from events.words import listed, plural
from paceline.cli.commands.common import complete
from paceline.cli.commands.reasons import reason_for_jobs
from paceline.cli.filter_types import Pair, States
from paceline.output import note

if TYPE_CHECKING:
    from paceline.client.client import Client

UNENDED = "SUBMITTED,PENDING,RUNNING"
"""The states that a filter looks at unless it names others."""
_IDS = click.argument("ids", nargs=-1, metavar="[ID...]", shell_complete=complete("job"))


def chosen_jobs(verb: str, affects_others: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds `[ID...]` and the options that choose jobs instead; the command gets the ids as `ids`. `verb`: what it does
    to them, for the question. `affects_others`: it needs a reason where a job belongs to somebody else.
    """

    def with_choice(function: Callable[..., Any]) -> Callable[..., Any]:
        @_IDS
        @click.option("--pool", help="Instead of IDs: the jobs of this pool and of those below it.")
        @click.option("--owner", "owners", multiple=True, help="The jobs of this owner; repeatable, any of them.")
        @click.option(
            "--label",
            "labels",
            multiple=True,
            type=Pair(),
            metavar="KEY:VALUE",
            help="The jobs with this label; repeatable, all.",
        )
        @click.option(
            "--state",
            type=States("job"),
            metavar="STATES",
            help="The jobs in these states. [default: those that haven't ended]",
        )
        @click.option("--yes", is_flag=True, help="Don't ask before acting on the jobs that a filter matches.")
        @wraps(function)
        def command(
            client: "Client",
            *args: Any,
            ids: tuple[str, ...],
            pool: str | None,
            owners: tuple[str, ...],
            labels: tuple[str, ...],
            state: str | None,
            yes: bool,
            **more: Any,
        ) -> Any:
            filters = bool(pool or owners or labels or state)
            if filters and ids:
                raise click.UsageError("give either IDs or filters, not both")
            if not filters and not ids:
                raise click.UsageError("name jobs, or choose them by --pool, --owner, --label and --state")
            owner_by_id = None
            if filters:
                matching = list(client.jobs(state or UNENDED, pool, labels, owners=owners))
                owner_by_id = {job["job_id"]: job["owner"] for job in matching}
                missing = "--yes"
                if affects_others and not more["extras"]["reason"].strip() and _others(client, owner_by_id):
                    missing = "--yes and --reason"
                ids = _confirmed([*owner_by_id], verb, yes, bool(state), missing)
                if not ids:
                    return 0
            if affects_others:
                more["extras"]["reason"] = reason_for_jobs(client, ids, more["extras"]["reason"], owner_by_id)
            return function(client, *args, ids=ids, **more)

        return command

    return with_choice


def _others(client: "Client", owner_by_id: Mapping[str, str]) -> bool:
    return any(owner not in ("", client.user.subject) for owner in owner_by_id.values())


def _confirmed(ids: Sequence[str], verb: str, yes: bool, has_state: bool, missing: str) -> tuple[str, ...]:
    """The jobs that a filter matches, once that is confirmed. Raises `UsageError` with what is `missing` where nobody
    can be asked.
    """
    match = "matches" if len(ids) == 1 else "match"
    if not ids:
        note("no job matches" if has_state else "no unfinished job matches; use --state to include ended jobs")
    elif not yes and not sys.stdin.isatty():
        raise click.UsageError(f"{plural(len(ids), 'job')} {match}: to {verb}, add {missing}")
    elif not yes:
        names = listed(ids, 3)
        click.confirm(f"{plural(len(ids), 'job')} {match} ({names}): {verb}?", abort=True, err=True)
    else:
        note(f"{plural(len(ids), 'job')} {match}")
    return tuple(ids)
