"""Actions of users and operators, and injected failures of hosts, by time."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from events.codec import encode
from events.instance_ranges import read_ranges
from events.records.base import Event
from events.records.hosts import (
    HostClearRequested,
    HostDeviceRequested,
    HostLossConfirmed,
    HostPoolAssigned,
    HostRemovalRequested,
    HostsCordonRequested,
    HostsLoaded,
    HostsResumeRequested,
    HostTaintRequested,
)
from events.records.jobs import JobActionRequested, JobPriorityRequested, JobStopRequested, JobUpdateRequested
from events.records.pools import PoolRemoved, RebalanceRequested
from paceline.simulate.scenario.host_pools import HostMove
from paceline.simulate.scenario.job_commands import (
    Deletion,
    HostCheck,
    Load,
    Offer,
    PriorityChange,
    Restart,
    SomeInstances,
    Start,
)
from paceline.simulate.scenario.parts import ScenarioJob
from paceline.simulate.scenario.scenario import JobCommand, Scenario, TimedAction
from paceline.simulate.world.cell import START_MS, SimulatedCell
from paceline.simulate.world.hosts import Hosts
from paceline.simulate.world.run_again import request_to_run_again

JobCommandFact = JobActionRequested | JobPriorityRequested | JobStopRequested | JobUpdateRequested


class Action(NamedTuple):
    """Something that is done at a time, in milliseconds from the start."""

    at_ms: int
    do: Callable[[], object]


OfHost = Callable[
    ..., HostLossConfirmed | HostRemovalRequested | HostClearRequested | HostTaintRequested | HostDeviceRequested
]
"""Makes the fact of an operator about a host."""


def actions(scenario: Scenario, cell: SimulatedCell) -> Iterator[Action]:
    """All that happens to a cell, by time; at the same time in the order of the file, settings and pools first."""
    alone = {name for event in scenario.events if (name := event.host())}
    reboots = any(event.campaign is not None and event.campaign.reboots for event in scenario.events)
    hosts = Hosts(cell, scenario.hosts, alone, say_boots=reboots)
    planned: list[Action] = []
    if scenario.cell is not None:
        planned.append(Action(0, partial(cell.append, scenario.cell.to_event("scenario"))))
    for number, pool in enumerate(scenario.pools):
        planned.append(Action(0, partial(cell.append, pool.to_event(pool.path, f"pool-{number}", cell.log.cell))))
    for number, host_pool in enumerate(scenario.host_pools):
        planned.append(Action(0, partial(cell.append, host_pool.fact(f"host-pool-{number}"))))
    for group in scenario.hosts:
        if group.host_pool is not None:
            planned.append(Action(0, partial(cell.append, _assignment(group.names(), group.host_pool, group.name))))
        planned.append(Action(group.joins, partial(hosts.join, group.name)))
        if group.fails is not None:
            planned.append(Action(group.fails, partial(hosts.fail, group.name)))
        if group.returns is not None:
            planned.append(Action(group.returns, partial(hosts.return_, group.name)))
        if group.leaves is not None:
            planned.append(Action(group.leaves, partial(hosts.fail, group.name)))
    for job in scenario.jobs:
        planned.append(Action(job.at, partial(_submit, cell, job, scenario.seed)))
    for number, event in enumerate(scenario.events):
        planned.append(Action(event.at, _action(cell, hosts, event, f"event-{number}", scenario.seed)))
    return iter(sorted(planned, key=lambda act: act.at_ms))


def _submit(cell: SimulatedCell, job: ScenarioJob, seed: int) -> None:
    cell.append(job.fact(seed), str(job.job_id).encode())


def _action(cell: SimulatedCell, hosts: Hosts, event: TimedAction, command_id: str, seed: int) -> Callable[[], object]:
    """The action of one event of a scenario."""
    match event:
        case TimedAction(submit=job) if job is not None:
            return partial(_submit, cell, job, seed)
        case TimedAction() if (command := event.command()) is not None:
            fact = _job_command(*command, command_id, seed)
            if command[0] == "start":
                about = command[1] if isinstance(command[1], Start) else None
                return partial(_start, cell, fact, about)
            return partial(cell.append, fact, fact.job_id.encode())
        case TimedAction(pool=pool) if pool is not None:
            return partial(cell.append, pool.to_event(pool.path, command_id, cell.log.cell))
        case TimedAction(remove_pool=path) if path is not None:
            return partial(cell.append, PoolRemoved(path=path, command_id=command_id))
        case TimedAction(rebalance=room) if room is not None:
            return partial(cell.append, RebalanceRequested(command_id=command_id, **room.model_dump()))
        case TimedAction(cell=settings) if settings is not None:
            return partial(cell.append, settings.to_event(command_id))
        case TimedAction(sla_group=bounds) if bounds is not None:
            return partial(cell.append, bounds.to_event(bounds.group, command_id))
        case TimedAction(load=load) if load is not None:
            return partial(_load, cell, hosts, load)
        case TimedAction(offers=offer) if offer is not None:
            return partial(_offer, cell, hosts, offer)
        case TimedAction(condition=check) if check is not None:
            return partial(_check, cell, hosts, check)
        case TimedAction(taint=taint) if taint is not None:
            fields = taint.model_dump(exclude={"host"})
            word = partial(HostTaintRequested, **fields)
            return partial(_say_of, cell, hosts, taint.host, command_id, word)
        case TimedAction(device=device) if device is not None:
            of_device = partial(HostDeviceRequested, **device.model_dump(exclude={"host"}))
            return partial(_say_of, cell, hosts, device.host, command_id, of_device)
        case TimedAction(drain=drain) if drain is not None:
            return partial(_say_of_all, cell, hosts, drain.host, partial(drain.to_event, command_id=command_id))
        case TimedAction(cordon=name) if name is not None:
            return partial(_say_of_all, cell, hosts, name, partial(HostsCordonRequested, command_id=command_id))
        case TimedAction(restore=name) if name is not None:
            return partial(_say_of_all, cell, hosts, name, partial(HostsResumeRequested, command_id=command_id))
        case TimedAction(campaign=campaign) if campaign is not None:
            of_campaign = campaign.to_event(hosts.groups, command_id)
            return partial(cell.append, of_campaign, of_campaign.maintenance_id.encode())
        case TimedAction(window=window) if window is not None:
            of_window = window.to_event(hosts.groups, command_id, START_MS)
            return partial(cell.append, of_window, of_window.window_id.encode())
        case TimedAction(host_pool=change) if change is not None:
            return partial(cell.append, change.fact(command_id))
        case TimedAction(assign=assign) if assign is not None:
            say = partial(_assignment, host_pool=assign.host_pool, command_id=command_id)
            return partial(_say_of_all, cell, hosts, assign.host, say)
        case TimedAction(move=move) if move is not None:
            return partial(_move, cell, hosts, move, command_id)
        case TimedAction(lose=name) if name is not None:
            return partial(cell.lose, name)
        case TimedAction(heal=name) if name is not None:
            return partial(cell.heal, name)
        case TimedAction(silent=name) if name is not None:
            return partial(hosts.silence, name)
        case TimedAction(returns=name) if name is not None:
            return partial(hosts.return_, name)
        case TimedAction(confirm_loss=name) if name is not None:
            return partial(_say_of, cell, hosts, name, command_id, HostLossConfirmed)
        case TimedAction(remove=name) if name is not None:
            return partial(_say_of, cell, hosts, name, command_id, HostRemovalRequested)
        case TimedAction(clear=name) if name is not None:
            return partial(_say_of, cell, hosts, name, command_id, HostClearRequested)
    return partial(hosts.fail, event.fails or event.leaves or "")


def _assignment(host_ids: Iterable[str], host_pool: str, command_id: str) -> HostPoolAssigned:
    return HostPoolAssigned(host_ids=tuple(host_ids), host_pool=host_pool, command_id=command_id)


def _move(cell: SimulatedCell, hosts: Hosts, move: HostMove, command_id: str) -> None:
    host_ids = hosts.host_ids(move.host) if move.host is not None else ()
    cell.append(move.to_move(move.target, tuple(host_ids), command_id))


def _start(cell: SimulatedCell, fact: JobCommandFact, about: Start | None) -> None:
    """Starts instances of a job; one that has ended is open again by that."""
    again = request_to_run_again(cell.log, fact.job_id, about, fact.command_id)
    cell.append(again or fact, fact.job_id.encode())


def _job_command(action: str, about: JobCommand, command_id: str, seed: int) -> JobCommandFact:
    """The fact of a command about a job."""
    job_id = about if isinstance(about, str) else str(about.job_id)
    match about:
        case PriorityChange():
            return JobPriorityRequested(job_id=job_id, command_id=command_id, priority=about.priority)
        case ScenarioJob():
            return JobUpdateRequested(job_id=job_id, command_id=command_id, spec=encode(about.fact(seed)))
    ranges = read_ranges(about.instances or "") if isinstance(about, SomeInstances) else []
    first, count = zip(*ranges, strict=True) if ranges else ((), ())
    if action == "stop":
        return JobStopRequested.pack(job_id=job_id, command_id=command_id, first=first, count=count)
    return JobActionRequested.pack(
        job_id=job_id,
        command_id=command_id,
        action=action,
        first=first,
        count=count,
        batch=about.batch if isinstance(about, Restart) else 0,
        force=isinstance(about, Deletion) and about.force,
    )


def _load(cell: SimulatedCell, hosts: Hosts, load: Load) -> None:
    """Hosts say what they use and lend, those that are there."""
    there = [(host_id, session, load.steps(*size)) for host_id, session, size in hosts.present(load.host)]
    if there:
        host_ids, sessions, steps = zip(*there, strict=True)
        cpu, memory, slack = zip(*steps, strict=True)
        loads = HostsLoaded.pack(
            gateway="scenario",
            host_ids=host_ids,
            host_session=sessions,
            cpu_used=cpu,
            memory_used=memory,
            slack=slack,
        )
        cell.append(loads, host_ids[0].encode())


def _check(cell: SimulatedCell, hosts: Hosts, check: HostCheck) -> None:
    """Checks of hosts have a result, of those that are there."""
    for host_id, session, _ in hosts.present(check.host):
        cell.append(check.to_event(host_id, session), host_id.encode())


def _offer(cell: SimulatedCell, hosts: Hosts, offer: Offer) -> None:
    """Hosts offer something else, those that are there."""
    for fact in hosts.offered(offer.host, offer):
        cell.append(fact, fact.host_id.encode())


def _say_of(cell: SimulatedCell, hosts: Hosts, name: str, command_id: str, fact: OfHost) -> None:
    for host_id in hosts.host_ids(name):
        cell.append(fact(host_id=host_id, command_id=f"{command_id}-{host_id}"), host_id.encode())


def _say_of_all(cell: SimulatedCell, hosts: Hosts, name: str, fact: Callable[..., Event]) -> None:
    """One fact about all hosts of a name."""
    host_ids = tuple(hosts.host_ids(name))
    cell.append(fact(host_ids=host_ids), host_ids[0].encode())
