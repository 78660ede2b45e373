"""Hosts are taken and given back: scenarios in a user's words, with the checker looking on all along."""

from pathlib import Path

import pytest

from tests.scenarios.test_sharing import failures

SCENARIOS = sorted((Path(__file__).parent / "maintenance").glob("*.yaml"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_what_was_promised_holds(path: Path) -> None:
    assert failures(path) == []
