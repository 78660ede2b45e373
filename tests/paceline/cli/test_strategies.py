"""Strategies on the command line: which holds, and where it is from."""

import pytest

from tests.paceline.cli.test_commands import EXPLANATION, POOL
from tests.paceline.fake import job

OF_POOL = {"name": "spread", "pool": "/maps", "text": "spread (that of pool /maps)"}


def test_a_job_and_what_explains_it_say_the_strategy_and_where_it_is_from(cli, cell):
    cell.answer("GET", "/v1/jobs/a", job("a", strategy_in_effect=OF_POOL))
    assert ["strategy", *OF_POOL["text"].split()] in [line.split() for line in cli("job", "get", "a")[1].splitlines()]
    cell.answer("GET", "/v1/jobs/a/explanation", EXPLANATION | {"strategy_in_effect": OF_POOL})
    assert cli("job", "explain", "a")[1].splitlines()[2] == "  strategy: spread (that of pool /maps)"
    calm = {"job_id": "a", "state": "RUNNING", "headline": None, "reasons": [], "strategy_in_effect": OF_POOL}
    cell.answer("GET", "/v1/jobs/calm/explanation", calm)
    assert cli("job", "explain", "calm")[1].splitlines()[1] == "  strategy: spread (that of pool /maps)"


def test_a_pool_says_the_strategy_that_holds_in_it(cli, cell):
    cell.answer("GET", "/v1/pools/maps/tiles", POOL | {"strategy": None, "strategy_in_effect": OF_POOL})
    lines = cli("pool", "get", "/maps/tiles")[1].splitlines()
    assert [line.split(maxsplit=1) for line in lines if "strategy" in line] == [["strategy", OF_POOL["text"]]]


@pytest.mark.parametrize("name", ["spraed", "sprad"])
def test_a_pool_file_with_a_strategy_that_is_none_is_refused_with_the_nearest_before_anything_is_sent(
    cli, cell, tmp_path, name
):
    file = tmp_path / "pools.yaml"
    file.write_text(f"{{path: /maps, strategy: {name}}}\n")
    code, _, err = cli("pool", "apply", str(file))
    assert (code, cell.writes()) == (1, [])
    strategies = "'pack', 'spread', 'balanced', 'load-aware', 'fragmentation' or 'adaptive'"
    assert f"/strategy: must be {strategies}; did you mean spread?" in err
