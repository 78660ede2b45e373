"""The typed, synchronous client of the API. The command line uses nothing else to reach a cell."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from paceline.client.access import AccessRequests
from paceline.client.api_requests import PAGE, PAGES_MAX, json_body, new_id
from paceline.client.checked_values import path_of, pool_path
from paceline.client.errors import NotFound
from paceline.client.events import EventRequests
from paceline.client.follow import FollowRequests
from paceline.client.host_pools import HostPoolRequests
from paceline.client.jobs import PLAN_S
from paceline.client.json_type import Json
from paceline.client.maintenance import MaintenanceRequests
from paceline.client.models import Answer, HistoryEntry, Task
from paceline.client.plain_http import FAULTS
from paceline.client.rebalances import RebalanceRequests
from paceline.client.what_ifs import WhatIfRequests

if TYPE_CHECKING:
    from paceline.client.cause_models import Blame, Causes
    from paceline.client.cell_models import (
        AuditedFact,
        CellInfo,
        CellOperations,
        SecretList,
        SecretsDeleted,
        SecretVersion,
        SignInInfo,
        SkippedRecord,
    )
    from paceline.client.forecast_models import Forecasts
    from paceline.client.host_models import Host, HostInvitation, OpenInvitation, Volume
    from paceline.client.operation_models import RoundRecord
    from paceline.client.page_models import HostsPage
    from paceline.client.pool_models import Entitlement, Pool, PoolPlans, PoolTree, Queue
    from paceline.client.sla_models import SlaGroup, SlaGroupList, SlaState
    from paceline.client.usage_models import HostUsage, UsageSums
    from paceline.client.waits_models import JobLedger, WaitLedger


class Client(
    FollowRequests,
    EventRequests,
    MaintenanceRequests,
    HostPoolRequests,
    RebalanceRequests,
    WhatIfRequests,
    AccessRequests,
):
    """A client of the cells behind one API. Whatever it reads is at least as new as what it wrote.

    `cell`: everything is asked of that cell; None: the server finds the cell, and lists are over all that it serves.
    `at`: everything is read as it was at that moment; `on_making` is told how far its views are while they are made.

    Without `server` it finds the cell that runs on the data folder (`data`, PACELINE_DATA, ~/.paceline) and its token,
    which it shows to nobody who doesn't prove to have it too.
    Methods raise `Unreachable` and the subclasses of `ApiError`: `NotFound`, `Refused`, `NotAuthorised`, `Unavailable`.
    `wait` is how many seconds a write waits for its decision; 0: it returns when the fact is durable.
    """

    def sign_in(self) -> "SignInInfo":
        """The issuer at which users of the cell sign in, and its client there; empty: there is none."""
        return cast("SignInInfo", self._get("/v1/sign-in"))

    def pools(self, pool: str | None = None, text: str | None = None) -> "list[Pool]":
        """Pools, by path. `pool`: that one and those below it; `text`: part of the path."""
        params = {"pool": pool, "text": text, "page_size": PAGES_MAX}
        return list(self._all("/v1/pools", "pools", params))

    def pools_page(
        self,
        pool: str | None = None,
        text: str | None = None,
        page_size: int = PAGE,
        page_token: str | None = None,
    ) -> "PoolTree":
        """One page of pools, as it came."""
        params = {"pool": pool, "text": text, "page_size": page_size, "page_token": page_token}
        return cast("PoolTree", self._get("/v1/pools", params))

    def pool(self, path: str) -> "Pool":
        """One pool."""
        return cast("Pool", self._get(pool_path(path)))

    def define_pool(
        self, path: str, spec: Mapping[str, Any], wait: float = 0, expected: str | None = None, reason: str = ""
    ) -> Answer:
        """Creates a pool or replaces its definition: reservation, limit, share, static and so on, as pool files have
        them. `expected`: the `position` of the pool that it replaces, as it was read; `*`: whatever stands; empty:
        there is none. None: as it stands now. Raises `Conflict` where it was changed since.
        """
        if expected is None:
            try:
                expected = self.pool(path)["position"]
            except NotFound:
                expected = ""
        condition = {"If-Match": _tag(expected)} if expected else {"If-None-Match": "*"}
        return cast(Answer, self._write("PUT", pool_path(path), dict(spec), wait, _because(reason), headers=condition))

    def pool_tree(self) -> "PoolTree":
        """All pools, by path, and what the cells have."""
        tree = page = self.pools_page(page_size=PAGES_MAX)
        while token := page.get("next_page_token"):
            page = self.pools_page(page_size=PAGES_MAX, page_token=token)
            tree = {**page, "pools": tree["pools"] + page["pools"]}
        return tree

    def change_pool(
        self, path: str, changes: Mapping[str, Any], wait: float = 0, expected: str = "", reason: str = ""
    ) -> Answer:
        """Changes what is named of a pool, such as `closed`; all else stays. `expected`: see `define_pool`; empty: the
        pool is changed however it stands.
        """
        condition = {"If-Match": _tag(expected)} if expected else None
        return cast(
            Answer, self._write("PATCH", pool_path(path), dict(changes), wait, _because(reason), headers=condition)
        )

    def plan_pools(self, pools: Sequence[Mapping[str, Any]]) -> "PoolPlans":
        """Asks what defining these pools would do in each of their cells, without doing it. Each has its `path`."""
        body = json_body({"pools": list(pools)})
        return cast("PoolPlans", self._body(self._send("POST", "/v1/pool-plans", wait=PLAN_S, **body)))

    def queue(self, path: str, size: int = 10) -> "Queue":
        """The first gangs of each class that wait in a pool."""
        return cast("Queue", self._get(pool_path(path, "queues"), {"size": size}))

    def entitlement(self, path: str) -> "Entitlement":
        """The entitlement of a pool, and its derivation."""
        return cast("Entitlement", self._get(pool_path(path, "entitlements")))

    def remove_pool(self, path: str, wait: float = 0, expected: str = "", reason: str = "") -> Answer:
        """Removes a pool that is not in use; `expected`: see `change_pool`."""
        condition = {"If-Match": _tag(expected)} if expected else None
        return cast(Answer, self._write("DELETE", pool_path(path), None, wait, _because(reason), headers=condition))

    def hosts(
        self,
        state: str | None = None,
        attributes: Sequence[str] = (),
        text: str | None = None,
        page_size: int = PAGE,
    ) -> "Iterator[Host]":
        """Hosts by id, numbers within ids by their value. `state`: one or more, with commas; `attributes`: KEY:VALUE,
        all must hold; `text`: part of the id.
        """
        params = {"state": state, "attribute": attributes, "text": text, "page_size": page_size}
        return self._all("/v1/hosts", "hosts", params)

    def hosts_page(
        self,
        state: str | None = None,
        attributes: Sequence[str] = (),
        text: str | None = None,
        page_size: int = PAGE,
        page_token: str | None = None,
    ) -> "HostsPage":
        """One page of hosts, as it came, see `hosts`."""
        params = {"state": state, "attribute": attributes, "text": text, "page_size": page_size}
        return cast("HostsPage", self._get("/v1/hosts", {**params, "page_token": page_token}))

    def names(self, kind: str, prefix: str = "", most: int = 100) -> list[str]:
        """The names of jobs, pools or hosts that begin so, in their order; `kind`: job, pool or host."""
        return cast(list[str], self._get("/v1/names", {"kind": kind, "prefix": prefix, "page_size": most})["names"])

    def host(self, host_id: str) -> "Host":
        """One host."""
        return cast("Host", self._get(path_of("hosts", host_id)))

    def host_history(self, host_id: str, actor: str | None = None) -> Iterator[HistoryEntry]:
        """The history of a host, the oldest first: what was asked and decided of it, by whom and why; `actor`: only
        what this user wrote.
        """
        return self._all(path_of("hosts", host_id, "history"), "events", {"actor": actor, "page_size": PAGE})

    def pool_history(self, path: str, actor: str | None = None) -> Iterator[HistoryEntry]:
        """The history of a pool, the oldest first; of `/` that of the settings of the cell; `actor`: only what this
        user wrote.
        """
        return self._all(pool_path(path, "pool-histories"), "events", {"actor": actor, "page_size": PAGE})

    def host_tasks(self, host_id: str) -> Iterator[Task]:
        """The tasks on a host."""
        return self._all(path_of("hosts", host_id, "tasks"), "tasks", {"page_size": PAGE})

    def usage(self, by: str = "pool", since: str = "", pool: str = "", owner: str = "") -> "UsageSums":
        """Amounts that ended runs asked for and used, by job, pool, owner or month, from a month (2026-11) on."""
        filters = {name: value for name, value in (("since", since), ("pool", pool), ("owner", owner)) if value}
        return cast("UsageSums", self._get("/v1/usage", {"by": by, "page_size": PAGE, **filters}))

    def job_ledger(self, job_id: str) -> "JobLedger":
        """For how long the tasks of a job waited, by reason code, and ran."""
        return cast("JobLedger", self._get(path_of("jobs", job_id, "ledger")))

    def waits(self, by: str = "week", since: str = "", pool: str = "/", owner: str | None = None) -> "WaitLedger":
        """For how long tasks waited, by reason code, and ran, by pool, owner or week, from the week of a time on."""
        filters = {"since": since or None, "owner": owner}
        return cast("WaitLedger", self._get("/v1/waits", {"by": by, "pool": pool, "page_size": PAGE, **filters}))

    def forecasts(self, pool: str = "", days: int = 7) -> "Forecasts":
        """When jobs that wait are expected to begin, the first of them by id, and the scores of the last days."""
        return cast("Forecasts", self._get("/v1/forecasts", {"pool": pool, "days": days, "page_size": PAGE}))

    def host_usage(self, host_id: str) -> "HostUsage":
        """The use of a host by its live runs, asked of its agent."""
        return cast("HostUsage", self._get(path_of("hosts", host_id, "usage")))

    def volumes(self, job_id: str = "", host_id: str = "") -> "Iterator[Volume]":
        """The volumes that hosts keep, of jobs that are deleted too; of one job or one host, where it is named."""
        filters = {name: value for name, value in (("job", job_id), ("host", host_id)) if value}
        return self._all("/v1/volumes", "volumes", {"page_size": PAGE, **filters})

    def remove_volume(
        self, host_id: str, job_id: str, instance: int, name: str, reason: str = "", wait: float = 0
    ) -> Answer:
        """Removes a volume with all that is in it; refused while its task is to find it there."""
        body = {"command_id": new_id("removal"), "job_id": job_id, "instance": instance, "name": name, "reason": reason}
        return cast(Answer, self._write("POST", path_of("hosts", host_id, "volume-removals"), body, wait))

    def sla(self, job_id: str) -> "SlaState":
        """The budget of a job: what it allows, what is used of it, and what waits for it."""
        return cast("SlaState", self._get(path_of("jobs", job_id, "sla")))

    def slas(self, pool: str = "", at_risk: bool = False) -> "Iterator[SlaState]":
        """The budgets of open jobs that have an SLA; `at_risk`: only of those whose next planned disruption would be
        refused, or that are below a bound.
        """
        filters = {name: value for name, value in (("pool", pool), ("at_risk", "true" if at_risk else "")) if value}
        return self._all("/v1/slas", "slas", {"page_size": PAGE, **filters})

    def sla_groups(self) -> "list[SlaGroup]":
        """The budgets that jobs share."""
        return cast("SlaGroupList", self._get("/v1/sla-groups"))["groups"]

    def sla_group(self, name: str) -> "SlaGroup":
        """A budget that jobs share, with each of them."""
        return cast("SlaGroup", self._get(path_of("sla-groups", name)))

    def set_sla_group(
        self,
        name: str,
        max_unavailable: int | str | None = None,
        min_available: int | str | None = None,
        reason: str = "",
        wait: float = 0,
    ) -> Answer:
        """Sets a budget that jobs share: numbers of instances, or percentages such as `25%`."""
        body = {"max_unavailable": max_unavailable, "min_available": min_available}
        return cast(Answer, self._write("PUT", path_of("sla-groups", name), body, wait, _because(reason)))

    def remove_sla_group(self, name: str, reason: str = "", wait: float = 0) -> Answer:
        """Removes a budget that jobs share."""
        return cast(Answer, self._write("DELETE", path_of("sla-groups", name), None, wait, _because(reason)))

    def secrets(self) -> "list[SecretVersion]":
        """The names and versions of all secrets."""
        return cast("SecretList", self._get("/v1/secrets"))["secrets"]

    def put_secret(self, name: str, value: bytes, pool: str = "") -> "SecretVersion":
        """Stores a value as the next version of a secret; of a first one `pool` says whose jobs may name it."""
        body, query = {"value": base64.b64encode(value).decode()}, {"pool": pool} if pool else None
        return cast("SecretVersion", self._write("PUT", path_of("secrets", name), body, 0, query))

    def delete_secret(self, name: str, version: int = 0) -> "SecretsDeleted":
        """Deletes a version of a secret, 0: all."""
        query = {"version": version} if version else None
        return cast("SecretsDeleted", self._write("DELETE", path_of("secrets", name), None, 0, query))

    def confirm_loss(self, host_id: str, reason: str = "", wait: float = 0) -> Answer:
        """Says that a silent host is gone for good, so that its tasks run again elsewhere."""
        body = {"command_id": new_id("loss"), "reason": reason}
        return cast(Answer, self._write("POST", path_of("hosts", host_id, "loss-confirmations"), body, wait))

    def remove_host(self, host_id: str, reason: str = "", wait: float = 0) -> Answer:
        """Says that a host has left for good, so that the cell forgets it; it is silent or lost, and has no runs."""
        body = {"command_id": new_id("removal"), "reason": reason}
        return cast(Answer, self._write("POST", path_of("hosts", host_id, "removals"), body, wait))

    def invite_host(self, host_id: str, ttl_s: float = 3600, reason: str = "") -> "HostInvitation":
        """Lets a host join the cell once, with the token in the answer, and get a certificate for itself."""
        body = {"host_id": host_id, "ttl_ms": round(ttl_s * 1000), "reason": reason}
        return cast("HostInvitation", self._write("POST", "/v1/host-invitations", body, 0))

    def host_invitations(self) -> "Iterator[OpenInvitation]":
        """The invitations by which no agent has joined yet, and one still may, the oldest first."""
        return self._all("/v1/host-invitations", "host_invitations", {"page_size": PAGE})

    def clear_host(self, host_id: str, reason: str = "", wait: float = 0) -> Answer:
        """Says that a suspected host is fine, so that it takes new tasks again."""
        body = {"command_id": new_id("clear"), "reason": reason}
        return cast(Answer, self._write("POST", path_of("hosts", host_id, "clearances"), body, wait))

    def taint_host(
        self,
        host_id: str,
        key: str,
        value: str = "",
        remove: bool = False,
        reason: str = "",
        wait: float = 0,
        effect: str = "no_place",
    ) -> Answer:
        """Gives a host a taint, which keeps new tasks away that don't tolerate it; or takes one off. By the effect
        evict those leave too that run there, as budgets allow.
        """
        body = {"command_id": new_id("taint"), "reason": reason, "key": key, "value": value, "remove": remove}
        body |= {} if effect == "no_place" else {"effect": effect}
        return cast(Answer, self._write("POST", path_of("hosts", host_id, "taints"), body, wait))

    def disable_device(
        self, host_id: str, device: str, ends: bool = False, reason: str = "", wait: float = 0
    ) -> Answer:
        """Sets a device of a host aside, so that it takes no new tasks. With `ends` its runs are preempted."""
        body = {"command_id": new_id("device"), "reason": reason, "device": device, "ends": ends}
        return cast(Answer, self._write("POST", path_of("hosts", host_id, "devices"), body, wait))

    def enable_device(self, host_id: str, device: str, reason: str = "", wait: float = 0) -> Answer:
        """Lets a device of a host take tasks again that was disabled."""
        body = {"command_id": new_id("device"), "reason": reason, "device": device, "disabled": False}
        return cast(Answer, self._write("POST", path_of("hosts", host_id, "devices"), body, wait))

    def round(self, machine: str, number: int) -> "RoundRecord":
        """A round of a machine, decoded."""
        return cast("RoundRecord", self._get(path_of("rounds", machine, str(number))))

    def causes(self, subject: str) -> "Causes":
        """The causes of the record at a position, or of a job's headline."""
        return cast("Causes", self._get(path_of("causes", *subject.split("/"))))

    def blame(self, of: str) -> "Blame":
        """Returns who moved a value last, such as `/maps:share`, `JOB:state`, `host/h17:state` or `cell:settle`."""
        return cast("Blame", self._get("/v1/blame", {"of": of}))

    def cell(self) -> "CellInfo":
        """The cell: its number, log and address, and where each machine stands."""
        return cast("CellInfo", self._get("/v1/cell"))

    def cell_settings(self) -> Json:
        """The settings of the cell, times with their units; `resources`: the kinds that were added to it."""
        return self._get("/v1/cell/settings")

    def change_cell(self, settings: Mapping[str, Any], wait: float = 0, reason: str = "") -> Answer:
        """Changes settings of the cell, those that are named; `resources`: kinds to add, or licences to change."""
        return cast(Answer, self._write("PATCH", "/v1/cell/settings", dict(settings), wait, _because(reason)))

    def operations(self) -> "CellOperations":
        """The state of the cell: its machines and who has them, gateways, positions, what was skipped; and what the
        process that answers knows beside that.
        """
        return cast("CellOperations", self._get("/v1/cell/operations"))

    def quarantine(self) -> "Iterator[SkippedRecord]":
        """The records that were skipped."""
        return self._all("/v1/log/quarantine", "records", {"page_size": PAGE})

    def audit(
        self,
        actor: str = "",
        kind: str = "",
        pool: str = "",
        job: str = "",
        host: str = "",
        since: str = "",
        until: str = "",
    ) -> "Iterator[AuditedFact]":
        """Facts of users and operators, the newest first: who, when, allowed by which binding. `pool`: with those below
        it; times are ISO 8601.
        """
        filters = {"actor": actor, "kind": kind, "pool": pool, "job": job, "host": host, "since": since, "until": until}
        params = {name: value for name, value in filters.items() if value}
        return self._all("/v1/audit", "facts", {**params, "page_size": PAGE})

    def ready(self) -> bool:
        """Whether the cell answers and is up to date."""
        try:
            return not self._ask("GET", "/readyz", timeout=self._timeout).is_error
        except FAULTS:
            return False

    def metrics(self) -> str:
        """The metrics, in the text format of Prometheus."""
        return self._send("GET", "/metrics").text

    def openapi(self) -> Json:
        """The description of the API."""
        return self._get("/openapi.json")


def _tag(position: str) -> str:
    """The condition that something still is as it was last changed at a position."""
    return position if position == "*" else f'"{position}"'


def _because(reason: str) -> dict[str, str]:
    """The parameter of a reason that was given; it is recorded in the log."""
    return {"reason": reason} if reason else {}
