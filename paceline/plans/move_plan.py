"""The plan of a move between host pools: the hosts that placement would choose now, with their scores, and the jobs
that may use fewer hosts once they have arrived.
"""

from events.codes import IN_EFFECT, Code
from events.records.hosts import HostPoolAssigned, HostPoolMoveRequested
from events.records.placement import HostPoolMoveStarted
from paceline.client.host_models import HostPoolMovePlan
from paceline.plans.branch import Branch, hosts_answer
from paceline.plans.host_pool_plan import hosts_of_jobs, jobs_with_fewer_hosts
from paceline.plans.planning import Copy


def plan_move(copy: Copy, fact: HostPoolMoveRequested, until_s: float) -> HostPoolMovePlan:
    """The plan of a move on a branch. `until_s`: see `Branch`."""
    branch = Branch(copy.log, copy.folds, copy.clock, until_s)
    branch.settle()  # what was written before is decided before
    hosts_before, before = hosts_of_jobs(copy), len(branch.decisions)
    [offset] = branch.append([fact])
    branch.settle()
    decisions = branch.decisions[before:]
    answer = hosts_answer(decisions, offset)
    is_taken = answer is not None and answer.code in IN_EFFECT
    events = [each.event for each in decisions if is_taken]
    moves = [each for each in events if isinstance(each, HostPoolMoveStarted)]
    columns = [
        zip(
            move.host_ids,
            *(each.tolist() for each in (move.controllers_array, move.tasks_array, move.priorities_array)),
            move.mean_s_array.tolist(),
            strict=True,
        )
        for move in moves[:1]
    ]
    if moves:  # as if all had arrived
        arrived = HostPoolAssigned(host_ids=moves[0].host_ids, host_pool=fact.target, command_id=f"{fact.command_id}-")
        branch.append([arrived])
        branch.settle()
    return {
        "code": answer.code if answer else Code.NOT_YET_EVALUATED,
        "message": answer.message if answer else "",
        "refused": answer is not None and not is_taken,
        "candidates": moves[0].candidates if moves else 0,
        "hosts": [
            {"host_id": host_id, "controllers": controllers, "tasks": tasks, "priorities": priorities, "mean_s": mean_s}
            for rows in columns
            for host_id, controllers, tasks, priorities, mean_s in rows
        ],
        "jobs": jobs_with_fewer_hosts(copy, hosts_before),
    }
