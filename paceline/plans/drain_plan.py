"""The plan of a drain: whether placement takes it, and the tasks that leave and find no place elsewhere."""

from collections import Counter
from collections.abc import Iterable, Sequence

from sqlalchemy import Connection

from events.codes import IN_EFFECT, Code, Outcome, Stage, TaskState
from events.records.hosts import HostsDrainRequested
from events.records.lifecycle import RunsEnded
from events.records.placement import HostMaintenanceChanged
from paceline.client.maintenance_models import DrainPlan, UnplacedTasks
from paceline.plans.branch import Branch, Decision, hosts_answer
from paceline.plans.job_plan import standing
from paceline.plans.planning import Copy
from paceline.plans.pool_plan import ahead_ms
from processors.lifecycle.machine import Lifecycle
from projections.queries import entities, pool_tree
from projections.queries.host_maintenance import BOUND_KINDS
from projections.views.projector import Projector

WAITING = (TaskState.QUEUED, TaskState.BACKOFF)


def plan_drain(copy: Copy, fact: HostsDrainRequested, until_s: float) -> DrainPlan:
    """The plan of a drain on a branch, where no task ends by itself. `until_s`: see `Branch`."""
    lifecycle = copy.folds["lifecycle"].machine
    assert isinstance(lifecycle, Lifecycle)
    branch = Branch(copy.log, copy.folds, copy.clock, until_s)
    branch.settle()  # what was written before is decided before
    with copy.views.connect() as connection:
        specs = {row.path: pool_tree.spec_of(row) for row in pool_tree.pool_rows(connection)}
        ahead = ahead_ms(connection, specs)
    before = len(branch.decisions)
    [offset] = branch.append([fact])
    branch.settle()
    while not _is_over(lifecycle, branch.decisions[before:]) and branch.advance(ahead):
        pass
    decisions = branch.decisions[before:]
    projector = Projector(copy.log, copy.views)
    projector.fold_whole()
    with projector.views.read() as connection:
        unplaced = _unplaced(connection, Counter(job_id for job_id, _ in _waiting(lifecycle, decisions)))
    answer = hosts_answer(decisions, offset)
    return {
        "code": answer.code if answer else Code.NOT_YET_EVALUATED,
        "message": answer.message if answer else "",
        "refused": answer is not None and answer.code not in IN_EFFECT,
        "unplaced": unplaced,
        "looked_ahead_s": branch.passed_ms / 1000,
        "cut_short": branch.is_cut_short,
    }


def _is_over(lifecycle: Lifecycle, decisions: Sequence[Decision]) -> bool:
    """Whether all hosts that drain are empty, and what has left them is elsewhere."""
    stages: dict[str, int] = {}
    for each in decisions:
        if isinstance(each.event, HostMaintenanceChanged):
            stages |= zip(each.event.host_ids, each.event.stage_array.tolist(), strict=True)
    return set(stages.values()) <= {Stage.DRAINED} and not _waiting(lifecycle, decisions)


def _waiting(lifecycle: Lifecycle, decisions: Iterable[Decision]) -> list[tuple[str, int]]:
    """The tasks that have left their hosts and have no other."""
    tasks: dict[tuple[str, int], None] = {}
    for each in decisions:
        if not isinstance(each.event, RunsEnded):
            continue
        moved = each.event.outcome_array == Outcome.RELOCATED
        jobs, instances, _ = (column[moved].tolist() for column in each.event.items())
        tasks |= {(each.event.job_ids[job], instance): None for job, instance in zip(jobs, instances, strict=True)}
    states = lifecycle.tasks.arena["state"]
    waiting = []
    for job_id, instance in tasks:
        stretch = lifecycle.stretch(job_id)
        if stretch is not None and instance < stretch[1] and states[stretch[0] + instance] in WAITING:
            waiting.append((job_id, instance))
    return waiting


def _unplaced(connection: Connection, tasks: Counter[str]) -> list[UnplacedTasks]:
    """By job how many have no place, and why; what is bound to its host waits for it and isn't among them."""
    lines: list[UnplacedTasks] = []
    for job_id in sorted(tasks):
        row = entities.job_row(connection, job_id)
        if row is None or row.kind in BOUND_KINDS:
            continue
        reasons = standing(connection, job_id).reasons
        code, message = (reasons[0]["code"], reasons[0]["message"]) if reasons else (Code.NOT_YET_EVALUATED, "")
        lines.append({"job_id": job_id, "tasks": tasks[job_id], "code": code, "message": message})
    return lines
