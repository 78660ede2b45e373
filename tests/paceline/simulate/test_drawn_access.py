"""An admin binds roles and issues tokens while everything goes wrong: a second rule says how each fact is answered."""

from collections import deque
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random

import pytest

from paceline.simulate.checker import Violation
from paceline.simulate.faults.injection import Faults
from paceline.simulate.faults.trial import Trial
from paceline.simulate.scenario.random_scenario import draw_scenario
from paceline.simulate.world.cell import START_MS
from paceline.simulate.world.scripted_actions import Action
from processors.entitlement.access import Access
from processors.entitlement.access_rows import AccessFact, UnboundRow
from tests.helpers.drawn import seeds
from tests.processors.restored.histories import drawn_access

FACTS, ACTS = 40, 20


def trial(seed: int, views: Path | None = None) -> Trial:
    """A trial in which an admin writes too."""
    scenario = draw_scenario(seed, ACTS)
    made = Trial(scenario, Faults(seed), views)
    pools = ("/", "/none", *(pool.path for pool in scenario.pools))
    made.add(admin(Random(f"{seed}/access"), scenario.end or 1, pools, made))
    return made


def admin(draw: Random, end_ms: int, pools: tuple[str, ...], of: Trial) -> Iterator[Action]:
    for number, at_ms in enumerate(sorted(draw.randrange(end_ms) for _ in range(FACTS))):
        yield Action(at_ms, partial(of.append, drawn_access(draw, START_MS + at_ms, pools, f"access-{number}")))


@seeds(12, 3)
def test_what_an_admin_writes_is_answered_by_its_rule_whatever_goes_wrong(seed: int, tmp_path: Path) -> None:
    trial(seed, tmp_path).run()


def test_a_role_that_stays_when_it_is_unbound_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    take = Access.take

    def forgets(self: Access, offset: int, fact: AccessFact) -> None:
        if not isinstance(fact, UnboundRow):
            take(self, offset, fact)

    monkeypatch.setattr(Access, "take", forgets)
    with pytest.raises(Violation, match=r"answers RoleUnbound\(.* with DONE, not NO_SUCH_BINDING"):
        deque(map(Trial.run, map(trial, range(20))), maxlen=0)
