"""A reader of one pool in a large cell is shown that pool alone, and isn't refused what everybody may ask."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.projections.access.test_limited_reads import OF_MAPS, asking
from tests.projections.api.test_stream_filters import heard, named
from tests.projections.conftest import Api

OWN = [f"m{number}" for number in range(25)]
FOREIGN = 1_000
PAGE = 10


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """25 jobs of /maps, and forty of /clicks after each."""
    api = Api(tmp_path_factory.mktemp("crowded"))
    for path in ("/clicks", "/maps"):
        api.pool(path)
    for host_id in ("h1", "h2"):
        api.cell.host(host_id)
    for number, own in enumerate(OWN):
        api.cell.accept(own, pool="/maps", owner="ann", labels={"team": "geo"})
        for other in range(FOREIGN // len(OWN)):
            api.cell.accept(f"a{number}-{other}", pool="/clicks", owner="bob", labels={"team": "geo"})
    api.cell.run("m0", host_id="h2")
    api.cell.run("a0-0", host_id="h1")
    api.fold()
    yield api
    api.close()


def pages_of(api: Api, path: str, query: str = "") -> Iterator[Any]:
    """The pages of a list, ten things each."""
    token, more = "", True
    while more:
        answer = api.client.get(f"{path}?{query}&page_size={PAGE}&page_token={token}")
        assert answer.status_code == 200, answer.text
        assert answer.headers["Paceline-Limited"] == "What you may not read is left out, if there is any."
        yield answer.json()
        token = answer.json().get("next_page_token", "")
        more = bool(token)


@pytest.mark.parametrize(
    "query", ["", "pool=/", "pool=/maps", "label=team:geo", "text=m", "owner=ann", "state=PENDING"]
)
def test_jobs_come_ten_a_page_with_no_empty_page(crowded: Api, query: str) -> None:
    with asking(OF_MAPS):
        pages = [[each["job_id"] for each in page["jobs"]] for page in pages_of(crowded, "/v1/jobs", query)]
    assert [len(page) for page in pages] == [PAGE, PAGE, 5]
    assert sorted(job for page in pages for job in page) == sorted(OWN)


@pytest.mark.parametrize(("path", "key"), [("/v1/slas", "jobs"), ("/v1/hosts", "hosts"), ("/v1/pools", "pools")])
def test_other_lists_have_no_empty_page_but_the_last(crowded: Api, path: str, key: str) -> None:
    with asking(OF_MAPS):
        for query in ("", "at_risk=true") if path == "/v1/slas" else ("",):
            pages = [*pages_of(crowded, path, query)]
            assert all(page[key] for page in pages[:-1])
            assert not any(name in str(pages) for name in ("/clicks", "bob", "h1", "a0-0"))


def test_counts_and_sums_are_of_the_pool_alone(crowded: Api) -> None:
    with asking(OF_MAPS):
        [pools] = pages_of(crowded, "/v1/pools")
        [hosts] = pages_of(crowded, "/v1/hosts")
        answers = [
            crowded.client.get(path).text for path in ("/v1/usage", "/v1/usage?by=owner,pool", "/v1/queues/maps")
        ]
    for told in (*answers, str(pools), str(hosts)):
        words = set(re.findall(r"[\w/-]+", told))
        assert not words & {str(FOREIGN), str(FOREIGN + len(OWN)), "/clicks", "bob"}, told
    assert [each["path"] for each in pools["pools"]] == ["/maps"]
    assert [each["host_id"] for each in hosts["hosts"]] == ["h2"]


@pytest.mark.parametrize("path", ["/v1/jobs?", "/v1/slas?", "/v1/usage?", "/v1/events?", "/v1/pools?"])
def test_a_filter_by_a_foreign_pool_is_the_answer_of_no_pool(crowded: Api, path: str) -> None:
    with asking(OF_MAPS):
        foreign, unknown = crowded.client.get(f"{path}pool=/clicks"), crowded.client.get(f"{path}pool=/clocks")
    assert foreign.status_code == unknown.status_code == (404 if "usage" in path else 422)
    assert unknown.json()["detail"] == "there is no pool /clocks"
    assert foreign.headers["Paceline-Limited"] == unknown.headers["Paceline-Limited"]
    assert foreign.text.replace("/clicks", "") == unknown.text.replace("/clocks", "")


@pytest.mark.parametrize("query", ["", "pool=/", "pool=/*", "text=m"])
def test_events_are_of_the_pool_alone_and_go_on_after_foreign_ones(crowded: Api, query: str) -> None:
    everything = heard(crowded)
    foreign = [each for each in everything if each.data["event"] == "JobSubmitted" and "/clicks" in str(each.data)]
    assert len(foreign) == FOREIGN
    with asking(OF_MAPS):
        own = heard(crowded, query)
        assert named(own) == set(OWN)
        assert not any("/clicks" in str(each.data) or "bob" in str(each.data) for each in own)
        for event in foreign[::150]:
            later = {each.data["position"] for each in everything[everything.index(event) + 1 :]}
            rest = heard(crowded, query, event.cursor)
            assert [each.data["position"] for each in rest] == [
                each.data["position"] for each in own if each.data["position"] in later
            ]
