"""The hosts of a gateway: the gateway of each, whether it is heard, and the link that follows its orders."""

from collections.abc import Callable, ItemsView, Mapping, Sequence, ValuesView
from typing import Any

from events.bounds import SESSION_MAX
from events.records.hosts import HostBack, HostConnected, HostSilent
from events.records.lifecycle import HostReconciled
from events.records.placement import HostRemoved
from hostagent.gateway.connections import Link
from hostagent.messages import Hello, MachineIdentity, SessionRefused

LAST_SESSION = "the last session that there can be was said for this host: `paceline host remove` lets it begin anew"


class HostConnection:
    """The state of a host in the gateway. Session, gateway, silence and `must_reconnect` are folds of the topic of
    hosts; `reconciled` (the last session that lifecycle has settled) of lifecycle's rounds; the rest lasts as long as
    this process.
    """

    __slots__ = (
        *(
            "containers",
            "floor",
            "gateway",
            "heard_ms",
            "link",
            "machine",
            "must_reconnect",
            "number",
            "ready",
            "reconciled",
            "session",
        ),
        "silent",
    )

    def __init__(self, number: int) -> None:
        self.number = number
        self.session = 0
        self.gateway = ""
        """The gateway that has the session and watches the host."""
        self.machine = MachineIdentity()
        """The machine of the agent that has the session."""
        self.containers = True
        """Whether it may run containers, for all that this process has heard of it."""
        self.silent = False
        self.must_reconnect = False
        """It must connect again before its reports count: it was said to be silent, and may have been given up since.
        """
        self.reconciled = 0
        self.link: Link | None = None
        self.ready = False
        """The link has the whole wanted set, so changes may follow."""
        self.floor = 0
        """The position up to which the agent has followed orders."""
        self.heard_ms = 0

    def current(self, gateway: str, session: int) -> bool:
        """Whether what it says to this gateway in this session counts."""
        return self.gateway == gateway and self.session == session and not self.must_reconnect

    def connected(self, session: int, gateway: str, machine: MachineIdentity) -> None:
        """A session begins."""
        self.session, self.gateway, self.silent, self.must_reconnect = session, gateway, False, False
        self.machine = machine

    def refusal(self, host_id: str, hello: Hello, runs: Callable[[int], int]) -> SessionRefused | None:
        """Why an agent can't have a session now; None: it can. `runs`: see `_conflict`."""
        if reason := self._conflict(host_id, hello.machine, runs):
            return SessionRefused(self.session, reason)
        if hello.session <= self.session:
            return SessionRefused(self.session, *([LAST_SESSION] if self.session >= SESSION_MAX else []))
        return None

    def _conflict(self, host_id: str, machine: MachineIdentity, runs: Callable[[int], int]) -> str:
        """Why an agent on this machine can't speak for the host now, empty: it may. The one that has the session keeps
        it while it is heard; then its machine may come back after a restart; another has to wait until the runs are
        over, of which `runs` counts those of a number.
        """
        had = self.machine
        if not had.id or (had.id, had.boot) == (machine.id, machine.boot):
            return ""
        two = f"host {host_id} is {had}, this agent is on {machine}"
        if not self.silent:
            again = "a machine that was restarted is let in 10 s after it was last heard"
            return f"{two}, and the other is heard: give each its own --host-id. Else, {again}"
        if had.id != machine.id and (open_runs := runs(self.number)):
            lost = "if the other is gone for good, `paceline host confirm-loss` and `paceline host remove`"
            return f"{two}, and {open_runs} runs of the other are not over: give this one another --host-id or, {lost}"
        return ""

    def cut(self, host_id: str) -> None:
        """Ends its link, if it has one."""
        if self.link is not None:
            self.link.cut(host_id)
        self.link, self.ready = None, False


class Hosts:
    """All hosts by id, folded from what all gateways wrote. `number` gives a host its number."""

    def __init__(self, gateway: str, number: Callable[[str], int]) -> None:
        self._gateway = gateway
        self._number = number
        self._hosts: dict[str, HostConnection] = {}

    def __getitem__(self, host_id: str) -> HostConnection:
        """A host, which is known from when it is first asked for."""
        host = self._hosts.get(host_id)
        if host is None:
            host = self._hosts[host_id] = HostConnection(self._number(host_id))
        return host

    def get(self, host_id: str) -> HostConnection | None:
        """A host that is known."""
        return self._hosts.get(host_id)

    def ready(self, host_id: str) -> bool:
        """Whether a host has a link that has the whole wanted set."""
        host = self._hosts.get(host_id)
        return host is not None and host.ready

    def link(self, host_id: str) -> Link | None:
        """The link of a host."""
        host = self._hosts.get(host_id)
        return None if host is None else host.link

    def may_run_containers(self, host_id: str) -> bool:
        """Whether a host may run containers: this process has heard nothing else of it."""
        host = self._hosts.get(host_id)
        return host is not None and host.containers

    def detach(self, link: Link) -> None:
        """A link has ended."""
        for host in self._hosts.values():
            if host.link is link:
                host.link, host.ready = None, False

    def items(self) -> ItemsView[str, HostConnection]:
        """All hosts with their ids."""
        return self._hosts.items()

    def values(self) -> ValuesView[HostConnection]:
        """All hosts."""
        return self._hosts.values()

    def speaking(self, host_ids: Sequence[str], sessions: Sequence[int]) -> list[HostConnection] | None:
        """The hosts, if what all of them say to this gateway in these sessions counts."""
        connections = []
        for host_id, session in zip(host_ids, sessions, strict=True):
            host = self._hosts.get(host_id)
            if host is None or not host.current(self._gateway, session):
                return None
            connections.append(host)
        return connections

    def heard(self, event: HostConnected | HostSilent | HostBack) -> None:
        """Applies a record about a host's connection."""
        match event:
            case HostConnected():
                self._connected(event)
            case HostSilent():
                self._silent(event)
            case HostBack():
                self._back(event)

    def _connected(self, event: HostConnected) -> None:
        """A session in the log: of this gateway's own past, or of another gateway that has the host now."""
        host = self[event.host_id]
        if event.session > host.session:
            host.cut(event.host_id)
            host.connected(event.session, event.gateway, _machine(event))

    def _silent(self, event: HostSilent) -> None:
        """Applies the silence of a host. For one of this gateway's hosts it is no news, unless another gateway wrote
        it, to which this one was unreachable, or this one in an earlier process: by now the host may have been declared
        lost, so it must connect again and say what it runs.
        """
        host = self[event.host_id]
        if host.session != event.session or host.silent:
            return
        host.silent = True
        if host.gateway == self._gateway:
            host.cut(event.host_id)
            host.must_reconnect = True

    def _back(self, event: HostBack) -> None:
        """Applies that a host is heard again within its session: one that doesn't connect again then will be silent
        again.
        """
        host = self[event.host_id]
        if host.session == event.session:
            host.silent = False

    def reconciled(self, event: HostReconciled) -> None:
        """Lifecycle has settled what runs there in a session."""
        host = self[event.host_id]
        host.reconciled = max(host.reconciled, event.session)

    def removed(self, event: HostRemoved) -> bool:
        """Forgets a host that has left. False: it isn't known, or has connected since then, and stays."""
        host = self._hosts.get(event.host_id)
        if host is None or max(host.session, host.reconciled) > event.session:
            return False
        host.cut(event.host_id)
        del self._hosts[event.host_id]
        return True

    def dump(self) -> dict[str, Any]:
        """The folds, as plain values."""
        return {
            host_id: (
                *(host.session, host.gateway, host.silent, host.must_reconnect, host.reconciled),
                *(host.machine.id, host.machine.boot, host.machine.name, host.machine.key),
            )
            for host_id, host in self._hosts.items()
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Takes what `dump` gave."""
        for host_id, standing in state.items():
            host = self[host_id]
            host.session, host.gateway, host.silent, host.must_reconnect, host.reconciled, *machine = standing
            host.machine = MachineIdentity(*machine)


def _machine(event: HostConnected) -> MachineIdentity:
    return MachineIdentity(event.machine, event.boot, event.machine_name, event.key or "")
