"""The log in words, the newest first: page by page all of it, and what is asked for of it."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from events.codec import decode
from events.records.base import Event
from events.records.rounds import RoundCommitted
from events.topics import ALL
from projections.api.app import create_app
from projections.queries import log_records
from projections.views.projector import Projector
from tests.helpers.past import past
from tests.projections.conftest import LISTEN, TOKEN


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Any:
    projector = Projector(past(), tmp_path_factory.mktemp("views"))
    projector.fold_whole()
    app = create_app(projector.views, past(), token=TOKEN, listen=LISTEN, cell_info=dict)
    yield TestClient(app, f"http://{LISTEN}", headers={"Authorization": f"Bearer {TOKEN}"})
    projector.close()


def listed(client: TestClient, query: str = "") -> list[dict[str, Any]]:
    """All records of a filter, over all pages."""
    found, token = [], ""
    while True:
        answer = client.get(f"/v1/log?page_size=100{query}&page_token={token}")
        assert answer.status_code == 200, answer.text
        body = answer.json()
        found += body["records"]
        token = body["next_page_token"]
        if not token:
            return found


def said() -> dict[str, list[Event]]:
    """By position the facts, and the decisions of rounds."""
    found = {}
    for topic in ALL:
        for record in past().scan(topic.name, 0):
            event = decode(record.value)
            events = list(map(decode, event.decisions)) if isinstance(event, RoundCommitted) else [event]
            found[f"{record.topic}:{record.offset}"] = events
    return found


def test_all_pages_together_are_the_whole_log_each_record_once_and_the_newest_first(client: TestClient) -> None:
    found = listed(client)
    assert sorted(each["position"] for each in found) == sorted(said())
    times = [each["at"] for each in found]
    assert times == sorted(times, reverse=True)
    for topic in ALL:
        offsets = [
            int(each["position"].split(":")[1]) for each in found if each["position"].startswith(f"{topic.name}:")
        ]
        assert offsets == sorted(offsets, reverse=True)


@pytest.mark.parametrize("kind", ["RunsEnded", "HostSilent", "EpochStarted", "GangsUnplaced"])
def test_a_kind_is_found_wherever_it_stands(client: TestClient, kind: str) -> None:
    found = {each["position"]: len(each["records"]) + each["more"] for each in listed(client, f"&kind={kind}")}
    expected = {at: sum(type(event).__name__ == kind for event in events) for at, events in said().items()}
    assert found == {at: count for at, count in expected.items() if count}


def test_records_of_one_topic_a_pool_or_a_host(client: TestClient) -> None:
    assert {each["position"].split(":")[0] for each in listed(client, "&topic=sla")} == {"paceline.sla"}
    hosts = listed(client, "&host=large-1&topic=hosts")
    facts = {at: events[0] for at, events in said().items() if ".hosts:" in at}
    named = [at for at, event in facts.items() if getattr(event, "host_id", "") == "large-1"]
    assert sorted(each["position"] for each in hosts) == sorted(named)
    texts = [told["text"] for each in listed(client, "&pool=/maps&kind=PoolDefined") for told in each["records"]]
    assert texts == ["/maps defined: reservation 4 cpu"]


def test_the_records_of_a_job_are_those_of_its_history(client: TestClient) -> None:
    history = client.get("/v1/jobs/tiles/history?page_size=1000").json()["events"]
    found = listed(client, "&job=tiles")
    assert {each["position"] for each in found} == {each["position"] for each in history}
    assert all("tiles" in told["text"] for each in found for told in each["records"])


def test_a_page_that_finds_nothing_says_how_far_it_has_looked(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_records, "LOOKED_AT_MAX", 20)
    body = client.get("/v1/log?kind=PoolDefined").json()
    assert body["records"] == []
    assert body["looked_back_to"] > "2023-11-14T22:14"
    assert body["next_page_token"]
    assert len(listed(client, "&kind=PoolDefined")) == 2


@pytest.mark.parametrize("query", ["topic=nothing", "kind=Nothing", "page_token=x"])
def test_a_filter_that_means_nothing_is_refused(client: TestClient, query: str) -> None:
    assert client.get(f"/v1/log?{query}").status_code in (400, 422)
