"""The plan of room for a waiting job: the tasks that would be moved now if somebody asked for it, and where to."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from events.codes import IN_EFFECT, Code
from events.records.base import Event
from events.records.entitlement import PoolAnswered, PreemptionRefused, PreemptionsOrdered
from events.records.placement import TasksPlaced
from events.records.pools import RebalanceRequested
from paceline.client.plan_models import RebalancePlan, TaskToMove
from paceline.plans.branch import Branch, Decision
from paceline.plans.planning import Copy
from processors.lifecycle.machine import Lifecycle

AHEAD_MS = 30_000
"""Moved tasks have their new places by then: they go back to the queue, and are placed at once."""
Task = tuple[str, int]


def plan_rebalance(copy: Copy, fact: RebalanceRequested, until_s: float) -> RebalancePlan:
    """The plan of a request on a branch, by the rules by which it is carried out. `until_s`: see `Branch`."""
    lifecycle = copy.folds["lifecycle"].machine
    assert isinstance(lifecycle, Lifecycle)
    branch = Branch(copy.log, copy.folds, copy.clock, until_s)
    branch.settle()  # what was written before is decided before
    before, host_of = len(branch.decisions), _hosts(lifecycle)
    [offset] = branch.append([fact])
    branch.settle()
    while not _are_placed(branch.decisions[before:], fact.job_id) and branch.advance(AHEAD_MS):
        pass
    events = [each.event for each in branch.decisions[before:]]
    answers = [each for each in events if isinstance(each, PoolAnswered) and each.pools_offset == offset]
    answer = answers[0] if answers else None
    orders = [each for each in events if isinstance(each, PreemptionsOrdered) and each.for_job == fact.job_id]
    orders = [each for each in orders if each.code == Code.REBALANCED]
    places = _places(events)
    refusals = [each for each in events if isinstance(each, PreemptionRefused) and each.job_id == fact.job_id]
    message = answer.message if answer else ""
    if not orders and any(each.code == Code.MOVES_REACHED for each in refusals):
        message = f"more tasks would have to be moved than {fact.max_moves or 'the cell lets be moved in this hour'}"
    return {
        "code": answer.code if answer else Code.NOT_YET_EVALUATED,
        "message": message,
        "refused": answer is not None and answer.code not in IN_EFFECT,
        "host_ids": list(dict.fromkeys(host_id for order in orders for host_id in order.host_ids)),
        "moves": [move for order in orders for move in _moves(order, host_of, places)],
    }


def _are_placed(decisions: Sequence[Decision], job_id: str) -> bool:
    """Whether somebody is moved for a job, and all who are have new places."""
    moved: set[Task] = set()
    for each in decisions:
        event = each.event
        if isinstance(event, PreemptionsOrdered) and event.for_job == job_id and event.code == Code.REBALANCED:
            moved |= {
                (event.job_ids[job], instance) for job, instance, _ in zip(*map(list, event.items()), strict=True)
            }
    return bool(moved) and moved <= _places(each.event for each in decisions).keys()


def _hosts(lifecycle: Lifecycle) -> Callable[[Task], str]:
    """Names the host that a task has now, whatever becomes of it; empty: none."""
    numbers, bases = lifecycle.tasks.arena["host"].copy(), {job_id: row.base for job_id, row in lifecycle.jobs.items()}

    def host_of(task: Task) -> str:
        number = int(numbers[bases[task[0]] + task[1]])
        return lifecycle.hosts.named(number)[0] if number else ""

    return host_of


def _places(events: Iterable[Event]) -> dict[Task, str]:
    """The hosts on which tasks are placed; the last of each."""
    places: dict[Task, str] = {}
    for event in events:
        if isinstance(event, TasksPlaced):
            columns = (*event.items(), event.host_array)
            for job, instance, _, host in zip(*(column.tolist() for column in columns), strict=True):
                places[event.job_ids[job], instance] = event.host_ids[host]
    return places


def _moves(order: PreemptionsOrdered, host_of: Callable[[Task], str], places: dict[Task, str]) -> Iterator[TaskToMove]:
    for job, instance, run in zip(*(column.tolist() for column in order.items()), strict=True):
        task = (order.job_ids[job], instance)
        yield {
            "job_id": task[0],
            "instance": instance,
            "run": run,
            "from_host": host_of(task),
            "to_host": places.get(task),
        }
