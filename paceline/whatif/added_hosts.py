"""The facts of hosts that a change adds or leaves out, as a gateway and an operator would write them."""

from collections.abc import Iterator

from events.abilities import abilities
from events.records.base import Event
from events.records.hosts import HostConnected, HostLossConfirmed, HostOffered, HostPoolAssigned, HostSilent
from events.records.tasks import HostInventory
from hostagent.gateway.facts import offered
from hostagent.messages import Hello
from paceline.simulate.scenario.parts import HostGroup
from paceline.whatif.branch import Timed
from paceline.whatif.lengths import SILENCE_MS
from paceline.whatif.settings import COMMAND

FIRST_SESSION = 1
HOSTS_KEY = b"hosts"


def facts_of(group: HostGroup, start_ms: int) -> Iterator[Timed]:
    """Yields the facts of added hosts, whose times count from `start_ms`. A failure is noticed as late as a gateway
    notices it.
    """
    names = group.names()
    if group.host_pool is not None:
        yield Timed(
            start_ms,
            HostPoolAssigned(host_ids=tuple(names), host_pool=group.host_pool, command_id=f"{COMMAND} {group.name}"),
            HOSTS_KEY,
        )
    for host_id in names:
        for event in _connects(group, host_id, FIRST_SESSION):
            yield Timed(start_ms + group.joins, event, host_id.encode())
        sessions = [(group.fails, FIRST_SESSION), (group.leaves, FIRST_SESSION + (group.returns is not None))]
        for gone_ms, session in sessions:
            if gone_ms is not None:
                silent = HostSilent(host_id=host_id, session=session)
                yield Timed(start_ms + gone_ms + SILENCE_MS, silent, host_id.encode())
        if group.returns is not None:
            for event in _connects(group, host_id, FIRST_SESSION + 1):
                yield Timed(start_ms + group.returns, event, host_id.encode())


def loss_of(host_id: str, session: int) -> Iterator[Event]:
    """A host isn't there from now on: what ran there is lost."""
    yield HostSilent(host_id=host_id, session=session)
    yield HostLossConfirmed(host_id=host_id, command_id=f"{COMMAND} {host_id}")


def _connects(group: HostGroup, host_id: str, session: int) -> Iterator[HostConnected | HostOffered | HostInventory]:
    spec = group.sim_host(1, 1)
    hello = Hello(
        session=session,
        capacity=spec.capacity,
        sizes=list(spec.sizes),
        attributes={"hostname": host_id} | abilities() | spec.attributes,
        taints=spec.taints,
        devices=list(spec.devices),
        cores=[core.numa for core in spec.cores],
    )
    yield HostConnected(host_id=host_id, session=session, gateway=COMMAND)
    yield offered(host_id, hello)
    yield HostInventory.pack(
        host_id=host_id, session=session, job_ids=(), job=[], instance=[], run=[], state=[], exit_code=[]
    )
