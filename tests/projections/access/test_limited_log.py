"""Limited readers of the log: the stream of events, causes and histories tell of what they may read alone."""

import asyncio
import re
from typing import Any

import pytest

from events.codes import Outcome
from events.records.pools import RoleBound, TokenIssued
from projections.access.identity import Identity
from projections.access.limits import LIMITED, OTHER_HOST, OTHER_JOB, OTHER_POOL, Limits, Names
from projections.api.cell_router import create_cells_app
from projections.queries.fits_nowhere import warnings
from projections.queries.follow import StreamedEvent, Tail
from projections.queries.why import OTHERS
from projections.ui.app import add_ui
from tests.helpers.written_cell import ended, held, job, preempted, unplaced
from tests.projections.access.test_limited_reads import OF_MAPS, alone, asking, told
from tests.projections.api.test_stream import START, opened
from tests.projections.api.test_stream_filters import heard, named, wanted
from tests.projections.conftest import LISTEN, TOKEN, Api, CheckedClient

__all__ = ["alone", "told"]
POSITIONS = {"jobs_offset", "pools_offset", "cause", "causes", "offset", "read_to"}
"""Fields that say where something stands in the log."""


def content(value: Any) -> Any:
    """A value without positions of the log."""
    if isinstance(value, dict):
        return {name: content(each) for name, each in value.items() if name not in POSITIONS}
    return [content(each) for each in value] if isinstance(value, list | tuple) else value


def said(events: list[StreamedEvent]) -> list[Any]:
    """Events without where they stand in the log, and when."""
    kept = ("event", "data", "about", "text", "job_texts")
    return [content({name: each.data[name] for name in kept}) for each in events]


def maps_goes_on(api: Api) -> None:
    """More of jobs of /maps."""
    api.cell.decide("entitlement", held("m10", (0,), pool="/maps", at="/maps"))
    api.cell.decide("placement", unplaced("m20"))
    api.cell.changed("RUNNING", "m0")
    api.cell.decide("lifecycle", ended("m0", (0,), Outcome.SUCCEEDED))
    api.fold()


@pytest.mark.parametrize(
    "query",
    ["", "pool=/", "pool=/*", "pool=/maps", "about=jobs", "about=pools", "owner=ann", "text=m1", "job=m0&job=a0",
     "state=PENDING", "job=a0", "owner=bob", "host=h1", "pool=/ads"],
)  # fmt: skip
def test_the_stream_is_that_of_a_cell_without_the_rest_wherever_it_is_cut(told: Api, alone: Api, query: str) -> None:
    for api in (told, alone):
        maps_goes_on(api)
    with asking(OF_MAPS):
        here, there = heard(told, query), heard(alone, query)
        assert said(here) == said(there)
        assert bool(here) == (query not in ("job=a0", "owner=bob", "host=h1", "pool=/ads"))
        assert named(here) <= {"m0", "m10", "m20"}
        for event in heard(told, query)[::5]:
            rest = heard(told, query, event.cursor)
            assert said(rest) == said(here)[len(here) - len(rest) :]


def test_a_stream_goes_on_after_an_event_of_others(told: Api) -> None:
    everything = heard(told)
    with asking(OF_MAPS):
        own = heard(told)
        foreign = [each for each in everything if each.data["event"] == "JobSubmitted"][::7]
        for event in foreign:
            rest = heard(told, "", event.cursor)
            assert named(rest) <= {"m0", "m10", "m20"}
            assert said(rest) == said(own)[len(own) - len(rest) :]
        later = {each.data["position"] for each in everything[everything.index(foreign[1]) + 1 :]}
        here = [each for each in own if each.data["position"] in later]
        assert said(heard(told, "", foreign[1].cursor)) == said(here)


def test_a_stream_over_http_is_limited_by_who_opens_it(told: Api, alone: Api) -> None:
    async def play() -> list[Any]:
        async with opened(told, query="from=start") as events:
            return [(await events.event())[1] for _ in range(3)]

    with asking(OF_MAPS):
        assert {path for each in asyncio.run(play()) for path in each["about"]["pools"]} == {"/maps"}
        for path in ("/v1/events?pool=/ads", "/v1/events?job=a0", "/v1/events?host=h1"):
            known, unknown = told.client.get(path), alone.client.get(path)
            assert known.status_code == unknown.status_code in (404, 422)
            assert known.text == unknown.text


def test_what_all_leave_for_names_no_others(told: Api) -> None:
    told.cell.decide("entitlement", preempted(1, {"m0": (0,)}, "a1", for_pool="/ads", from_pools=("/maps",)))
    told.fold()
    with asking(OF_MAPS):
        [event] = [each for each in heard(told) if each.event == "PreemptionsOrdered"]
        history = told.client.get("/v1/jobs/m0/history?page_size=100").text
    assert "a1" not in history
    assert "/ads" not in history
    assert OTHER_JOB in history
    assert OTHER_POOL in history
    assert event.data["data"] == {}
    assert OTHER_JOB in event.data["text"]
    assert "a1" not in str(event.data)


def test_facts_of_access_are_told_with_their_pool_alone(told: Api) -> None:
    told.granted(
        RoleBound(command_id="a", binding_id="a", subject="ann", role="viewer", pool="/maps"),
        RoleBound(command_id="b", binding_id="b", subject="bob", role="viewer", pool="/ads"),
        TokenIssued(command_id="c", token_id="c", subject="ann", token_hash=b"c" * 32),
    )
    with asking(OF_MAPS):
        bound = [each for each in heard(told) if each.event in ("RoleBound", "TokenIssued")]
    assert [each.data["data"]["pool"] for each in bound] == ["/maps"]


def test_causes_end_where_they_are_others(told: Api) -> None:
    whole = told.get("/v1/causes/m0")
    with asking(OF_MAPS):
        own = told.get("/v1/causes/m0")
        positions = {each.data["position"]: named([each]) for each in heard(told)}
        told.problem(told.client.get("/v1/causes/a0"), 404, "NOT_FOUND")
    assert own["starts"] == whole["starts"]
    assert all(not {"a0", "h1"} & set(each["text"].split()) for each in own["records"])
    foreign = next(each.data["position"] for each in heard(told) if each.data["position"] not in positions)
    with asking(OF_MAPS):
        forbidden, unknown = told.client.get(f"/v1/causes/{foreign}"), told.client.get("/v1/causes/paceline.jobs:9999")
    assert forbidden.status_code == unknown.status_code == 404
    assert forbidden.text.replace(foreign, "") == unknown.text.replace("paceline.jobs:9999", "")
    assert OTHERS == "something of another pool"


def test_blame_is_of_what_may_be_seen(told: Api) -> None:
    everything = [told.get(f"/v1/blame?of={of}") for of in ("m0:state", "/maps:limit")]
    assert all(each["moved"] for each in everything)
    with asking(OF_MAPS):
        own = [told.get(f"/v1/blame?of={of}") for of in ("m0:state", "/maps:limit")]
        for of in ("a0:state", "a0/0:state", "/ads:limit", "host/h9:state"):
            told.problem(told.client.get(f"/v1/blame?of={of}"), 404, "NOT_FOUND")
        setting = told.get("/v1/blame?of=cell:preemption_delay")
        shared = told.get("/v1/blame?of=/maps:entitlement")
    assert [each["moved"] for each in own] == [each["moved"] for each in everything]
    assert (setting["moved"], setting["by"]) == (None, None)
    for each in (*own, setting, shared):
        assert not {"a0", "a1", "/ads", "bob"} & {*str(each).replace("'", " ").replace(",", " ").split()}


def test_the_page_of_blame_is_of_what_may_be_seen(told: Api) -> None:
    add_ui(told.app, {0: told.app.state.context}, TOKEN)
    for of in ("a0:state", "/ads:limit"):
        assert told.client.get(f"/ui/blame?of={of}").status_code == 200
    with asking(OF_MAPS):
        for of in ("a0:state", "a0/0:state", "/ads:limit", "host/h9:state"):
            assert told.client.get(f"/ui/blame?of={of}").status_code == 404
        for of in ("m0:state", "/maps:limit", "/maps:entitlement", "cell:preemption_delay"):
            page = told.client.get(f"/ui/blame?of={of}")
            assert page.status_code == 200
            assert not {"a0", "a1", "/ads", "bob"} & {*re.split(r"[\s,<>\"]", page.text)}


@pytest.mark.parametrize("path", ["/", "/jobs", "/jobs/m0/tasks", "/hosts", "/pools"])
def test_rows_lead_to_blame_of_what_may_be_seen_alone(told: Api, path: str) -> None:
    add_ui(told.app, {0: told.app.state.context}, TOKEN)
    with asking(OF_MAPS):
        links = re.findall(r'href="(/ui/blame[?]of=[^"]+)"', told.client.get(f"/ui{path}").text)
        assert links
        assert not [each for each in links if re.search("a[0-9]|ads|mapsque|h1|%2Fh9", each)]
        assert {told.client.get(each).status_code for each in links} == {200}


@pytest.mark.parametrize(
    "path", ["/ui/log", "/ui/rounds", "/ui/rounds/lifecycle/1", "/ui/log?job=a0", "/ui/operations"]
)
def test_pages_of_the_log_are_for_readers_of_all(told: Api, path: str) -> None:
    add_ui(told.app, {0: told.app.state.context}, TOKEN)
    assert told.client.get(path).status_code == 200
    with asking(OF_MAPS):
        page = told.client.get(path)
    assert page.status_code == 403
    assert "m0" not in page.text
    assert "submitted" not in page.text


def test_a_filter_by_jobs_leaves_those_out_that_are_gone(told: Api) -> None:
    """A job that may not be seen isn't told of when it is deleted."""
    with asking(OF_MAPS):
        tail = Tail(told.projector.views, told.cell.log, START, wanted("job=a1&job=m10"))
        while not tail.is_idle:
            tail.batch()
    told.cell.forget("a1", "m10")
    told.fold()
    with asking(OF_MAPS):
        events = tail.batch()
    assert [(each.event, [*each.data["about"]["jobs"]]) for each in events] == [("JobsForgotten", ["m10"])]
    assert "a1" not in str(events[0].data)


def test_every_answer_to_a_limited_reader_says_so(told: Api) -> None:
    paths = (
        "/v1/jobs",
        "/v1/jobs/m0",
        "/v1/jobs/a0",
        "/v1/jobs?pool=/ads",
        "/v1/hosts",
        "/v1/log",
        "/v1/nowhere",
        "/metrics",
    )
    assert all("paceline-limited" not in told.client.get(path).headers for path in paths)
    with asking(OF_MAPS):
        said = [told.client.get(path).headers.get("paceline-limited") for path in paths]
    assert said == ["What you may not read is left out, if there is any."] * len(paths)


def test_a_server_of_several_cells_says_it_once(told: Api) -> None:
    client = CheckedClient(create_cells_app({0: told.app}), f"http://{LISTEN}", raise_server_exceptions=False)
    with asking(OF_MAPS):
        answers = [client.get(path) for path in ("/v1/jobs/m0", "/v1/jobs/a0", "/v1/jobs", "/metrics")]
    assert [answer.status_code for answer in answers] == [200, 404, 200, 403]
    assert {answer.headers["paceline-limited"] for answer in answers} == {LIMITED}


def test_what_a_job_fits_on_is_found_among_all_hosts(told: Api) -> None:
    """Also by a reader who sees none of them."""
    wanted = job("new", pool="/maps", resources={"cpu": 10**6})

    def found() -> list[str]:
        with told.projector.views.read() as connection:
            return [each["message"] for each in warnings(connection, wanted, lambda digest: pytest.fail(str(digest)))]

    everything = found()
    assert everything
    with asking(Identity(subject="bob", reads=("/nowhere",))):
        assert found() == everything


def test_numbers_of_explanations_name_no_others(told: Api) -> None:
    with asking(OF_MAPS), told.projector.views.read() as connection:
        names = Names(connection, Limits(("/maps",)))
        near = [{"host_id": "h1", "lacks": {}}, {"host_id": "h2", "lacks": {}}]
        words = names.told({"nearest": near, "at": "/ads", "for_job": "a0", "hosts": 2})
    assert [each["host_id"] for each in words["nearest"]] == [OTHER_HOST, "h2"]
    assert (words["at"], words["for_job"], words["hosts"]) == (OTHER_POOL, OTHER_JOB, 2)
