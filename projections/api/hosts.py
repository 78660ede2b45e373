"""Routes of hosts: how they stand, what runs there, and an operator's word that one is lost, has left or is fine."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal, Self
from urllib.parse import quote

from fastapi import APIRouter, Response
from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError
from sqlalchemy import Connection

from events.bounds import WORD_MAX
from events.records.hosts import (
    HostClearRequested,
    HostDeviceRequested,
    HostLossConfirmed,
    HostRemovalRequested,
    HostsCordonRequested,
    HostsDrainRequested,
    HostsResumeRequested,
    HostTaintRequested,
)
from events.taints import KEY
from paceline.client.host_models import Host
from paceline.client.page_models import HistoryPage, HostsPage, TasksPage
from projections.api.commands import Command, carry_out
from projections.api.context import HISTORY_KEY, Context, Pages, Place, Reading, Wait, next_token
from projections.api.list_requests import Actors, HostsQuery
from projections.api.problems import ANSWERED, not_found
from projections.queries import entities, host_list, host_maintenance
from projections.queries import tasks as task_queries
from projections.queries.host_certificates import newest_certificate
from projections.queries.other_histories import history_page
from projections.queries.resources import kinds_of
from projections.views.other_histories import of_host
from projections.views.rows import HostRow

Word = (
    HostLossConfirmed
    | HostRemovalRequested
    | HostClearRequested
    | HostTaintRequested
    | HostDeviceRequested
    | HostsDrainRequested
    | HostsCordonRequested
    | HostsResumeRequested
)
"""The facts of an operator about a host."""


def _key(key: str) -> str:
    if not KEY.fullmatch(key):
        text = "must begin with a letter or digit; up to 127 letters, digits and ._/- may follow"
        raise PydanticCustomError("key", text)
    return key


class Taint(Command):
    """A taint that a host is to have, or is to have no more."""

    key: Annotated[str, AfterValidator(_key), Field(json_schema_extra={"pattern": rf"^{KEY.pattern}$"})]
    value: Annotated[str, Field(max_length=WORD_MAX)] = ""
    remove: bool = False
    effect: Literal["no_place", "evict"] = "no_place"

    def word(self) -> partial[HostTaintRequested]:
        """The fact, which lacks what all commands have."""
        about = partial(HostTaintRequested, key=self.key, value=self.value)
        return partial(about, remove=self.remove, effect=self.effect)

    @model_validator(mode="after")
    def _is_taken_off_by_key(self) -> Self:
        if self.remove and self.value:
            text = "is taken off by its key, whatever its value: leave out ={value}"
            raise PydanticCustomError("taint", text, {"value": self.value})
        return self


class Device(Command):
    """A device that is to take no new tasks, or takes them again."""

    device: Annotated[str, Field(min_length=1, max_length=WORD_MAX)]
    disabled: bool = True
    ends: bool = False

    @model_validator(mode="after")
    def _ends_what_is_disabled(self) -> Self:
        if self.ends and not self.disabled:
            raise PydanticCustomError("device", "ends is for a device that is disabled: leave it out")
        return self


def routes(context: Context) -> APIRouter:
    """The routes under /v1/hosts."""
    router = APIRouter(prefix="/v1/hosts", tags=["hosts"])

    @router.get("")
    async def hosts(read: Reading, page: Pages, asked_for: HostsQuery) -> Response:
        """Hosts by id, numbers within ids by their value."""
        after = page.after(str, *asked_for.words) or ""

        def look(connection: Connection) -> HostsPage:
            page_found = host_list.host_rows(connection, asked_for.filter, page.size, after)
            last = page_found.rows[-1].host_id if page_found.more else None
            kinds = kinds_of(connection)
            hosts_json = host_list.hosts_json(connection, page_found.rows, kinds)
            return {"hosts": hosts_json, "next_page_token": next_token(last, *asked_for.words)}

        return await read(look)

    @router.get("/{host_id}")
    async def host(host_id: str, read: Reading) -> Response:
        """One host."""
        return await read(lambda connection: _whole(context, connection, host_id))

    @router.get("/{host_id}/tasks")
    async def tasks(host_id: str, read: Reading, page: Pages) -> Response:
        """Tasks that hold something of the host."""
        first = page.after(Place, "host", host_id) or 0

        def look(connection: Connection) -> TasksPage:
            page_found = task_queries.host_tasks(connection, _host(connection, host_id), page.size, first)
            return {"tasks": page_found.items, "next_page_token": next_token(page_found.next, "host", host_id)}

        return await read(look)

    @router.get("/{host_id}/history")
    async def history(host_id: str, read: Reading, page: Pages, actors: Actors) -> Response:
        """The history of a host, of one that was removed too: what was asked and decided of it, the oldest first."""
        after = page.after(HISTORY_KEY, *(words := ("host history", host_id, *actors)))

        def look(connection: Connection) -> HistoryPage:
            rows = history_page(connection, of_host(host_id), page.size, after, actors=actors)
            if not (rows.items or after or history_page(connection, of_host(host_id), 1, None).items):
                _host(connection, host_id)
            return {"events": rows.items, "next_page_token": next_token(rows.next, *words)}

        return await read(look)

    @router.post("/{host_id}/loss-confirmations", status_code=202, responses=ANSWERED)
    async def confirm(host_id: str, command: Command, wait: Wait) -> Response:
        """Says that a silent host is lost, so that its tasks run elsewhere at once."""
        return await tell(context, host_id, HostLossConfirmed, command, wait)

    @router.post("/{host_id}/removals", status_code=202, responses=ANSWERED)
    async def remove(host_id: str, command: Command, wait: Wait) -> Response:
        """Says that a host has left for good, so that the cell forgets it."""
        return await tell(context, host_id, HostRemovalRequested, command, wait)

    @router.post("/{host_id}/clearances", status_code=202, responses=ANSWERED)
    async def clear(host_id: str, command: Command, wait: Wait) -> Response:
        """Says that a suspected host is fine, so that it takes new tasks again."""
        return await tell(context, host_id, HostClearRequested, command, wait)

    _add_taints_and_devices(router, context)
    return router


def _add_taints_and_devices(router: APIRouter, context: Context) -> None:
    @router.post("/{host_id}/taints", status_code=202, responses=ANSWERED)
    async def taint(host_id: str, command: Taint, wait: Wait) -> Response:
        """Gives a host a taint, which keeps new tasks away that don't tolerate it; or takes one off. By the effect
        evict those leave too that run there, as budgets allow.
        """
        return await tell(context, host_id, command.word(), command, wait)

    @router.post("/{host_id}/devices", status_code=202, responses=ANSWERED)
    async def device(host_id: str, command: Device, wait: Wait) -> Response:
        """Sets a device of a host aside, so that it takes no new tasks, or gives it back. With `ends` its runs are
        preempted that may be.
        """
        about = partial(HostDeviceRequested, device=command.device, disabled=command.disabled, ends=command.ends)
        return await tell(context, host_id, about, command, wait)


async def tell(context: Context, host_id: str, what: Callable[..., Word], command: Command, wait: float) -> Response:
    """An operator's word about a host, and the answer to it. Raises a problem where it is refused."""

    def fact(command_id: str) -> Word:
        return what(host_id=host_id, command_id=command_id, reason=command.reason)

    about = f"/v1/hosts/{quote(host_id, safe='')}"
    must_be = partial(_host, host_id=host_id)
    return await carry_out(context, command, fact, host_id, must_be, wait, about=about)


def _whole(context: Context, connection: Connection, host_id: str) -> Host:
    body = host_maintenance.whole_host(connection, _host(connection, host_id))
    body["certificate"] = newest_certificate(connection, host_id, context.time_of(connection))
    return body


def _host(connection: Connection, host_id: str) -> HostRow:
    row = entities.host_row(connection, host_id)
    if row is None:
        raise not_found("host", host_id)
    return row
