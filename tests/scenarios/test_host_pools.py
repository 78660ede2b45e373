"""Jobs run in the host pools that they may use, and no more of them than these hold: scenarios in a user's words, with
the checker looking on all along.
"""

from pathlib import Path

import pytest

from tests.scenarios.test_sharing import failures

SCENARIOS = sorted((Path(__file__).parent / "host_pools").glob("*.yaml"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_what_was_promised_holds(path: Path) -> None:
    assert failures(path) == []
