"""Requests of the client about host pools."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, cast

from paceline.client.api_requests import Requests, json_body, new_id
from paceline.client.checked_values import path_of
from paceline.client.maintenance import PLAN_S
from paceline.client.models import Answer

if TYPE_CHECKING:
    from paceline.client.host_models import HostPool, HostPoolList, HostPoolMove, HostPoolMovePlan, HostPoolPlan
    from paceline.client.maintenance_models import HostsAnswer


DRY = {"dry_run": "true"}


class MoveFields(TypedDict, total=False):
    """The words of a move, as those of a drain. Times are texts such as 2h."""

    batch: Literal["wait", "move"]
    deadline: str
    escalate: Literal["wait", "preempt", "force"]
    force_after: str
    reason: str


class HostPoolRequests(Requests):
    """Methods about host pools, see `Client`."""

    def host_pools(self) -> "list[HostPool]":
        """The host pools by name: shared, and those that operators have defined."""
        return cast("HostPoolList", self._get("/v1/host-pools"))["host_pools"]

    def host_pool_moves(self) -> "list[HostPoolMove]":
        """The last moves of hosts between host pools, the newest first."""
        return cast("HostPoolList", self._get("/v1/host-pools"))["moves"]

    def host_pool(self, name: str) -> "HostPool":
        """One host pool."""
        return cast("HostPool", self._get(path_of("host-pools", name)))

    def define_host_pool(
        self,
        name: str,
        kinds: Sequence[str] | None = None,
        description: str = "",
        elastic: Sequence[Mapping[str, Any]] = (),
        reason: str = "",
        wait: float = 0,
    ) -> Answer:
        """Defines a host pool, or changes it. `kinds`: those of jobs that use it before shared; None: by its name.
        `elastic`: how hosts move to it and back by themselves: source, above, below, lasts, hosts and keep of each.
        """
        body = _definition(kinds, description, elastic, reason)
        return cast(Answer, self._write("PUT", path_of("host-pools", name), body, wait))

    def check_host_pool(
        self,
        name: str,
        kinds: Sequence[str] | None = None,
        description: str = "",
        elastic: Sequence[Mapping[str, Any]] = (),
    ) -> "HostPoolPlan":
        """Tells which jobs may use fewer hosts once a host pool is defined so; nothing is written."""
        content = json_body(_definition(kinds, description, elastic, ""))
        path = path_of("host-pools", name)
        return cast("HostPoolPlan", self._body(self._send("PUT", path, wait=PLAN_S, params=DRY, **content)))

    def remove_host_pool(self, name: str, reason: str = "", wait: float = 0) -> Answer:
        """Removes a host pool in which no host is."""
        query = {"reason": reason} if reason else {}
        return cast(Answer, self._write("DELETE", path_of("host-pools", name), None, wait, query))

    def check_removal_of_host_pool(self, name: str) -> "HostPoolPlan":
        """Tells which jobs may use fewer hosts once a host pool is removed; nothing is written."""
        path = path_of("host-pools", name)
        return cast("HostPoolPlan", self._body(self._send("DELETE", path, wait=PLAN_S, params=DRY)))

    def assign_hosts(
        self,
        name: str,
        host_ids: Sequence[str] = (),
        attribute: str = "",
        values: Sequence[str] = (),
        reason: str = "",
        wait: float = 0,
    ) -> "HostsAnswer":
        """Puts hosts into a host pool at once, all or none; what runs there goes on."""
        body = _assignment(host_ids, attribute, values, reason)
        return cast("HostsAnswer", self._write("POST", path_of("host-pools", name, "assignments"), body, wait))

    def check_assignment(
        self, name: str, host_ids: Sequence[str] = (), attribute: str = "", values: Sequence[str] = ()
    ) -> "HostPoolPlan":
        """Tells which jobs may use fewer hosts once hosts are in a host pool; nothing is written."""
        content = json_body(_assignment(host_ids, attribute, values, ""))
        path = path_of("host-pools", name, "assignments")
        return cast("HostPoolPlan", self._body(self._send("POST", path, wait=PLAN_S, params=DRY, **content)))

    def move_hosts(
        self,
        name: str,
        source: str,
        count: int = 0,
        host_ids: Sequence[str] = (),
        wait: float = 0,
        **fields: Unpack[MoveFields],
    ) -> "HostsAnswer":
        """Empties hosts of another host pool and puts them into this one: so many, those whose work is worth least
        first, or those that are named.
        """
        body = _of_move(source, count, host_ids, fields)
        return cast("HostsAnswer", self._write("POST", path_of("host-pools", name, "moves"), body, wait))

    def check_move(
        self, name: str, source: str, count: int = 0, host_ids: Sequence[str] = (), **fields: Unpack[MoveFields]
    ) -> "HostPoolMovePlan":
        """Tells which hosts a move would take now, and their scores; nothing is written."""
        content = json_body(_of_move(source, count, host_ids, fields))
        path = path_of("host-pools", name, "moves")
        return cast("HostPoolMovePlan", self._body(self._send("POST", path, wait=PLAN_S, params=DRY, **content)))


def _definition(
    kinds: Sequence[str] | None, description: str, elastic: Sequence[Mapping[str, Any]], reason: str
) -> dict[str, Any]:
    """The body of a definition."""
    body: dict[str, Any] = {"command_id": new_id("host-pool"), "description": description, "reason": reason}
    body["elastic"] = [dict(each) for each in elastic]
    return body if kinds is None else body | {"kinds": list(kinds)}


def _assignment(host_ids: Sequence[str], attribute: str, values: Sequence[str], reason: str) -> dict[str, Any]:
    """The body of an assignment."""
    hosts = {"attribute": attribute, "values": list(values)} if attribute else {"ids": list(host_ids)}
    return {"command_id": new_id("host-pool"), "reason": reason, "hosts": hosts}


def _of_move(source: str, count: int, host_ids: Sequence[str], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a move."""
    hosts = {"hosts": {"ids": list(host_ids)}} if host_ids else {}
    return {"command_id": new_id("host-pool"), "source": source, "count": count, **hosts, **fields}
