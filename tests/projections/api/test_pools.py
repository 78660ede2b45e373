"""What the API says of pools: who waits where, how a number came about, what a change would do."""

from typing import Any

import pytest
from msgspec.structs import replace
from starlette.testclient import TestClient

from events.codes import Outcome
from events.columns import pack_longs
from events.records.entitlement import CreditsSet, EntitlementsSet, PoolAnswered, TurnSet
from events.records.placement import CapacityChanged
from events.resources import REVOCABLE
from projections.api.cell_router import create_cells_app
from tests.helpers.written_cell import CORE, accepted, admitted, ended, held, job, preempted, queued, unplaced
from tests.projections.conftest import LISTEN, TOKEN, Api

CPU = ("cpu",)


def shared(api: Api, **of: tuple[int, ...]) -> None:
    """Entitlement, demand, allocation, and what of that has hosts if that isn't all, of pools right below the root, in
    thousandths of a CPU.
    """
    columns = {name: pack_longs([each[: at + 1][-1] for each in of.values()]) for at, name in
               enumerate(("entitlement", "demand", "allocation", "placed"))}  # fmt: skip
    api.cell.decide("entitlement", EntitlementsSet(pools=tuple(f"/{name}" for name in of), resources=CPU, **columns))
    api.fold()


def capacity(api: Api, cpu: int) -> None:
    api.cell.decide("placement", CapacityChanged(capacity={"cpu": cpu, "memory": 4096}, hosts=3, version=1))
    api.fold()


def test_a_pool_shows_who_waits_by_class_and_the_first_that_is_not_let_in(api):
    api.pool("/p")
    for job_id, priority in (("low", 0), ("aside", 9), ("high", 5)):
        api.cell.accept(job_id, instances=3, priority=priority)
    api.cell.accept("firm", preemptible=False)
    api.cell.decide(
        "entitlement",
        held("low", (0, 1, 2), "BEHIND_IN_QUEUE"),
        held("aside", (0, 1, 2), "NEVER_FITS"),
        held("high", (1, 2), "ENTITLEMENT_REACHED"),
        held("firm", (0,), "RESERVATION_REACHED", firm=True),
        admitted("high", (0,)),
    )
    api.fold()
    pool = api.get("/v1/pools/p")
    assert pool["queue"] == {
        "preemptible": {"jobs": 3, "tasks": 8,
                        "head": {"job_id": "high", "code": "ENTITLEMENT_REACHED", "pool": "/p"}},
        "non_preemptible": {"jobs": 1, "tasks": 1,
                            "head": {"job_id": "firm", "code": "RESERVATION_REACHED", "pool": "/p"}},
    }  # fmt: skip
    assert pool["waiting_for_place"] == {"entitled": 1, "borrowed": 0}
    lines = api.get("/v1/queues/p?size=2")["classes"]
    assert [(each["job_id"], each["first"], each["count"], each["code"], each["priority"])
            for each in lines["preemptible"]["gangs"]] == [
        ("aside", 0, 3, "NEVER_FITS", 9),
        ("high", 1, 2, "ENTITLEMENT_REACHED", 5),
    ]  # fmt: skip
    assert lines["non_preemptible"]["gangs"][0]["asked"] == {"cpu": 1, "memory": "512MiB"}
    api.problem(api.client.get("/v1/queues/none"), 404, "NOT_FOUND")


def test_daemons_queue_apart_and_nobody_else_waits_behind_them(api):
    api.pool("/p")
    daemon = job("each", kind="daemon", priority=9)
    at = api.cell.submit("each", kind="daemon", priority=9)
    api.cell.decide("lifecycle", *accepted(replace(daemon, instances=1), at))
    for job_id in ("first", "next"):
        api.cell.accept(job_id)
    said = (("each", "LIMIT_REACHED"), ("first", "LIMIT_REACHED"), ("next", "BEHIND_IN_QUEUE"))
    api.cell.decide("entitlement", *(held(job_id, (0,), code) for job_id, code in said))
    api.fold()
    heads = {name: line["head"]["job_id"] for name, line in api.get("/v1/pools/p")["queue"].items()}
    assert heads == {"preemptible": "first", "daemons": "each"}
    lines = api.get("/v1/queues/p")["classes"]
    assert {name: [gang["job_id"] for gang in line["gangs"]] for name, line in lines.items()} == {
        "preemptible": ["first", "next"],
        "daemons": ["each"],
    }
    assert "behind 1 other of 1 job" in api.get("/v1/jobs/next/explanation")["headline"]["message"]


def test_work_on_slack_queues_apart(api):
    api.pool("/p")
    for job_id, revocable in (("idle", True), ("plain", False), ("idler", True)):
        at = api.cell.submit(job_id, revocable=revocable)
        asked = replace(job(job_id), resources={REVOCABLE if revocable else "cpu": 1000, "memory": 512})
        api.cell.decide("lifecycle", *accepted(asked, at))
    said = (("idle", "SLACK_REACHED"), ("plain", "ENTITLEMENT_REACHED"), ("idler", "BEHIND_IN_QUEUE"))
    api.cell.decide("entitlement", *(held(job_id, (0,), code) for job_id, code in said))
    api.fold()
    assert {name: line["head"]["job_id"] for name, line in api.get("/v1/pools/p")["queue"].items()} == {
        "preemptible": "plain",
        "revocable": "idle",
    }
    lines = api.get("/v1/queues/p")["classes"]
    assert [gang["job_id"] for gang in lines["revocable"]["gangs"]] == ["idle", "idler"]
    assert "behind 1 other of 1 job" in api.get("/v1/jobs/idler/explanation")["headline"]["message"]


def test_what_was_preempted_or_given_back_stands_at_its_place_by_priority_and_submission(api):
    api.pool("/p")
    api.cell.host()
    for job_id in ("first", "second", "third"):
        api.cell.accept(job_id, instances=2)
    api.cell.run("first", (0, 1))
    api.cell.decide("entitlement", held("second", (0, 1)), held("third", (0, 1)))
    api.cell.decide("lifecycle", ended("first", (1,), Outcome.PREEMPTED), queued("first", (1,), 2))
    api.cell.decide("entitlement", held("first", (1,), run=2))
    api.fold()
    gangs = api.get("/v1/queues/p")["classes"]["preemptible"]["gangs"]
    assert [(each["job_id"], each["first"], each["count"]) for each in gangs] == [
        ("first", 1, 1),
        ("second", 0, 2),
        ("third", 0, 2),
    ]


def test_the_tree_says_what_the_cell_has_and_that_more_is_reserved_than_that(api):
    api.pool("/p", reservation={"cpu": 6000})
    capacity(api, 8000)
    assert api.get("/v1/pools")["cells"] == [
        {"cell": 0, "hosts": 3, "capacity": {"cpu": 8, "memory": "4GiB"}, "demand": {}, "allocation": {},
         "held": {}, "without_hosts": {}, "warnings": []}
    ]  # fmt: skip
    api.pool("/q", reservation={"cpu": 3000})
    [cell] = api.get("/v1/pools")["cells"]
    assert cell["warnings"] == [
        "the pools at the first level reserve 9 cpu; the cell has 8 cpu. Each gets its part of that in proportion to "
        "its reservation. Add hosts, or lower a reservation"
    ]


def test_what_has_hosts_and_what_has_none_are_told_apart(api):
    api.pool("/p")
    shared(api, p=(4000, 9000, 6000, 2500))
    pool = api.get("/v1/pools/p")
    assert {name: pool[name]["cpu"] for name in ("allocation", "held", "without_hosts")} == {
        "allocation": 6,
        "held": 2.5,
        "without_hosts": 3.5,
    }


def test_how_long_a_pool_holds_more_than_it_may_is_counted(api):
    api.pool("/p")
    start = api.cell.ms
    shared(api, p=(1000, 4000, 3000))
    assert api.get("/v1/pools/p")["over_since"] == "2023-11-14T22:13:20.000Z"
    api.cell.ms += 5000
    shared(api, p=(3000, 4000, 3000))
    assert (api.get("/v1/pools/p")["over_since"], api.get("/v1/pools/p")["under_since"]) == (None, None)
    api.cell.ms += 1000
    api.cell.accept("a")
    api.cell.decide("entitlement", admitted("a", (0,)))
    shared(api, p=(4000, 4000, 4000, 3000))
    assert api.get("/v1/pools/p")["under_since"] == "2023-11-14T22:13:26.000Z"
    shared(api, p=(3000, 4000, 4000, 3000))
    assert api.get("/v1/pools/p")["over_since"] is None, "what has no hosts isn't held"
    assert api.cell.ms == start + 6000


def test_turns_and_credits_are_shown(api):
    api.pool("/p")
    api.cell.accept("a", instances=2)
    saved = CreditsSet(pools=("/p",), resources=CPU, credit=pack_longs([400]), rate=pack_longs([1]),
                       full=pack_longs([1000]))  # fmt: skip
    api.cell.decide("entitlement", saved)
    api.fold()
    assert api.get("/v1/pools/p")["credit"] == {"percent": 40, "saves": True, "at": "2023-11-14T22:13:20.000Z"}
    turn = TurnSet(pool="/p", job_id="a", first=0, count=2, run=1, floor=CORE, state="STARTED")
    api.cell.decide("entitlement", turn)
    api.fold()
    assert api.get("/v1/pools/p")["turn"] == {
        "job_id": "a",
        "first": 0,
        "count": 2,
        "floor": {"cpu": 1, "memory": "512MiB"},
        "since": "2023-11-14T22:13:20.000Z",
    }


def test_a_pool_says_line_by_line_how_what_it_may_use_came_about(api):
    capacity(api, 10_000)
    api.pool("/a", share_default=3)
    api.pool("/b")
    shared(api, a=(7500, 20_000, 0), b=(2500, 9000, 0))
    found = api.get("/v1/entitlements/a")
    assert found["lines"] == {
        "cpu": [
            "/a may use 7.5 cpu of the cell's 10 cpu: 7.5 cpu for its share of 3, at 2.5 cpu for each unit of share; "
            "it wants 20 cpu"
        ]
    }
    assert (found["entitlement"], found["note"]) == ({"cpu": 7.5}, None)
    shared(api, a=(1000, 20_000, 0))
    found = api.get("/v1/entitlements/a")
    assert (found["lines"], found["note"]) == (
        {},
        "what pools may use is being counted anew after a change; ask again in a moment",
    )


def test_a_turn_a_limit_too_large_reservations_and_the_cell_itself_are_explained(api):
    capacity(api, 80_000)
    for path, fields in (("/a", {}), ("/a/in", {}), ("/b", {}), ("/c", {"limit": {"cpu": 5000}})):
        api.pool(path, **fields)
    turn = TurnSet(pool="/a/in", job_id="big", first=0, count=2, run=1, floor={"cpu": 70_000}, state="STARTED")
    api.cell.decide("entitlement", turn)
    api.cell.decide("entitlement", EntitlementsSet(
        pools=("/a", "/a/in", "/b", "/c"), resources=CPU, entitlement=pack_longs([70_000, 70_000, 5000, 5000]),
        demand=pack_longs([70_000, 70_000, 60_000, 5000]), allocation=pack_longs([0] * 4), placed=pack_longs([0] * 4),
    ))  # fmt: skip
    api.fold()
    assert api.get("/v1/entitlements/a/in")["lines"] == {
        "cpu": [
            "/a may use 70 cpu of the cell's 80 cpu: the turn of job big in /a/in (share alone: 37.5 cpu); "
            "it wants 70 cpu",
            "/a/in may use 70 cpu of the 70 cpu of /a: the turn of job big (share alone: 37.5 cpu); it wants 70 cpu",
        ]
    }
    assert api.get("/v1/entitlements/c")["lines"] == {"cpu": ["/c may use 5 cpu of the cell's 80 cpu: its limit"]}
    whole = api.get("/v1/entitlements/")
    assert whole["lines"]["cpu"] == ["/ may use 80 cpu: all that the cell has, which has 3 hosts"]
    assert (whole["entitlement"]["cpu"], whole["note"]) == (80, None)
    api.pool("/b", reservation={"cpu": 99_000})
    assert api.get("/v1/entitlements/c")["note"].endswith(
        "the pools at the first level reserve 99 cpu; the cell has 80 cpu. Each gets its part of that in proportion to "
        "its reservation. Add hosts, or lower a reservation"
    )


def test_what_daemons_hold_is_not_there_to_share(api):
    """Pools that want more than there is are explained also while a daemon runs, and plans share the same amount."""
    capacity(api, 6000)
    api.pool("/maps")
    api.pool("/ads")
    api.pool("/system")
    api.cell.accept("m", pool="/maps", instances=8, resources={"cpu": 1, "memory": "0MiB"})
    api.cell.accept("a", pool="/ads", instances=8, resources={"cpu": 1, "memory": "0MiB"})
    rows = {"/": (5900, 20_100, 5000), "/ads": (2950, 9000, 0), "/maps": (2950, 11_000, 4900), "/system": (0, 0, 100)}
    columns = {name: pack_longs([row[at] for row in rows.values()]) for at, name in
               enumerate(("entitlement", "demand", "allocation"))}  # fmt: skip
    columns["placed"] = columns["allocation"]
    api.cell.decide("entitlement", EntitlementsSet(pools=tuple(rows), resources=CPU, **columns))
    api.fold()
    found = api.get("/v1/entitlements/maps")
    assert found["note"] is None
    assert found["lines"]["cpu"] == [
        "/maps may use 2.95 cpu of 5.9 cpu, the cell's 6 cpu without the 0.1 cpu of daemons: 2.95 cpu for its share of "
        "1, at 2.95 cpu for each unit of share; it wants 11 cpu"
    ]
    whole = api.get("/v1/entitlements/")
    assert whole["entitlement"]["cpu"] == 5.9
    assert whole["lines"]["cpu"] == [
        "/ may use 5.9 cpu: all that the cell has, which has 3 hosts and 6 cpu, without what daemons hold"
    ]
    for job_id in ("m", "a"):
        api.cell.decide("entitlement", held(job_id, tuple(range(8)), "ENTITLEMENT_REACHED"))
    plan = planned(api, {"path": "/maps", "share": 3})
    assert {each["path"]: (each["entitlement"]["before"]["cpu"], each["entitlement"]["after"]["cpu"])
            for each in plan["pools"]} == {"/ads": (2.95, 1.475), "/maps": (2.95, 4.425)}  # fmt: skip


def done(offset: int, fact: Any) -> tuple[PoolAnswered]:
    return (PoolAnswered(path=fact.path, pools_offset=offset, command_id=fact.command_id, code="DONE"),)


def test_a_pool_is_closed_and_all_else_stays(api):
    more = {"reservation": {"cpu": 500}, "limit": {"cpu": 900}, "share": {"cpu": 3}, "share_default": 2}
    texts = {"static": ("cpu",), "owners": ("ann",), "description": "tiles", "preemption_delay_ms": -1}
    api.pool("/p", **more, **texts, controllers_percent=50)
    before = api.get("/v1/pools/p")
    assert (before["preemption_delay"], before["static"], before["owners"]) == ("never", ["cpu"], ["ann"])
    api.answer("paceline.pools", "entitlement", done)
    assert api.client.patch("/v1/pools/p?wait=30s", json={"closed": True}).json()["code"] == "DONE"
    after = api.get("/v1/pools/p")
    assert {name: value for name, value in after.items() if before[name] != value} == {
        "closed": True,
        "position": "paceline.pools:1",
    }
    assert api.client.patch("/v1/pools/p?wait=30s", json={"preemption_delay": "5m"}).status_code == 200
    assert api.get("/v1/pools/p")["preemption_delay"] == "5m"
    api.problem(api.client.patch("/v1/pools/none", json={"closed": True}), 404, "NOT_FOUND")
    body = api.problem(api.client.patch("/v1/pools/p", json={"clsoed": True}), 422, "INVALID_POOL")
    assert "did you mean closed?" in body["errors"][0]["message"]


def planned(api: Api, *pools: dict[str, Any]) -> dict[str, Any]:
    api.fold()
    answer = api.client.post("/v1/pool-plans", json={"pools": list(pools)})
    assert answer.status_code == 200, answer.text
    [plan] = answer.json()["cells"]
    return plan


@pytest.fixture
def shared_cell(api: Api) -> Api:
    """Ten cores; /a runs on all, /b waits."""
    capacity(api, 10_000)
    api.cell.host(cpu=10_000)
    api.pool("/a", reservation={"cpu": 4000})
    api.pool("/b")
    for job_id, priority in (("old", 0), ("high", 9), ("firm", 0), ("young", 0)):
        api.cell.accept(job_id, pool="/a", instances=3 if job_id == "young" else 2, priority=priority,
                        preemptible=job_id != "firm", resources={"cpu": 1, "memory": "0MiB"})  # fmt: skip
    for job_id, count in (("old", 2), ("high", 2), ("firm", 2), ("young", 3)):
        api.cell.run(job_id, tuple(range(count)))
    api.cell.accept("w", pool="/b", instances=5, resources={"cpu": 1, "memory": "0MiB"})
    api.cell.decide("entitlement", held("w", (0, 1, 2, 3, 4), "ENTITLEMENT_REACHED"))
    return api


def test_a_dry_run_shows_the_difference_and_what_it_would_let_in_and_preempt(shared_cell):
    before = shared_cell.cell.log.ends(["paceline.pools"])
    plan = planned(shared_cell, {"path": "/b", "reservation": {"cpu": 5}})
    [change] = plan["changes"]
    assert (change["change"], change["code"]) == ("change", "DONE")
    assert change["fields"] == {"reservation": {"before": {}, "after": {"cpu": 5}}}
    assert {each["path"]: (each["entitlement"]["before"], each["entitlement"]["after"], each["allocation"])
            for each in plan["pools"]} == {
        "/a": ({"cpu": 7}, {"cpu": 5}, {"cpu": 9}),
        "/b": ({"cpu": 3}, {"cpu": 5}, {}),
    }  # fmt: skip
    assert plan["lets_in"] == [{"job_id": "w", "pool": "/b", "priority": 0, "tasks": 2}], "3 are within 3"
    assert plan["preempts"] == [
        {"job_id": "young", "pool": "/a", "priority": 0, "tasks": 1},
        {"job_id": "old", "pool": "/a", "priority": 0, "tasks": 1},
    ], "2 of young may have to leave already; one core is idle, so these are 4, and firm isn't preemptible"
    assert shared_cell.cell.log.ends(["paceline.pools"]) == before, "nothing is written"


def test_a_dry_run_of_what_is_so_already_shows_nothing(shared_cell):
    shared_cell.cell.accept("fixed", pool="/b", instances=2, preemptible=False, resources={"cpu": 1, "memory": "0MiB"})
    shared_cell.cell.decide("entitlement", held("fixed", (0, 1), "RESERVATION_REACHED", pool="/b", firm=True))
    plan = planned(shared_cell, {"path": "/a", "reservation": {"cpu": 4}})
    assert (plan["pools"], plan["lets_in"], plan["preempts"]) == ([], [], [])
    plan = planned(shared_cell, {"path": "/new"}, {"path": "/new/below"})
    assert (plan["pools"], plan["lets_in"], plan["preempts"]) == ([], [], [])


def test_a_dry_run_lets_in_what_its_class_a_limit_and_a_closed_pool_allow(shared_cell):
    cell = shared_cell.cell
    cell.accept("fixed", pool="/b", instances=4, priority=9, preemptible=False, resources={"cpu": 1, "memory": "0MiB"})
    cell.decide("entitlement", held("fixed", (0, 1, 2, 3), "RESERVATION_REACHED", pool="/b", firm=True))
    plan = planned(shared_cell, {"path": "/b", "reservation": {"cpu": 2}})
    assert [(each["job_id"], each["tasks"]) for each in plan["lets_in"]] == [("fixed", 2)]
    assert planned(shared_cell, {"path": "/b", "reservation": {"cpu": 6}, "closed": True})["lets_in"] == []
    plan = planned(shared_cell, {"path": "/b", "reservation": {"cpu": 1}, "limit": {"cpu": 2}})
    assert [(each["job_id"], each["tasks"]) for each in plan["lets_in"]] == [("fixed", 1)]


def test_a_dry_run_gives_a_pool_nothing_for_a_job_that_its_limit_can_never_let_in(shared_cell):
    cell = shared_cell.cell
    shared_cell.pool("/c", limit={"cpu": 4000})
    large = {"cpu": 5000, "memory": 0}
    cell.accept("large", pool="/c", priority=9, resources={"cpu": 5, "memory": "0MiB"})
    cell.decide("entitlement", held("large", (0,), pool="/c", at="/c", asked=large, limit={"cpu": 4000}))
    assert planned(shared_cell, {"path": "/c", "limit": {"cpu": 4}, "reservation": {"cpu": 4}})["pools"] == []
    plan = planned(shared_cell, {"path": "/c", "limit": {"cpu": 5}, "reservation": {"cpu": 5}})
    assert {"path": "/c", "entitlement": {"before": {}, "after": {"cpu": 5}}, "allocation": {}} in plan["pools"]
    assert plan["lets_in"] == [{"job_id": "large", "pool": "/c", "priority": 9, "tasks": 1}]


def test_a_dry_run_keeps_the_turn_that_a_pool_has(shared_cell):
    turn = TurnSet(pool="/b", job_id="w", first=0, count=5, run=1, floor={"cpu": 5000}, state="STARTED")
    shared_cell.cell.decide("entitlement", turn)
    plan = planned(shared_cell, {"path": "/b", "reservation": {"cpu": 5}})
    assert (plan["pools"], plan["lets_in"]) == ([], [])


def test_a_dry_run_says_what_entitlement_would_refuse_in_its_words(shared_cell):
    plan = planned(
        shared_cell,
        {"path": "/c", "reservation": {"cpu": 9}},
        {"path": "/c/d", "limit": {"cpu": 2}, "reservation": {"cpu": 10}} | {"limit": {"cpu": 20}},
        {"path": "/a", "reservation": {"cpu": 4}},
        {"path": "/x/y"},
    )
    told = {each["path"]: (each["change"], each["code"], each["message"]) for each in plan["changes"]}
    assert told["/c"][:2] == ("create", "DONE")
    assert "the pools at the first level reserve 13 cpu; the cell has 10 cpu." in told["/c"][2]
    assert told["/c/d"] == ("refuse", "INVALID_POOL", "cpu: the pools of /c would reserve 10, it has 9")
    assert told["/a"][:2] == ("unchanged", "REPEATED")
    assert told["/x/y"][:2] == ("refuse", "NO_SUCH_POOL")
    body = {"pools": [{"path": "/a"}, {"path": "/b", "limit": {"cpu": "much"}}, {"path": "b"}]}
    errors = shared_cell.problem(shared_cell.client.post("/v1/pool-plans", json=body), 422, "INVALID_POOL")["errors"]
    assert [each["pointer"] for each in errors] == ["/pools/1/limit/cpu"]


def test_a_claim_and_work_that_stands_aside_are_not_let_in_again(shared_cell):
    cell = shared_cell.cell
    cell.decide("entitlement", admitted("w", (0, 1)), held("w", (2,), "NEVER_FITS"))
    cell.decide("placement", unplaced("w"))
    plan = planned(shared_cell, {"path": "/b", "share": 9, "reservation": {"cpu": 6}})
    assert [(each["job_id"], each["tasks"]) for each in plan["lets_in"]] == [("w", 1)], "1 of 2 is within 3 of 5"
    cell.decide("entitlement", preempted(1, {"old": (0,)}, "w"))
    assert planned(shared_cell, {"path": "/b"})["changes"][0]["change"] == "unchanged"


def test_pools_of_several_cells_are_planned_each_in_its_own(tmp_path_factory):
    cells = [Api(tmp_path_factory.mktemp("views"), number) for number in (0, 1)]
    apps = {each.cell.log.cell: each.app for each in cells}
    client = TestClient(create_cells_app(apps), f"http://{LISTEN}", headers={"Authorization": f"Bearer {TOKEN}"})
    for each in cells:
        each.pool("/far", cell=1)
        capacity(each, 1000)
    pools = [{"path": "/far/new"}, {"path": "/here", "cell": 0}]
    plans = client.post("/v1/pool-plans", json={"pools": pools}).json()["cells"]
    assert {plan["cell"]: [each["path"] for each in plan["changes"]] for plan in plans} == {
        0: ["/here"],
        1: ["/far/new"],
    }
    assert [each["cell"] for each in client.get("/v1/pools").json()["cells"]] == [0, 1]
    assert client.get("/v1/queues/far").headers["log-cell"] == "1"
    assert client.get("/v1/entitlements/far").json()["cell"] == 1
    assert client.post("/v1/pool-plans", json={"pools": [{"path": "/x", "cell": 7}]}).status_code == 409
    for each in cells:
        each.close()
