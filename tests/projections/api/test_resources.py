"""Resources by name over HTTP: written as users write them, in each unit, whatever kinds the cell has."""

import pytest

from events.columns import pack_longs
from events.records.entitlement import EntitlementsSet, PoolAnswered
from events.records.hosts import HostConnected, HostOffered
from events.records.lifecycle import JobChanged
from events.records.parts import Cause, ResourceKind
from events.records.pools import CellConfigured
from tests.helpers.written_cell import held

KINDS = (ResourceKind("gpu/a100"), ResourceKind("scratch", "MiB"), ResourceKind("matlab", amount=5000))
SPEC = {"job_id": "a", "pool": "/p", "command": ["true"]}


@pytest.fixture
def known(api):
    """A cell that knows more than the four."""
    at = api.cell.fact(CellConfigured(command_id="c", resources=KINDS))
    api.cell.decide("entitlement", PoolAnswered(path="/", pools_offset=at, command_id="c", code="DONE"))
    api.pool(reservation={"gpu/a100": 1500, "scratch": 2048}, limit={"matlab": 0}, share={"gpu/a100": 3})
    return api


def test_the_cell_names_its_resources_their_units_and_its_licences(known):
    assert known.get("/v1/cell")["resources"] == [
        {"name": "cpu", "unit": "milli"},
        {"name": "memory", "unit": "MiB"},
        {"name": "disk", "unit": "MiB"},
        {"name": "gpu", "unit": "milli"},
        {"name": "gpu/a100", "unit": "milli"},
        {"name": "scratch", "unit": "MiB"},
        {"name": "matlab", "unit": "milli", "amount": 5},
    ]


def test_a_job_comes_back_as_it_was_written(known):
    resources = {"cpu": 1.5, "memory": "4GiB", "gpu/a100": 1, "scratch": "1TiB"}
    assert known.client.post("/v1/jobs", json={**SPEC, "resources": resources}).status_code == 202
    known.fold()
    shown = known.get("/v1/jobs/a")["spec"]["resources"]
    assert shown == {**resources, "disk": "0MiB", "gpu": 0}


def test_a_job_that_names_an_unknown_resource_is_refused_before_it_is_written(known):
    body = known.problem(
        known.client.post("/v1/jobs", json={**SPEC, "resources": {"gpu/a10": 1, "tpu": 1}}), 422, "UNKNOWN_RESOURCE"
    )
    told = "unknown resource 'gpu/a10' (did you mean gpu/a100?), 'tpu'; the cell has cpu, memory, disk, gpu, gpu/a100"
    assert body["detail"].startswith(told)
    assert [each["pointer"] for each in body["errors"]] == ["/resources/gpu~1a10", "/resources/tpu"]


def test_a_limit_of_an_unknown_resource_is_refused_though_it_is_none(known):
    body = known.problem(known.client.put("/v1/pools/q", json={"limit": {"tpu": None}}), 422, "UNKNOWN_RESOURCE")
    assert "the cell has cpu, memory, disk, gpu, gpu/a100" in body["detail"]
    assert [each["pointer"] for each in body["errors"]] == ["/limit/tpu"]
    assert known.client.put("/v1/pools/q", json={"limit": {"gpu/a100": None}}).status_code == 202


@pytest.mark.parametrize(
    ("asked", "remedy"),
    [
        (
            {"cpu": 1000, "matlab": 9000},
            "(9 matlab asked, the cell has 5 matlab); ask for less, or raise the licence matlab",
        ),
        ({"cpu": 9000, "matlab": 1000}, "(9 cpu asked, the cell has 4 cpu); ask for less, or add hosts"),
    ],
)
def test_who_asks_for_more_than_the_cell_has_is_told_what_helps(known, asked, remedy):
    known.cell.accept("a")
    capacity = {"cpu": 4000, "matlab": 5000}
    known.cell.decide("entitlement", held("a", (0,), "NEVER_FITS", at="/", asked=asked, entitlement=capacity))
    known.fold()
    headline = known.get("/v1/jobs/a/explanation")["headline"]["message"]
    assert headline == f"1 task asks for more than the whole cell has {remedy}"
    (said,) = [each for each in known.get("/v1/jobs/a/history")["events"] if each["event"] == "GangsHeld"]
    assert (said["detail"]["code"], said["detail"]["at"]) == ("NEVER_FITS", "/")
    (reason,) = known.get("/v1/jobs/a/explanation")["reasons"]
    assert reason["entitlement"] == {"cpu": 4, "matlab": 5}


def test_who_asks_for_more_than_the_cell_has_is_told_how_large_the_largest_host_is(known):
    known.cell.accept("a")
    cell, host = {"cpu": 4000, "matlab": 5000}, {"cpu": 2000, "matlab": 1000}
    asked = {"cpu": 9000, "matlab": 1000}
    known.cell.decide("entitlement", held("a", (0,), "NEVER_FITS", at="/", asked=asked, entitlement=cell, largest=host))
    known.fold()
    message = known.get("/v1/jobs/a/explanation")["headline"]["message"]
    has = "(9 cpu asked, the cell has 4 cpu); the largest host has 2 cpu; ask for less, or add hosts"
    assert message == f"1 task asks for more than the whole cell has {has}"


def test_the_history_of_a_job_names_causes_by_where_they_stand(known):
    known.cell.accept("a")
    cause = Cause(machine="lifecycle", round=7)
    known.cell.decide("lifecycle", JobChanged(job_id="a", state="RUNNING", cause=cause))
    known.fold()
    events = {each["event"]: each["detail"] for each in known.get("/v1/jobs/a/history")["events"]}
    assert events["JobChanged"]["cause"] == "round 7 of lifecycle"
    assert "shapes" not in events["JobAccepted"]


@pytest.mark.parametrize(
    ("resources", "pointer", "wanted"),
    [
        ({"gpu/a100": "2GiB"}, "/resources/gpu~1a100", "write a number, such as 2 or 0.5"),
        ({"scratch": 100}, "/resources/scratch", 'write a size, such as "2GiB"'),
    ],
)
def test_an_amount_in_another_unit_is_refused(known, resources, pointer, wanted):
    body = known.problem(known.client.post("/v1/jobs", json={**SPEC, "resources": resources}), 422, "INVALID_SPEC")
    assert [(each["pointer"], wanted in each["message"]) for each in body["errors"]] == [(pointer, True)]
    part = {"reservation": resources}
    body = known.problem(known.client.put("/v1/pools/q", json=part), 422, "INVALID_POOL")
    assert [each["pointer"] for each in body["errors"]] == [pointer.replace("resources", "reservation")]


def test_a_pool_shows_amounts_in_their_units_and_a_weight_for_each_resource(known):
    columns = {name: pack_longs([500, 2000, 3000]) for name in ("entitlement", "demand", "allocation", "placed")}
    names = ("cpu", "gpu/a100", "scratch")
    known.cell.decide("entitlement", EntitlementsSet(pools=("/p",), resources=names, **columns))
    known.fold()
    pool = known.get("/v1/pools/p")
    assert pool["reservation"] == {"gpu/a100": 1.5, "scratch": "2GiB"}
    assert pool["limit"] == {"matlab": 0}
    assert pool["share"] == {
        "cpu": 1,
        "memory": 1,
        "disk": 1,
        "gpu": 1,
        "gpu/a100": 3,
        "scratch": 1,
        "matlab": 1,
        "others": 1,
    }
    assert pool["demand"] == {"cpu": 0.5, "gpu/a100": 2, "scratch": "3000MiB"}


def test_a_host_shows_what_it_offers_in_vain(known):
    known.cell.fact(HostConnected(host_id="h1", session=1, gateway="g"))
    capacity = {"cpu": 8000, "gpu/a100": 2000, "scratch": 1024, "tpu": 4000, "matlab": 1000}
    known.cell.fact(HostOffered(host_id="h1", session=1, capacity=capacity, sizes=("gpu/a100", "scratch")))
    known.fold()
    host = known.get("/v1/hosts/h1")
    assert host["capacity"] == {"cpu": 8, "scratch": "1GiB"}
    assert {each["name"]: (each["code"], each["message"]) for each in host["ignored_resources"]} == {
        "gpu/a100": ("WRONG_UNIT", "the cell counts it otherwise; the host must offer a number, such as 2"),
        "matlab": ("LICENCE", "the cell has it as a licence, which no host offers"),
        "tpu": ("UNKNOWN_RESOURCE", "the cell doesn't know it; `paceline cell set --resource` defines it"),
    }
