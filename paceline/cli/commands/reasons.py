"""Reasons for what affects others: where one is needed, and asking for it (decision 013)."""

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import click

from events.words import plural

if TYPE_CHECKING:
    from paceline.client.client import Client
    from paceline.client.pool_models import Pool

reason_option = click.option(
    "--reason", default="", help="Reason, recorded in the log; needed where others are affected."
)


def reason_for_jobs(
    client: "Client", ids: Iterable[str], reason: str, owner_by_id: Mapping[str, str] | None = None
) -> str:
    """The reason for a change of jobs; asked for where one of them belongs to somebody else. `owner_by_id`: the owners
    of the jobs, where they are known already. Raises `click.UsageError` where it is needed and nobody can be asked.
    """
    if reason.strip():
        return reason
    owners = owner_by_id if owner_by_id is not None else _owners(client, ids)
    owned = {job_id: owner for job_id, owner in owners.items() if owner not in ("", client.user.subject)}
    if not owned:
        return reason
    job_id, owner = next(iter(owned.items()))
    rest = f", and {plural(len(owned) - 1, 'other job')} to others" if len(owned) > 1 else ""
    return reason_about(f"job {job_id} belongs to {owner}{rest}", reason)


def _owners(client: "Client", ids: Iterable[str]) -> dict[str, str]:
    """The owners of jobs; of those that can't be found the command tells."""
    from paceline.client.errors import InvalidValue, NotFound

    owner_by_id = {}
    for each in ids:
        try:
            owner_by_id[each] = client.job(each)["owner"]
        except (InvalidValue, NotFound):
            continue
    return owner_by_id


def reason_for_pool(pool: "Pool | None", reason: str) -> str:
    """The reason for a change of a pool; asked for where it has open jobs. None: there is no such pool."""
    if pool is None or not pool["open_jobs"]:
        return reason
    return reason_about(f"pool {pool['path']} has {plural(pool['open_jobs'], 'open job')}", reason)


def reason_about(others: str, reason: str) -> str:
    """The reason that was given, else the one that somebody types who is told which `others` are affected. Raises
    `click.UsageError` where nobody sits at a terminal.
    """
    if reason.strip():
        return reason
    if not sys.stdin.isatty():
        raise click.UsageError(f"{others}: say why with --reason, others see it")
    typed: str = click.prompt(f"{others}. Reason (recorded; Ctrl-C cancels)", err=True)
    return typed
