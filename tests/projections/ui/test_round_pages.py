"""The pages of rounds say what a round knew, what it decided and why."""

import re
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient

from events.codec import decode
from events.records.rounds import RoundCommitted
from events.topics import ALL
from projections.api.app import create_app
from projections.queries import rounds
from projections.ui.app import add_ui
from projections.views.projector import Projector
from tests.helpers.past import past
from tests.projections.conftest import LISTEN, TOKEN


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Projector]:
    projector = Projector(past(), tmp_path_factory.mktemp("views"))
    projector.fold_whole()
    yield projector
    projector.close()


@pytest.fixture(scope="module")
def client(views: Projector) -> TestClient:
    app = create_app(views.views, past(), token=TOKEN, listen=LISTEN, cell_info=dict)
    add_ui(app, {0: app.state.context}, TOKEN)
    return TestClient(app, f"http://{LISTEN}")


def page(client: TestClient, path: str, status: int = 200) -> str:
    answer = client.get(f"/ui{path}")
    assert answer.status_code == status
    return answer.text


def recorded() -> list[RoundCommitted]:
    found = []
    for machine in ("lifecycle", "entitlement", "placement", "sla"):
        events = (decode(record.value) for record in past().scan(f"paceline.{machine}", 0))
        found += [event for event in events if isinstance(event, RoundCommitted)]
    return found


def test_all_rounds_are_listed_the_newest_first_page_by_page(client: TestClient, views: Projector) -> None:
    path, seen = "/rounds", []
    while path:
        text = page(client, path)
        seen += re.findall(r'<tr id="round-([a-z]+)-(\d+)">', text)
        older = re.search(r'href="/ui(/rounds\?before=[^"]+)">Older', text)
        path = older[1].replace("&amp;", "&") if older else ""
    assert sorted(seen) == sorted((event.machine, str(event.round)) for event in recorded())
    with views.views.read() as connection:
        times = [rounds.round_of(connection, machine, int(number)) for machine, number in seen]
    assert times == sorted(times, key=lambda each: each.order, reverse=True)


def test_the_rounds_of_one_machine_are_listed_alone(client: TestClient) -> None:
    text = page(client, "/rounds?machine=sla")
    seen = re.findall(r'<tr id="round-([a-z]+)-(\d+)">', text)
    assert seen == [("sla", str(event.round)) for event in recorded() if event.machine == "sla"][::-1]


def test_what_rounds_took_in_is_what_their_records_say(views: Projector) -> None:
    with views.views.read() as connection:
        for event in recorded():
            found = rounds.round_of(connection, event.machine, event.round)
            assert found is not None
            counts: dict[str, int] = {}
            for each in event.inputs:
                counts[each.topic] = counts.get(each.topic, 0) + each.end - each.start
            own = counts.pop(f"paceline.{event.machine}", 0)
            last = rounds.previous(connection, [found]).get((event.machine, event.round))
            assert own == 0
            assert rounds.inputs(found, last) == counts


def test_a_round_tells_its_inputs_decisions_causes_and_neighbours(client: TestClient) -> None:
    text = page(client, "/rounds/placement/3")
    plain = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", text))
    assert "nightly: 8 tasks placed on small-1, small-2" in plain
    assert "because nightly: 8 tasks admitted (entitlement/round/3/0, recorded, same run)" in plain
    assert "TasksPlaced as a record" in plain
    assert 'href="/ui/rounds/placement/2"' in text
    assert 'href="/ui/rounds/placement/4"' in text
    assert 'href="/ui/jobs/nightly"' in text
    assert re.search(r"round \d+ of (entitlement|lifecycle): \d+ decision", plain)
    assert re.search(r'class="r this"', text)
    assert 'class="arrow"' in text


@pytest.mark.parametrize(
    "path", ["/rounds/placement/0", "/rounds/nothing/1", "/rounds/placement/x", "/rounds?before=placement/9999"]
)
def test_a_round_that_is_not_there_is_said(client: TestClient, path: str) -> None:
    assert "there is no round" in page(client, path, 404)


def test_a_round_that_is_yet_to_come_is_told_apart_from_one_that_is_kept_no_longer(
    client: TestClient, views: Projector
) -> None:
    last = max(event.round for event in recorded() if event.machine == "placement")
    text = page(client, f"/rounds/placement/{last + 1}", 404)
    assert f"round {last + 1} of placement is not decided yet: the last one is round {last}" in text


def test_rounds_show_their_arrows_only_where_one_is_pointed_at(client: TestClient) -> None:
    text = page(client, "/rounds")
    assert '<svg class="lanes pointed"' in text
    assert re.search(r'<g class="mark"><a [^>]+>(?:(?!</g>).)*<path class="arrow"', text)


def test_the_log_is_paged_and_leads_to_rounds_jobs_causes_and_its_own_past(client: TestClient) -> None:
    path, seen = "/log", []
    while path:
        text = page(client, path)
        seen += re.findall(r'<tr id="record-([a-z]+)-(\d+)"', text)
        older = re.search(r'href="/ui(/log\?before=[^"]+)">Older', text)
        path = older[1].replace("&amp;", "&") if older else ""
    assert len(seen) == len(set(seen)) == sum(past().bounds(topic.name)[1] for topic in ALL)
    text = page(client, "/log?job=tiles&kind=TasksPlaced")
    for link in ("/ui/rounds/placement/", "/ui/why/placement/round/", "/ui/jobs/tiles", "/ui/log?kind=TasksPlaced"):
        assert f'href="{link}' in text
    assert "at=0%2Fpaceline.placement%3A" in text


@pytest.mark.parametrize("path", ["/log", "/rounds"])
def test_times_are_in_one_line(client: TestClient, path: str) -> None:
    page = client.get(f"/ui{path}").text
    rows = page.split("<tbody>")[1].split("</tbody>")[0].count("<tr")
    assert page.count('<td class="nowrap" data-k="At"><time') == rows > 0


def test_a_page_that_there_is_not_says_where_to_look(client: TestClient) -> None:
    page = client.get("/ui/nope")
    assert page.status_code == 404
    assert "No such page" in page.text
    assert "There is no page /ui/nope. Find, above, looks for jobs, pools and hosts." in page.text


def test_the_filters_of_the_log_are_sent_as_their_form_has_them(client: TestClient) -> None:
    form = page(client, "/log").partition('<form class="card filters"')[2].partition("</form>")[0]
    fields = dict.fromkeys(re.findall(r'name="(\w+)"', form), "")
    assert fields.keys() == {"topic", "kind", "job", "pool", "host", "actor", "at"}
    text = page(client, f"/log?{urlencode({**fields, 'job': 'huge'})}")
    assert 'id="record-jobs-' in text
    assert 'id="record-hosts-' not in text


def test_a_position_shows_the_log_from_there_back(client: TestClient) -> None:
    text = page(client, "/log?position=paceline.hosts:3")
    assert re.findall(r'<tr id="record-([a-z]+)-(\d+)"( class="here")?', text) == [
        ("hosts", "3", ' class="here"'), ("hosts", "2", ""), ("hosts", "1", ""), ("hosts", "0", "")
    ]  # fmt: skip
    page(client, "/log?position=nonsense", 400)
    page(client, "/log?before=1,2", 400)


def test_the_page_of_causes_is_the_chain(client: TestClient) -> None:
    text = page(client, "/why/huge")
    plain = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))
    assert "1 run ended: stopped by a user" in plain
    assert plain.index("instances to stop row 1 , same entity") < plain.index("stop requested row 2 , recorded")
    page(client, "/why/nobody", 404)
