"""A plan, made of copies: the machines where a cell stands, its log from there on, its views."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Engine

from events.log.memory import MemoryLog
from events.records.base import Event
from events.records.jobs import JobSubmitted
from paceline.client.plan_models import JobPlan
from paceline.plans.branch import Branch, BranchClock
from paceline.plans.job_plan import horizon_ms, is_settled, job_plan, standing
from processors.lifecycle.machine import Lifecycle
from processors.runtime.fold import Fold
from projections.views.projector import Projector


class Copy(NamedTuple):
    """The parts that a plan begins from, and uses up: the log in memory, the machines after their last rounds in it,
    the views, and the time.
    """

    log: MemoryLog
    folds: Mapping[str, Fold]
    views: Engine
    clock: BranchClock


def plan_job(copy: Copy, facts: Sequence[Event], job_id: str, until_s: float) -> JobPlan:
    """The plan of facts of which the last submits or updates a job. `until_s`: when to stop, on the clock of this
    machine (`time.monotonic`).
    """
    lifecycle = copy.folds["lifecycle"].machine
    assert isinstance(lifecycle, Lifecycle)
    branch = Branch(copy.log, copy.folds, copy.clock, until_s)
    branch.settle()  # what was written before is decided before
    offset = branch.append(facts, job_id.encode())[-1]
    with copy.views.connect() as connection:
        is_update = not isinstance(facts[-1], JobSubmitted)
        ahead_ms = horizon_ms(connection, getattr(facts[-1], "pool", ""), is_update)
    branch.settle()
    projector = Projector(copy.log, copy.views)
    projector.fold_whole()
    with projector.views.read() as connection:
        first = standing(connection, job_id)
    while not is_settled(lifecycle, job_id, branch.decisions) and branch.advance(ahead_ms):
        pass
    projector.fold_whole()
    with projector.views.read() as connection:
        return job_plan(connection, branch, job_id, offset, first)
