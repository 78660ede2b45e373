"""A plan, made of copies: the machines where a cell stands, its log from there on, its views."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Engine

from events.log.memory import MemoryLog
from events.process.clock import SimulatedClock
from events.records.base import Event
from paceline.client.plan_models import JobPlan
from paceline.plans.branch import Branch
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
    clock: SimulatedClock


def plan_jobs(copy: Copy, jobs: Mapping[str, Sequence[Event]], until_s: float) -> list[JobPlan]:
    """The plans of jobs on one branch: of each the facts, of which the last submits or updates it, are decided before
    those of the next are appended. `until_s`: when to stop, on the clock of this machine (`time.monotonic`).
    """
    lifecycle = copy.folds["lifecycle"].machine
    assert isinstance(lifecycle, Lifecycle)
    branch = Branch(copy.log, copy.folds, copy.clock, until_s)
    branch.settle()  # what was written before is decided before
    with copy.views.connect() as connection:
        ahead_ms = max(horizon_ms(connection, facts[-1]) for facts in jobs.values())
    offsets: dict[str, int] = {}
    for job_id, facts in jobs.items():
        offsets[job_id] = branch.append(facts, job_id.encode())[-1]
        branch.settle()
    projector = Projector(copy.log, copy.views)
    projector.fold_whole()
    with projector.views.read() as connection:
        first = {job_id: standing(connection, job_id) for job_id in jobs}
    while not all(is_settled(lifecycle, job_id, branch.decisions) for job_id in jobs) and branch.advance(ahead_ms):
        pass
    projector.fold_whole()
    with projector.views.read() as connection:
        return [job_plan(connection, branch, job_id, offset, first[job_id]) for job_id, offset in offsets.items()]
