"""What the API says of pools: who waits where, how a number came about, what a change would do."""

import asyncio
from typing import Any

from msgspec.structs import replace
from starlette.testclient import TestClient

from events.codes import Outcome
from events.columns import pack_longs
from events.records.entitlement import CreditsSet, EntitlementsSet, PoolAnswered, TurnSet
from events.records.placement import CapacityChanged
from events.records.pools import PoolDefined
from events.resources import REVOCABLE
from projections.api.cell_router import create_cells_app
from projections.api.context import Context
from projections.api.pool_writes import PoolWrites
from projections.api.preconditions import Conditions
from tests.helpers.written_cell import CORE, accepted, admitted, ended, held, job, queued
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
        "what pools may use is being computed after a change, which takes seconds; ask again then",
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
    """Pools that want more than there is are explained also while a daemon runs."""
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


def test_a_change_of_pools_is_planned_as_it_would_be_written(api):
    api.pool("/b")
    before = api.cell.log.ends(["paceline.pools"])
    plan = planned(api, {"path": "/b", "reservation": {"cpu": 5}}, {"path": "/b/new"})
    assert plan["cell"] == 0
    assert [(each.path, each.reservation) for each in api.plans.facts] == [("/b", {"cpu": 5000}), ("/b/new", {})]
    assert api.cell.log.ends(["paceline.pools"]) == before


def test_pools_with_mistakes_are_not_planned(api):
    body = {"pools": [{"path": "/a"}, {"path": "/b", "limit": {"cpu": "much"}}, {"path": "b"}]}
    errors = api.problem(api.client.post("/v1/pool-plans", json=body), 422, "INVALID_POOL")["errors"]
    assert [each["pointer"] for each in errors] == ["/pools/1/limit/cpu"]
    assert api.plans.facts == []


def test_pools_of_several_cells_are_planned_each_in_its_own(tmp_path_factory):
    cells = [Api(tmp_path_factory.mktemp("views"), number) for number in (0, 1)]
    apps = {each.cell.log.cell: each.app for each in cells}
    client = TestClient(create_cells_app(apps), f"http://{LISTEN}", headers={"Authorization": f"Bearer {TOKEN}"})
    for each in cells:
        each.pool("/far", cell=1)
        capacity(each, 1000)
    pools = [{"path": "/far/new"}, {"path": "/here", "cell": 0}]
    plans = client.post("/v1/pool-plans", json={"pools": pools}).json()["cells"]
    assert [plan["cell"] for plan in plans] == [0, 1]
    assert [[fact.path for fact in each.plans.facts] for each in cells] == [["/here"], ["/far/new"]]
    assert [each["cell"] for each in client.get("/v1/pools").json()["cells"]] == [0, 1]
    assert client.get("/v1/queues/far").headers["log-cell"] == "1"
    assert client.get("/v1/entitlements/far").json()["cell"] == 1
    assert client.post("/v1/pool-plans", json={"pools": [{"path": "/x", "cell": 7}]}).status_code == 409
    for each in cells:
        each.close()


def answering(api: Api) -> None:
    """Entitlement does whatever is asked."""
    api.answer("paceline.pools", "entitlement", lambda at, event: (
        PoolAnswered(path=event.path, pools_offset=at, command_id=event.command_id, code="DONE", message="m"),
    ))  # fmt: skip


def test_a_pool_that_is_there_is_replaced_only_by_who_says_which_version(api):
    answering(api)
    made = api.client.put("/v1/pools/p?wait=30s", json={"share": 2}, headers={"If-None-Match": "*"})
    assert (made.status_code, made.headers["location"]) == (201, "/v1/pools/p")
    read = api.client.get("/v1/pools/p")
    assert read.headers["etag"] == made.headers["etag"] == f'"{read.json()["position"]}"'
    body = api.problem(api.client.put("/v1/pools/p?wait=30s", json={}), 428, "PRECONDITION_REQUIRED")
    assert f"If-Match: {read.headers['etag']}" in body["detail"]
    assert api.get("/v1/pools/p")["share"]["cpu"] == 2, "an empty body resets nothing"
    again = api.client.put("/v1/pools/p?wait=30s", json={"share": 2}, headers={"If-None-Match": "*"})
    assert api.problem(again, 412, "VERSION_CONFLICT")["detail"] == "pool /p is there already"
    seen = {"If-Match": read.headers["etag"]}
    mine = api.client.put("/v1/pools/p?wait=30s", json={"share": 3}, headers=seen)
    assert (mine.status_code, "location" in mine.headers) == (200, False)
    for method, more in (("PUT", {"json": {"share": 4}}), ("PATCH", {"json": {"share": 4}}), ("DELETE", {})):
        theirs = api.client.request(method, "/v1/pools/p?wait=30s", headers=seen, **more)
        body = api.problem(theirs, 412, "VERSION_CONFLICT")
        assert (body["detail"].startswith("pool /p is of paceline.pools:1 now"), body["position"]) == (
            True,
            "paceline.pools:1",
        )
    assert api.get("/v1/pools/p")["share"]["cpu"] == 3
    whatever = api.client.put("/v1/pools/p?wait=30s", json={"share": 5}, headers={"If-Match": "*"})
    of_two = {"If-Match": f'"x", {whatever.headers["etag"]}'}
    assert api.client.put("/v1/pools/p?wait=30s", json={"share": 6}, headers=of_two).status_code == 200
    assert api.client.patch("/v1/pools/p?wait=30s", json={"closed": True}).status_code == 200
    gone = api.client.put("/v1/pools/q?wait=30s", json={}, headers={"If-Match": "*"})
    assert api.problem(gone, 412, "VERSION_CONFLICT")["detail"].startswith("pool /q isn't there")


def test_who_has_a_definition_of_a_pool_is_not_sent_it_again(api):
    api.pool("/p")
    etag = api.client.get("/v1/pools/p").headers["etag"]
    for known in (etag, "*", f'"other", {etag}', f"W/{etag}", f'"other", W/{etag}'):
        answer = api.client.get("/v1/pools/p", headers={"If-None-Match": known})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", etag)
        assert answer.headers["log-position"]
    assert api.client.get("/v1/pools/p", headers={"If-None-Match": '"other"'}).status_code == 200
    weak = api.client.put("/v1/pools/p?wait=30s", json={}, headers={"If-Match": f"W/{etag}"})
    api.problem(weak, 412, "VERSION_CONFLICT")
    head = api.client.head("/v1/pools/p")
    assert (head.status_code, head.headers["etag"], head.content) == (200, etag, b"")
    assert api.client.head("/v1/pools/none").status_code == 404
    assert api.client.head("/v1/events").status_code == 405


def test_a_change_waits_for_the_one_before_it(api, monkeypatch):
    monkeypatch.setattr("projections.api.context.POOL_WAIT_S", 0.01)
    assert api.client.put("/v1/pools/p", json={}).status_code == 202
    api.fold()
    for headers in ({}, {"If-None-Match": "*"}):
        undecided = api.client.put("/v1/pools/p", json={"share": 2}, headers=headers)
        assert "an earlier change of pool /p is not decided yet" in api.problem(undecided, 503, "NOT_REACHED")["detail"]


def test_of_two_who_create_a_pool_at_once_one_does(api, monkeypatch):
    monkeypatch.setattr("projections.api.context.POOL_WAIT_S", 0.01)

    async def settled(_):
        await asyncio.sleep(0)
        api.fold()

    monkeypatch.setattr(Context, "settle_pools", settled)
    writes = PoolWrites(api.app.state.context)

    async def create(command_id):
        return await writes.append("/p", Conditions("", "*"), lambda _: PoolDefined(path="/p", command_id=command_id))

    async def play():
        return await asyncio.gather(create("a"), create("b"), return_exceptions=True)

    first, second = asyncio.run(play())
    assert (first.fact.command_id, second.code) == ("a", "NOT_REACHED")
    assert api.cell.log.bounds("paceline.pools")[1] == 1
