"""What the API says of strategies: that which holds, and where it is from."""

import pytest

from events.records.placement import CapacityChanged


def test_a_job_has_the_strategy_that_it_names_or_that_of_the_first_pool_above_with_one(api):
    api.pool("/a", strategy="spread")
    api.pool("/a/b")
    api.pool("/a/b/c", strategy="balanced")
    api.pool("/d")
    of_pools = {each["path"]: (each["strategy"], each["strategy_in_effect"]) for each in api.get("/v1/pools")["pools"]}
    inherited = {"name": "spread", "pool": "/a", "text": "spread (that of pool /a)"}
    assert of_pools == {
        "/a": ("spread", {"name": "spread", "pool": "/a", "text": "spread"}),
        "/a/b": (None, inherited),
        "/a/b/c": ("balanced", {"name": "balanced", "pool": "/a/b/c", "text": "balanced"}),
        "/d": (None, {"name": "pack", "pool": None, "text": "pack (the default)"}),
    }
    assert api.get("/v1/pools/a/b")["strategy_in_effect"] == inherited
    for job_id, pool, fields, text in (
        ("below", "/a/b", {}, "spread (that of pool /a)"),
        ("in", "/a/b/c", {}, "balanced (that of pool /a/b/c)"),
        ("own", "/a/b/c", {"strategy": "load-aware"}, "load-aware"),
        ("none", "/d", {}, "pack (the default)"),
    ):
        api.cell.accept(job_id, pool=pool, **fields)
        api.fold()
        told = [api.get(f"/v1/jobs/{job_id}{part}")["strategy_in_effect"]["text"] for part in ("", "/explanation")]
        assert told == [text, text]
    assert api.get("/v1/jobs/own")["strategy_in_effect"]["pool"] is None
    api.cell.accept("everywhere", pool="/a", kind="daemon")
    api.fold()
    assert api.get("/v1/jobs/everywhere")["strategy_in_effect"] is None


def test_where_hosts_have_gpus_pools_defined_since_there_is_adaptive_have_it_if_none_has_another(api):
    api.cell.decide("placement", CapacityChanged(version=1, capacity={"cpu": 8000, "gpu": 2000}, hosts=1))
    api.pool("/old")
    api.pool("/new", strategy="default")
    api.pool("/new/below", strategy="default")
    api.pool("/spread", strategy="spread")
    api.pool("/spread/below", strategy="default")
    pools = {each["path"]: each for each in api.get("/v1/pools")["pools"]}
    assert {path: each["strategy_in_effect"]["text"] for path, each in pools.items()} == {
        "/old": "pack (the default)",
        "/new": "adaptive (the default)",
        "/new/below": "adaptive (the default)",
        "/spread": "spread",
        "/spread/below": "spread (that of pool /spread)",
    }
    assert [pools[path]["strategy"] for path in ("/new", "/spread", "/spread/below")] == [None, "spread", None]
    assert api.get("/v1/pools/new")["strategy_in_effect"]["name"] == "adaptive"


@pytest.mark.parametrize(
    ("name", "hint"),
    [("spraed", "; did you mean spread?"), ("load", "; did you mean load-aware?"), ("best", ""), (7, "")],
)
def test_a_strategy_that_is_none_is_refused_with_the_nearest(api, name, hint):
    told = api.client.put("/v1/pools/a", json={"strategy": name})
    body = api.problem(told, 422, "INVALID_POOL")
    [fault] = (body or told.json())["errors"]
    assert fault["pointer"] == "/strategy"
    assert (
        fault["message"] == f"must be 'pack', 'spread', 'balanced', 'load-aware', 'fragmentation' or 'adaptive'{hint}"
    )
