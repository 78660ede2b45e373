"""Requests of the client about maintenance: drains, cordons, campaigns."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, cast

from paceline.client.api_requests import PAGE, PAGES_MAX, Requests, json_body, new_id
from paceline.client.checked_values import path_of
from paceline.client.errors import InvalidValue, PacelineError
from paceline.client.models import Answer
from paceline.client.patience import Patience
from paceline.client.pauses import FIRST_ASK_S, SLOWEST_ASK_S

if TYPE_CHECKING:
    from paceline.client.host_models import Host
    from paceline.client.maintenance_models import (
        DrainEffects,
        HostsAnswer,
        Maintenance,
        MaintenanceHost,
        MaintenancesPage,
        MaintenanceWindow,
        MaintenanceWindowList,
    )

PLAN_S = 60.0
"""Seconds that a dry run may take longer than another answer."""
ONE_BY_ONE_MAX = 20
"""More hosts are followed by the list of those that aren't UP, which doesn't say what runs wait for; so many of
them are asked about that too."""
DRAINS = ("DRAINING", "DRAINING_BATCH", "FORCING")
STAGES = ",".join((*DRAINS, "DRAINED"))
MaintenanceAction = Literal["pauses", "resumptions", "aborts"]


class DrainFields(TypedDict, total=False):
    """The words of a drain. Times are texts such as 2h; `max_hosts`: so many of the hosts, the cheapest to drain."""

    batch: Literal["wait", "move"]
    deadline: str
    escalate: Literal["wait", "preempt", "force"]
    force_after: str
    force: bool
    max_hosts: int
    reason: str
    command_id: str


class MaintenanceRequests(Requests):
    """Methods about maintenance, see `Client`. Hosts are named by their ids, or by an attribute and its values: all are
    taken, or none where one isn't known.
    """

    def drain_hosts(
        self,
        host_ids: Sequence[str] = (),
        attribute: str = "",
        values: Sequence[str] = (),
        wait: float = 0,
        **fields: Unpack[DrainFields],
    ) -> "HostsAnswer":
        """Empties hosts: nothing new is placed there, and what runs there leaves as the SLAs of jobs allow."""
        path, body = _of_hosts("drains", host_ids, attribute, values)
        fields.setdefault("command_id", new_id("drain"))
        return cast("HostsAnswer", self._write("POST", path, {**body, **fields}, wait))

    def check_drain(
        self,
        host_ids: Sequence[str] = (),
        attribute: str = "",
        values: Sequence[str] = (),
        plan: bool = False,
        **fields: Unpack[DrainFields],
    ) -> "DrainEffects":
        """Tells what a drain would make leave, and how; nothing is written. `plan`: also what would find no place
        elsewhere, as the machines decide it on a copy of their state.
        """
        path, body = _of_hosts("drains", host_ids, attribute, values)
        return cast("DrainEffects", self._dry_run(path, {**body, **fields}, plan))

    def cordon_hosts(self, host_ids: Sequence[str], reason: str = "", wait: float = 0) -> "HostsAnswer":
        """Keeps new tasks away from hosts, but for those that are bound to them; what runs there goes on."""
        return self._tell_hosts("cordons", host_ids, reason, wait)

    def uncordon_hosts(self, host_ids: Sequence[str], reason: str = "", wait: float = 0) -> "HostsAnswer":
        """Ends the cordons of hosts; refused where one drains or is drained."""
        return self._tell_hosts("uncordons", host_ids, reason, wait)

    def resume_hosts(self, host_ids: Sequence[str], reason: str = "", wait: float = 0) -> "HostsAnswer":
        """Takes hosts back: their drains and cordons end; of those that a campaign works on the work is done."""
        return self._tell_hosts("resumptions", host_ids, reason, wait)

    def _tell_hosts(self, noun: str, host_ids: Sequence[str], reason: str, wait: float) -> "HostsAnswer":
        path, body = _of_hosts(noun, host_ids, "", ())
        return cast(
            "HostsAnswer", self._write("POST", path, {**body, "reason": reason, "command_id": new_id(noun)}, wait)
        )

    def follow_hosts(self, host_ids: Sequence[str], timeout: float | None = None) -> "Iterator[dict[str, Host]]":
        """Hosts as they are, again and again while they are waited for; it ends after `timeout` seconds. Of many hosts
        those that have been draining longest come with what each of their runs waits for. A cell that is
        away is waited for, by default for a minute; then it raises `Unreachable`: the drain goes on.
        """

        def ask() -> "dict[str, Host]":
            hosts: dict[str, Host] = {}
            if len(host_ids) > ONE_BY_ONE_MAX:
                query = {"state": STAGES, "page_size": PAGES_MAX}
                hosts = {host["host_id"]: host for host in self._all("/v1/hosts", "hosts", query)}
                hosts |= {host_id: self._host(host_id) for host_id in _oldest_drains(hosts, host_ids)}
            return {host_id: hosts.get(host_id) or self._host(host_id) for host_id in host_ids}

        return self._again("the drain goes on", ask, timeout)

    def _host(self, host_id: str) -> "Host":
        return cast("Host", self._get(path_of("hosts", host_id)))

    def follow_maintenance(self, maintenance_id: str, timeout: float | None = None) -> "Iterator[Maintenance]":
        """A campaign as it is, again and again, as `follow_hosts`."""
        return self._again("the maintenance goes on", lambda: self.maintenance(maintenance_id), timeout)

    def _again(self, goes_on: str, ask: Any, timeout: float | None) -> Iterator[Any]:
        deadline = None if timeout is None else time.monotonic() + timeout
        patience, pause = Patience(self.patience, goes_on), FIRST_ASK_S
        while True:
            try:
                answer = ask()
                patience.answered()
                yield answer
            except PacelineError as error:
                patience.missed(error)
            rest_s = pause if deadline is None else deadline - time.monotonic()
            if rest_s <= 0:
                return
            time.sleep(min(pause, rest_s))
            pause = min(SLOWEST_ASK_S, pause * 1.3)

    def start_maintenance(self, plan: Mapping[str, Any], wait: float = 0) -> "HostsAnswer":
        """Starts a campaign: its hosts are emptied, worked on, checked and taken back, some at a time."""
        body = {"command_id": new_id("maintenance"), **plan}
        return cast("HostsAnswer", self._write("POST", "/v1/maintenances", body, wait))

    def check_maintenance(self, plan: Mapping[str, Any]) -> "DrainEffects":
        """Tells what a campaign would make leave, and how; nothing is written."""
        return cast("DrainEffects", self._dry_run("/v1/maintenances", plan))

    def _dry_run(self, path: str, body: Mapping[str, Any], plan: bool = False) -> Any:
        params = {"dry_run": "true", **({"plan": "true"} if plan else {})}
        return self._body(self._send("POST", path, wait=PLAN_S, params=params, **json_body(body)))

    def maintenances(self) -> "Iterator[Maintenance]":
        """The campaigns, the newest first."""
        return self._all("/v1/maintenances", "maintenances", {"page_size": PAGE})

    def maintenances_page(self, page_size: int = PAGE, page_token: str | None = None) -> "MaintenancesPage":
        """One page of campaigns, as it came."""
        params = {"page_size": page_size, "page_token": page_token}
        return cast("MaintenancesPage", self._get("/v1/maintenances", params))

    def maintenance(self, maintenance_id: str) -> "Maintenance":
        """One campaign, with the hosts that it is at work on."""
        return cast("Maintenance", self._get(path_of("maintenances", maintenance_id)))

    def maintenance_hosts(self, maintenance_id: str, step: str = "") -> "Iterator[MaintenanceHost]":
        """The hosts of a campaign, by id; `step`: only those at one or more steps, with commas."""
        params = {"page_size": PAGE, **({"step": step} if step else {})}
        return self._all(path_of("maintenances", maintenance_id, "hosts"), "hosts", params)

    def act_on_maintenance(
        self, maintenance_id: str, action: MaintenanceAction, reason: str = "", wait: float = 0
    ) -> Answer:
        """Pauses, resumes or aborts a campaign."""
        body = {"command_id": new_id("maintenance"), "reason": reason}
        return cast(Answer, self._write("POST", path_of("maintenances", maintenance_id, action), body, wait))

    def maintenance_windows(self) -> "list[MaintenanceWindow]":
        """The windows of maintenance: those that are open or open next first."""
        return cast("MaintenanceWindowList", self._get("/v1/maintenance-windows"))["windows"]

    def maintenance_window(self, window_id: str) -> "MaintenanceWindow":
        """One window, with its hosts."""
        return cast("MaintenanceWindow", self._get(path_of("maintenance-windows", window_id)))

    def set_maintenance_window(self, window: Mapping[str, Any], wait: float = 0) -> "HostsAnswer":
        """Sets a window by the fields of a window file, or changes it."""
        body = {"command_id": new_id("window"), **window}
        path = path_of("maintenance-windows", str(body.pop("window_id")))
        return cast("HostsAnswer", self._write("PUT", path, body, wait))

    def remove_maintenance_window(self, window_id: str, reason: str = "", wait: float = 0) -> Answer:
        """Removes a window; hosts that drain for it are taken back."""
        query = {"reason": reason} if reason else {}
        return cast(Answer, self._write("DELETE", path_of("maintenance-windows", window_id), None, wait, query))


def _oldest_drains(hosts: "Mapping[str, Host]", host_ids: Sequence[str]) -> list[str]:
    """The hosts that have been draining longest, as many as are asked about one by one."""
    drains = [
        (of["begun_at"] or "", host_id)
        for host_id in host_ids
        if host_id in hosts and (of := hosts[host_id]["maintenance"]) and of["stage"] in DRAINS
    ]
    return [host_id for _, host_id in sorted(drains)[:ONE_BY_ONE_MAX]]


def _of_hosts(noun: str, host_ids: Sequence[str], attribute: str, values: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The path of a command about hosts and the part of its body that names them. Raises `InvalidValue` for a text."""
    for name, value in (("host_ids", host_ids), ("values", values)):
        if isinstance(value, str):
            raise InvalidValue(f"{name} is the text {value!r}: give a list of texts, such as [{value!r}]")
    if len(host_ids) == 1 and not attribute:
        return path_of("hosts", host_ids[0], noun), {}
    hosts = {"attribute": attribute, "values": list(values)} if attribute else {"ids": list(host_ids)}
    return f"/v1/host-{noun}", {"hosts": hosts}
