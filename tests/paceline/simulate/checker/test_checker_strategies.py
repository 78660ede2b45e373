"""The checker finds tasks that are placed by another strategy than that of their job or of its pool."""

from pathlib import Path

import pytest

import tests.scenarios
from events.strategies import PACK
from paceline.simulate.checker.history import Violation
from processors.entitlement.state import State
from processors.placement.admissions import Admissions
from processors.placement.cluster_view import ClusterView
from processors.placement.rows import JobRow
from processors.placement.shape_view import ShapeView
from tests.scenarios.test_sharing import failures

SCENARIO = Path(tests.scenarios.__file__).parent / "placement/strategies.yaml"


def test_what_entitlement_says_of_a_pool_is_the_strategy_of_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(State, "strategy_of", lambda self, pool: PACK)
    with pytest.raises(Violation, match="admits wants-cpu to be placed by pack, /a/c has balanced"):
        failures(SCENARIO)


def test_placement_goes_by_the_strategy_of_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Admissions, "_know_strategies", lambda self, event: None)
    with pytest.raises(Violation, match=r"places .* by pack, it asks nothing: balanced"):
        failures(SCENARIO)


def test_placement_goes_by_the_strategy_of_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_pool_alone(self: ClusterView, number: int, job: JobRow | None = None, host: int | None = None) -> ShapeView:
        return ShapeView(self, self._known[number], (number, PACK if job is None else job.strategy, (), host))

    monkeypatch.setattr(ClusterView, "shape", of_pool_alone)
    with pytest.raises(Violation, match=r"places .* by pack, it asks balanced: balanced"):
        failures(SCENARIO)
