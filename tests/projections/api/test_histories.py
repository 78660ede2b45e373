"""Histories of pools and hosts: who changed what, when, why and where it stands; pages; what is kept, and how long."""

from events.records.entitlement import PoolAnswered
from events.records.hosts import (
    HostBack,
    HostConnected,
    HostOffered,
    HostRemovalRequested,
    HostSilent,
    HostTaintRequested,
)
from events.records.jobs import JobStopRequested
from events.records.parts import Actor
from events.records.placement import HostAnswered, HostAvoided, HostLost, HostRemoved, HostTrusted
from events.records.pools import CellConfigured, PoolDefined, PoolRemoved
from projections.queries import job_entries
from projections.views import tables
from projections.views.comparison import rows_of
from projections.views.other_histories import KEPT_MS
from projections.views.projector import Projector
from projections.views.retention import SWEEP_ROUNDS

ANN = Actor("ann", "environment", "10.0.0.7")
BEN = Actor("ben", "environment", "10.0.0.8")


def answer(api, fact, code="DONE", message=""):
    at = api.cell.fact(fact)
    path = getattr(fact, "path", "/")
    answered = PoolAnswered(path=path, pools_offset=at, command_id="c", code=code, message=message)
    api.cell.decide("entitlement", answered)
    return f"paceline.pools:{at}"


def lines(api, path):
    found = api.get(path)["events"]
    return [(each["actor"] and each["actor"]["name"], each["text"]) for each in found]


def test_a_pool_tells_who_changed_what_and_why_and_what_was_refused(api):
    maps = {"path": "/maps", "command_id": "c"}
    answer(api, PoolDefined(**maps, limit={"cpu": 4000, "memory": 4096}, actor=ANN))
    closed = answer(
        api,
        PoolDefined(
            **maps,
            limit={"cpu": 2000, "memory": 4096},
            preemption_delay_ms=5000,
            closed=True,
            reason="year's end",
            actor=ANN,
        ),
    )
    answer(api, PoolDefined(path="/maps/tiles", command_id="c"))
    answer(api, PoolRemoved(**maps, actor=ANN), "POOL_IN_USE", "it has 1 pool")
    answer(api, CellConfigured(command_id="c", host_lost_after_ms=120_000, reason="calm"))
    api.fold()
    assert lines(api, "/v1/pool-histories/maps") == [
        ("ann (unverified)", "/maps created: cpu limit none to 4, memory limit none to 4GiB"),
        (
            "ann (unverified)",
            "/maps changed: cpu limit 4 to 2, preemption_delay none to 5s, closed false to true: year's end",
        ),
        (None, "/maps/tiles created"),
        ("ann (unverified)", "removal of /maps refused, POOL_IN_USE: it has 1 pool"),
    ]
    second = api.get("/v1/pool-histories/maps")["events"][1]
    assert (second["machine"], second["detail"]["cause"], second["detail"]["reason"]) == (
        *("entitlement", closed),
        "year's end",
    )
    assert lines(api, "/v1/pool-histories/") == [(None, "settings of the cell changed: host_lost_after: calm")]
    api.problem(api.client.get("/v1/pool-histories/none"), 404, "NOT_FOUND")


def test_a_host_tells_what_became_of_it_and_who_asked(api):
    cell, on = api.cell, {"host_id": "h1", "session": 1}
    cell.fact(HostConnected(**on, gateway="g"))
    cell.fact(HostOffered(**on, capacity={"cpu": 4000}, attributes={"arch": "arm"}))
    cell.fact(HostOffered(**on, capacity={"cpu": 4000}, attributes={"arch": "arm"}))
    cell.fact(HostOffered(**on, capacity={"cpu": 4500, "memory": 1024}, attributes={"arch": "x86", "ssd": "yes"}))
    cell.fact(HostSilent(**on))
    cell.fact(HostBack(**on))
    cell.decide("placement", HostAvoided(host_id="h1", code="TASKS_FAILED", until_ms=5))
    cell.decide("placement", HostTrusted(host_id="h1", code="ASKED", avoided=1, most=1))
    at = cell.fact(HostRemovalRequested(host_id="h1", command_id="c", reason="scrapped", actor=ANN))
    cell.decide(
        "placement", HostAnswered(host_id="h1", hosts_offset=at, command_id="c", code="HOST_CONNECTED", message="m")
    )
    cell.decide("placement", HostLost(**on, code="SILENT", silent_ms=1))
    cell.decide("placement", HostRemoved(**on, code="ASKED", left_ms=1))
    api.fold()
    told = lines(api, "/v1/hosts/h1/history")
    assert [text for _, text in told if text.startswith("offers")] == [
        "offers 4 cpu",
    ]
    assert [text for _, text in told if text.startswith("changed its offer")] == [
        "changed its offer: cpu 4 to 4.5, memory 0MiB to 1GiB; attributes arch arm to x86, ssd none to yes",
    ]
    assert [text for _, text in told if "refused" in text] == ["removal refused, HOST_CONNECTED: m"]
    assert ("ann (unverified)", "removal requested: scrapped") in told
    events = [each["event"] for each in api.get("/v1/hosts/h1/history")["events"]]
    assert sorted(events) == sorted(
        [
            *("HostConnected", "HostOffered", "HostOffered", "HostSilent", "HostBack", "HostAvoided", "HostTrusted"),
            *("HostRemovalRequested", "HostAnswered", "HostLost", "HostRemoved"),
        ]
    )
    api.problem(api.client.get("/v1/hosts/none/history"), 404, "NOT_FOUND")


def test_histories_are_read_in_pages_and_tokens_belong_to_one(api):
    for number in range(5):
        answer(api, PoolDefined(path="/maps", command_id="c", description=f"{number}"))
    api.fold()
    texts, token = [], ""
    while True:
        page = api.get(f"/v1/pool-histories/maps?page_size=2&page_token={token}")
        texts += [each["detail"]["changes"]["description"][1] for each in page["events"]]
        if not (token := page["next_page_token"]):
            break
        last = token
    assert texts == ["0", "1", "2", "3", "4"]
    api.problem(api.client.get(f"/v1/hosts/h/history?page_token={last}"), 422, "BAD_PAGE_TOKEN")


def of_actor(api, path, actor, size=2):
    """Positions of the entries of a history that somebody wrote, by pages; each page but the last leads on."""
    positions, token = [], ""
    while True:
        page = api.get(f"{path}?actor={actor}&page_size={size}&page_token={token}")
        assert {each["actor"]["subject"] for each in page["events"]} <= {actor}
        positions += [each["position"] for each in page["events"]]
        if not (token := page["next_page_token"]):
            return positions


def test_a_history_tells_what_one_user_wrote_page_by_page_however_far_apart_that_is(api, monkeypatch):
    monkeypatch.setattr(job_entries, "LOOKED_AT_MAX", 3)
    api.cell.host("h1")
    api.cell.accept("a")
    for number in range(12):
        who = ANN if number % 5 == 0 else BEN
        answer(api, PoolDefined(path="/maps", command_id="c", description=f"{number}", actor=who))
        api.cell.fact(HostTaintRequested(host_id="h1", command_id="c", key="k", actor=who))
        api.cell.fact(JobStopRequested(job_id="a", command_id=f"{number}", actor=who))
    api.fold()
    paths = {"/v1/pool-histories/maps": 3, "/v1/hosts/h1/history": 3, "/v1/jobs/a/history": 3}
    for path, count in paths.items():
        whole = [each for each in api.get(f"{path}?page_size=500")["events"] if each["actor"]]
        for size in (1, 2, 500):
            wanted = [each["position"] for each in whole if each["actor"]["subject"] == "ann"]
            assert of_actor(api, path, "ann", size) == wanted
            assert len(wanted) == count
        assert of_actor(api, path, "somebody") == []
    token = api.get("/v1/hosts/h1/history?actor=ann&page_size=1")["next_page_token"]
    api.problem(api.client.get(f"/v1/hosts/h1/history?actor=ben&page_token={token}"), 422, "BAD_PAGE_TOKEN")


def test_a_removed_host_that_somebody_never_touched_has_a_history_of_them_without_entries(api):
    on = {"host_id": "h1", "session": 1}
    api.cell.fact(HostConnected(**on, gateway="g"))
    api.cell.fact(HostOffered(**on, capacity={"cpu": 4000}))
    api.cell.decide("placement", HostRemoved(**on, code="ASKED", left_ms=1))
    api.fold()
    assert lines(api, "/v1/hosts/h1/history?actor=ann") == []
    api.problem(api.client.get("/v1/hosts/none/history?actor=ann"), 404, "NOT_FOUND")


def test_what_is_old_goes_and_a_rebuild_tells_the_same(api, tmp_path):
    answer(api, PoolDefined(path="/maps", command_id="c", description="old"))
    api.fold()
    api.cell.ms += KEPT_MS + 1
    for number in range(SWEEP_ROUNDS + 1):
        answer(api, PoolDefined(path="/maps", command_id="c", description=f"{number}"))
    api.fold()
    texts = [text for _, text in lines(api, "/v1/pool-histories/maps")]
    assert len(texts) == SWEEP_ROUNDS + 1
    assert not any("old" in text.partition(" to ")[0] for text in texts[1:])
    (tmp_path / "again").mkdir()
    rebuilt = Projector(api.cell.log, tmp_path / "again")
    while rebuilt.step():
        pass
    with rebuilt.views.read() as one, api.projector.views.read() as other:
        assert sorted(rows_of(one, tables.history), key=str) == sorted(rows_of(other, tables.history), key=str)
    rebuilt.close()
