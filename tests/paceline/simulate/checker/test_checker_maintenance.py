"""Promises of maintenance, broken in rounds that nobody but this test has written."""

from typing import Any

import pytest

from events.codes import RunCause, Stage, Step
from events.columns import pack_ints
from events.records.base import Event
from events.records.lifecycle import DisruptionAsked, RunsAvailable
from events.records.placement import HostMaintenanceChanged, MaintenanceWindowChanged
from events.records.sla import DisruptionAllowed
from paceline.simulate.checker.bound import Bound
from paceline.simulate.checker.budgets import Budgets
from paceline.simulate.checker.history import Violation
from paceline.simulate.checker.stages import SOON_MS, Stages
from tests.paceline.simulate.checker.checked import START, World, columns, job, placed


def staged(stage: Stage, **how: Any) -> HostMaintenanceChanged:
    times = {"preempt_at": [0], "force_at": [0], "check_until": [0]}
    flags = {"cordon": [0], "batch": [0], "step": [Step.NONE]}
    fields = times | flags | {"code": "ASKED", "by": "operator"} | how
    return HostMaintenanceChanged.pack(host_ids=("h",), stage=[stage], **fields)


def stages(world: World) -> Stages:
    return Stages(world.hosts, Bound(world.hosts))


def test_nothing_is_put_on_a_host_that_drains_and_none_is_drained_with_runs() -> None:
    world = World()
    fold = stages(world)
    world.runs(job("web", "/a", kind="stateless"), 1)
    with pytest.raises(Violation, match="are there"):
        fold.round(world.round([], [staged(Stage.DRAINED)]))
    with pytest.raises(Violation, match="which is DRAINING"):
        fold.round(world.round([], [staged(Stage.DRAINING), placed("web", 1)]))


def test_nobody_is_forced_before_the_time_that_was_set() -> None:
    world = World()
    with pytest.raises(Violation, match="it may from"):
        stages(world).round(world.round([], [staged(Stage.FORCING)]))
    with pytest.raises(Violation, match="by health"):
        stages(world).round(world.round([], [staged(Stage.FORCING, by="health")]))


def test_a_window_ends() -> None:
    world = World()
    fold = stages(world)
    opens = MaintenanceWindowChanged(window_id="night", state="OPEN", opens_ms=START, closes_ms=START + 1000)
    world.runs(job("web", "/a", kind="stateless"), 1)
    fold.round(world.round([], [opens, staged(Stage.DRAINING, by="window", source="night")]))
    fold.at_rest(START + 1000)
    with pytest.raises(Violation, match="all have closed"):
        fold.at_rest(START + 2000 + SOON_MS)


def ask(*instances: int, why: int = RunCause.DRAIN) -> DisruptionAsked:
    return DisruptionAsked(**columns("web", *instances), why=pack_ints([why] * len(instances)))


def budgets(world: World, *inputs: Event, decisions: tuple[Event, ...] = ()) -> None:
    service = job("web", "/a", kind="stateless", instances=3, max_unavailable=1)
    up = RunsAvailable(**columns("web", 0, 1, 2))
    Budgets().round(world.round([service, up, *inputs], decisions))


def test_no_more_goes_than_a_budget_lets_and_only_what_is_asked_for() -> None:
    world = World()
    budgets(world, ask(0, 1), decisions=(DisruptionAllowed(**columns("web", 0)),))
    with pytest.raises(Violation, match="of 1 that may be missing, 0 are"):
        budgets(world, ask(0, 1), decisions=(DisruptionAllowed(**columns("web", 0, 1)),))
    with pytest.raises(Violation, match="which nobody asks for"):
        budgets(world, ask(0), decisions=(DisruptionAllowed(**columns("web", 1)),))
    with pytest.raises(Violation, match="for nothing, which is available"):
        budgets(world, ask(0), decisions=(DisruptionAllowed(**columns("web", 0), free=pack_ints([1])),))
