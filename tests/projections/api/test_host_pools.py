"""Host pools over HTTP: what is written, what is refused, and what is shown of them."""

from events.codec import decode
from events.records.hosts import HostPoolAssigned, HostPoolDefined, HostPoolMoveRequested
from events.records.parts import HostPoolPolicy
from events.records.placement import HostPoolChanged, HostPoolMoveStarted, HostsPooled
from projections.views.projector import rebuild
from tests.helpers.written_cell import dump

PATH = "/v1/host-pools/gpus"


def last(api):
    return decode(list(api.cell.log.scan("paceline.hosts", 0))[-1].value)


def defined(api):
    """Two hosts, of which one is in gpus."""
    for name in ("h1", "h2"):
        api.cell.host(name, rack=name)
    api.cell.decide("placement", HostPoolChanged(name="gpus", kinds=("batch",), description="research"))
    api.cell.decide("placement", HostsPooled(host_ids=("h2",), host_pool="gpus", code="ASKED"))
    api.fold()


def test_a_definition_is_written_with_the_kinds_of_its_name_and_its_policies(api):
    policy = {"source": "shared", "above": 60, "below": 40, "lasts": "5m", "hosts": 10}
    answer = api.client.put("/v1/host-pools/stateless", json={"elastic": [policy], "reason": "web", "command_id": "c"})
    assert (answer.status_code, answer.headers["location"]) == (202, "/v1/host-pools/stateless")
    fact = last(api)
    assert isinstance(fact, HostPoolDefined)
    assert (fact.name, fact.kinds, fact.reason, fact.command_id) == ("stateless", ("service",), "web", "c")
    assert fact.elastic == (HostPoolPolicy(source="shared", above=60, below=40, lasts_ms=300_000, hosts=10, keep=1),)
    api.client.put(PATH, json={"kinds": ["batch"]})
    assert last(api).kinds == ("batch",)
    api.problem(api.client.put(PATH, json={"elastic": [{**policy, "below": 60}]}), 422, "INVALID_REQUEST")
    api.problem(api.client.put(PATH, json={"kinds": ["gangs"]}), 422, "INVALID_REQUEST")


def test_host_pools_are_shown_with_their_hosts_and_moves_and_a_rebuild_shows_the_same(api, tmp_path):
    defined(api)
    move = {"source": "shared", "target": "gpus", "host_ids": ("h1",), "code": "LOAD_ABOVE"}
    columns = {"controllers": [0], "tasks": [1], "priorities": [3], "mean_s": [9]}
    api.cell.decide("placement", HostPoolMoveStarted.pack(**move, **columns, load=70, bound=60, since_ms=api.cell.ms))
    api.fold()
    body = api.get("/v1/host-pools")
    assert [(each["name"], each["hosts"], each["kinds"]) for each in body["host_pools"]] == [
        ("shared", 1, []),
        ("gpus", 1, ["batch"]),
    ]
    [shown] = body["moves"]
    assert (shown["source"], shown["host_ids"], shown["load"], shown["bound"]) == ("shared", ["h1"], 70, 60)
    assert api.get(PATH)["description"] == "research"
    assert [api.get(f"/v1/hosts/{name}")["host_pool"] for name in ("h1", "h2")] == ["shared", "gpus"]
    (tmp_path / "again").mkdir()
    assert dump(api.projector.views.engine) == dump(rebuild(api.cell.log, tmp_path / "again"))


def test_hosts_are_assigned_and_moved_by_name_attribute_or_number(api):
    defined(api)
    assert (
        api.client.post(f"{PATH}/assignments", json={"hosts": {"attribute": "rack", "values": ["h1"]}}).status_code
        == 202
    )
    fact = last(api)
    assert isinstance(fact, HostPoolAssigned)
    assert (fact.host_ids, fact.host_pool) == (("h1",), "gpus")
    body = {"source": "shared", "count": 2, "batch": "move", "deadline": "1h", "escalate": "preempt"}
    assert api.client.post(f"{PATH}/moves", json=body).status_code == 202
    fact = last(api)
    assert isinstance(fact, HostPoolMoveRequested)
    assert (fact.source, fact.target, fact.hosts, fact.host_ids) == ("shared", "gpus", 2, ())
    assert (fact.batch, fact.deadline_ms, fact.escalate) == ("move", 3_600_000, "preempt")
    api.client.post(f"{PATH}/moves", json={"source": "shared", "hosts": {"ids": ["h1"]}})
    assert last(api).host_ids == ("h1",)


def test_what_is_not_there_is_told(api):
    defined(api)
    api.problem(api.client.get("/v1/host-pools/none"), 404, "NOT_FOUND")
    api.problem(api.client.delete("/v1/host-pools/none"), 404, "NOT_FOUND")
    api.problem(api.client.post("/v1/host-pools/none/assignments", json={"hosts": {"ids": ["h1"]}}), 404, "NOT_FOUND")
    api.problem(api.client.post(f"{PATH}/assignments", json={"hosts": {"ids": ["h9"]}}), 404, "NOT_FOUND")
    api.problem(api.client.put("/v1/host-pools/No", json={}), 422, "INVALID_REQUEST")
