"""Watching a cell through a connection that is cut: each event once, in order, from the position that was named on."""

import json
import random
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from events.records.entitlement import PoolAnswered
from events.records.hosts import HostSilent
from events.records.lifecycle import JobChanged
from events.records.parts import Actor
from events.records.pools import PoolDefined, PoolRemoved
from paceline.cli.commands import watch
from paceline.cli.main import run
from paceline.client.client import Client
from paceline.client.errors import Refused, Unreachable
from paceline.client.models import StreamEvent
from projections.queries import follow
from projections.queries.event_filter import EventFilter
from projections.queries.follow import Tail
from tests.helpers.cutting_proxy import cutting
from tests.paceline.fake import FakeCell, running, served
from tests.projections.api.test_stream_filters import read_on
from tests.projections.conftest import TOKEN, Api

EVENTS = 10_000
OF_OTHERS = 400
OF_ROUND = 10
CUTS = 200


@pytest.fixture(scope="module")
def long_cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Api, str]]:
    """The API of a cell with 10,000 events: of jobs, hosts and pools."""
    api = Api(tmp_path_factory.mktemp("cell"), streams_max=64)
    for number in range(OF_OTHERS):
        api.cell.fact(HostSilent(host_id=f"h{number % 3}", session=number))
        api.cell.fact(PoolDefined(path=f"/p{number % 3}", command_id=f"c{number}"))
    for first in range(0, EVENTS - 2 * OF_OTHERS, OF_ROUND):
        jobs = (f"j{number % 7}" for number in range(first, first + OF_ROUND))
        changes = [JobChanged(job_id=job_id, state="RUNNING", succeeded=first + at) for at, job_id in enumerate(jobs)]
        api.cell.decide("lifecycle", *changes)
    api.fold()
    with served(api.app) as address, pytest.MonkeyPatch.context() as patch:
        patch.setattr(follow, "BATCH", 20)  # most of what is read ahead is cut off
        yield api, address
    api.close()


def places(api: Api, about: str = "") -> list[tuple[str, int | None]]:
    """The positions of all events, in order, read without a connection."""
    tail = Tail(api.projector.views, api.cell.log, "start")
    found = [event.data for event in read_on(tail)]
    kinds = {"jobs": "JobChanged", "hosts": "HostSilent", "pools": "PoolDefined"}
    return [(each["position"], each["index"]) for each in found if not about or each["event"] == kinds[about]]


def test_each_event_comes_once_and_in_order_though_the_connection_is_cut_200_times(long_cell):
    api, address = long_cell
    expected = places(api)
    draw = random.Random(1)

    def allowed(cuts: int) -> int:
        return draw.randrange(1_000, 26_000) if cuts < CUTS else 1 << 40

    with cutting(address, allowed) as proxy, Client(proxy.address, TOKEN) as client:
        heard = [(each.data["position"], each.data["index"]) for each in islice(client.watch("start"), len(expected))]
    assert heard == expected
    assert proxy.cuts == CUTS


@pytest.mark.parametrize("noun", ["job", "host", "pool"])
def test_the_command_prints_a_line_for_each_change_whatever_cuts_the_connection(long_cell, noun, monkeypatch):
    api, address = long_cell
    before, *expected = places(api, f"{noun}s")[-300:]
    tail = Tail(api.projector.views, api.cell.log, "start")
    begin = next(each.cursor for each in read_on(tail) if (each.data["position"], each.data["index"]) == before)
    draw = random.Random(noun)
    lines: list[dict[str, Any]] = []

    def say(text: str) -> None:
        lines.append(json.loads(text))
        if sum(each["event"] != "bookmark" for each in lines) == len(expected):
            raise KeyboardInterrupt

    monkeypatch.setattr(watch, "say", say)
    with cutting(address, lambda cuts: draw.randrange(1_000, 6_000)) as proxy:
        args = [noun, "watch", "--from", begin, "-o", "json", "--server", proxy.address]
        assert run(args) == 130
    heard = [(each["position"], each["index"]) for each in lines if each["event"] != "bookmark"]
    assert heard == expected
    assert lines[0] == {"id": begin, "event": "bookmark"}
    assert proxy.cuts > 20


def test_from_now_on_there_is_a_position_at_once_and_nothing_old(long_cell, capsys, monkeypatch):
    api, address = long_cell
    with Client(address, TOKEN) as client:
        first = next(client.watch(bookmarks=True))
    assert (first.event, first.id) == ("bookmark", Tail(api.projector.views, api.cell.log).cursor)


@pytest.fixture
def cell() -> Iterator[FakeCell]:
    with running(FakeCell()) as found:
        yield found


def event(number: int) -> bytes:
    data = json.dumps(
        {
            "position": f"paceline.jobs:{number}",
            "at": "2026-08-21T10:41:07.000Z",
            "event": "JobSubmitted",
            "data": {"job_id": "a"},
            "about": {"jobs": {"a": {"pool": "/p"}}, "pools": ["/p"], "hosts": []},
            "text": "a: submitted",
            "job_texts": {"a": "submitted"},
        }
    )
    return f"id: 0:{number}\nevent: JobSubmitted\ndata: {data}\n\n".encode()  # fmt: skip


def test_a_reason_of_several_lines_is_part_of_one(cell, capsys):
    """Else who gives a reason writes lines about other jobs."""
    forged = event(1).replace(b'"submitted"', b'"submitted: x\\n2026-08-21T10:41:07Z  b  JobRejected"')
    cell.answer("GET", "/v1/events", forged)
    cell.problem("GET", "/v1/events", 410, "GONE", "no more")
    run(["job", "watch", "--from", "0:0", "--server", cell.address])
    assert capsys.readouterr().out.count("\n") == 1


def test_a_line_is_the_sentence_of_the_history_and_one_about_pools_tells_of_no_jobs(tmp_path):
    api = Api(tmp_path)
    at = api.cell.fact(
        PoolDefined(
            path="/p",
            command_id="c",
            limit={"cpu": 2500, "memory": 4096},
            actor=Actor("ann", "environment", "10.0.0.7"),
        )
    )
    api.cell.decide("entitlement", PoolAnswered(path="/p", pools_offset=at, command_id="c", code="DONE"))
    api.cell.host("h1")
    api.cell.accept("a", owner="ann")
    api.cell.run("a")
    at = api.cell.fact(PoolRemoved(path="/p", command_id="d"))
    api.cell.decide(
        "entitlement", PoolAnswered(path="/p", pools_offset=at, command_id="d", code="POOL_IN_USE", message="1 job")
    )
    api.fold()

    def said(kind: str, **criteria: Any) -> list[str]:
        events = read_on(Tail(api.projector.views, api.cell.log, "start", EventFilter(frozenset({kind}), **criteria)))
        told = (StreamEvent(each.cursor, each.event, each.data) for each in events)
        return [line.partition("  ")[2] for each in told for line in watch.lines_of(each, kind)]

    assert said("pools") == [
        "/p  PoolDefined  defined: limit 2.5 cpu, 4GiB memory, by ann (unverified)",
        "/p  PoolRemoved  to be removed",
        "/p  PoolAnswered  command about /p answered POOL_IN_USE: 1 job",
    ]
    assert "a  TasksPlaced  1 task placed on h1" in said("jobs")
    hosts = said("hosts")
    assert "h1  TasksPlaced  a: 1 task placed on h1" in hosts
    assert any(line.startswith("h1  HostOffered  offers ") for line in hosts)
    api.close()


def test_a_stream_that_ends_as_if_all_were_well_goes_on_after_the_last_whole_event(cell):
    cell.answer("GET", "/v1/events", event(1) + event(2)[:60])
    cell.answer("GET", "/v1/events", b"")
    cell.answer("GET", "/v1/events", event(2) + event(3))
    with Client(cell.address) as client:
        assert [each.id for each in islice(client.watch("0:0"), 3)] == ["0:1", "0:2", "0:3"]
    assert [each.headers["last-event-id"] for each in cell.asked] == ["0:0", "0:1", "0:1"]


def test_a_cell_that_stays_away_ends_a_watch_with_the_word_that_jobs_go_on(cell, capsys, monkeypatch):
    cell.answer("GET", "/v1/events", event(1))
    cell.problem("GET", "/v1/events", 503, "BEHIND", "not now")
    with Client(cell.address, patience=0.05) as client:
        events = client.watch()
        assert next(events).id == "0:1"
        with pytest.raises(Unreachable, match=r"not now.*\n.*the jobs go on"):
            next(events)
    cell = FakeCell()
    with running(cell):
        cell.answer("GET", "/v1/events", event(1))
        cell.problem("GET", "/v1/events", 502, "", "no upstream")
        monkeypatch.setattr(Client, "__init__", _impatient(Client.__init__))
        assert run(["job", "watch", "--server", cell.address]) == 6
    out, err = capsys.readouterr()
    assert out == "2026-08-21T10:41:07Z  a  JobSubmitted  submitted\n"
    assert "the jobs go on" in err
    assert "go on with: --from 0:1" in err


def _impatient(init: Any) -> Any:
    def made(self: Client, *args: Any, **more: Any) -> None:
        init(self, *args, **{**more, "patience": 0.05})

    return made


def test_a_log_that_no_longer_holds_what_comes_next_ends_a_watch(cell):
    cell.answer("GET", "/v1/events", event(1) + b"event: gone\ndata: {}\n\n")
    with Client(cell.address) as client, pytest.raises(Refused, match=r"no longer holds what comes after 0:1 \(GONE\)"):
        list(client.watch())


def test_what_isn_t_there_is_told_at_once(cell, capsys):
    assert run(["job", "watch", "nosuch", "--server", cell.address]) == 4
    assert run(["job", "watch", "--from", "yesterday", "--server", cell.address]) == 2
    assert "names no moment" in capsys.readouterr().err


def test_a_moment_of_the_past_to_begin_at_and_the_filters_of_the_list(cell, monkeypatch):
    cell.answer("GET", "/v1/events", event(1))

    def say(text: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(watch, "say", say)
    args = ["--owner", "ann", "--label", "team:geo", "--pool", "/maps", "--state", "FAILED", "--from"]
    assert run(["job", "watch", *args, "0/paceline.jobs:7", "--server", cell.address]) == 130
    query = {"about": "jobs", "owner": "ann", "label": "team:geo", "pool": "/maps", "state": "FAILED",
             "at": "0/paceline.jobs:7"}  # fmt: skip
    assert cell.asked[0].query == query


def test_on_a_terminal_a_table_is_drawn_over(cell, monkeypatch, capsys):
    from tests.paceline.fake import job

    monkeypatch.setattr(watch, "live", lambda stream: True)
    monkeypatch.setattr(watch, "PAUSE_S", 0.0)
    cell.answer("GET", "/v1/jobs", {"jobs": [job("tiles", "PENDING")], "next_page_token": ""})
    cell.answer("GET", "/v1/jobs", {"jobs": [job("tiles", "RUNNING")], "next_page_token": ""})
    cell.answer("GET", "/v1/events", event(1))
    looks = iter(range(8))
    lines = watch.table_lines

    def drawn(rows: Any, columns: Any) -> Any:
        if next(looks, None) is None:
            raise KeyboardInterrupt
        return lines(rows, columns)

    monkeypatch.setattr(watch, "table_lines", drawn)
    assert run(["job", "watch", "--server", cell.address]) == 130
    out = capsys.readouterr().out
    assert "tiles  RUNNING  -            0        2          1       0  /maps/tiles" in out
    assert "Ctrl-C ends" in out


def test_a_table_of_some_states_hears_of_what_leaves_them():
    asked: list[dict[str, Any]] = []

    class Heard:
        def watch(self, after: str | None, **criteria: Any) -> Iterator[Any]:
            asked.append(criteria)
            return iter(())

    watched = watch.Watched("jobs", {"about": "jobs", "owner": ["ann"], "state": "RUNNING"}, lambda most: [], [])
    with watch._heard(Heard(), watched) as (changed, _):  # type: ignore[arg-type]
        assert changed.wait(30)
    assert asked == [{"bookmarks": True, "about": "jobs", "owner": ["ann"], "state": None, "actor": None}]
