"""The gateway on its own: sessions, the whole set, silence, restarts, and what HTTP refuses."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx2
import msgspec
import numpy as np
import pytest

from events import wrong_tokens
from events.log.port import LogUnavailable, NewRecord
from events.records.hosts import HostBack, HostConnected, HostSilent
from events.records.jobs import JobSubmitted
from hostagent.gateway import LogMissing
from hostagent.gateway.connections import Attach, Connect, Detach, Report
from hostagent.gateway.facts import columns_of
from hostagent.messages import (
    Asked,
    Hello,
    ImagesLine,
    ImageState,
    LogLine,
    OrderKind,
    Orders,
    RunState,
    SessionRefused,
    VolumeState,
    Welcome,
    line,
)
from paceline.client.output_ask import OutputAsk
from tests.hostagent.cell import TOKEN, Cell, Server, TestClock, ended, ordered, stopping

Items = list[tuple[str, str, int, int]]


class Host:
    """One host that notes what it is told."""

    heard_ms = 0

    def __init__(self, cell: Cell, host_id: str = "h1") -> None:
        self.cell, self.host_id = cell, host_id
        self.session = 0
        self.got: list[Orders] = []
        self.asked: list[LogLine] = []
        self.removals: list[list[VolumeState]] = []
        self.images: list[str] = []
        self.attributes: dict[str, str] = {}
        self.closed = False
        self.answers: list[Welcome | SessionRefused] = []
        self.acknowledged: list[bool] = []

    def deliver(self, orders: Orders) -> None:
        self.got.append(orders)

    def ask(self, host_id: str, line: Asked) -> None:
        if isinstance(line, LogLine):
            self.asked.append(line)
        elif isinstance(line, ImagesLine):
            self.images += [image.digest for image in line.images]
        else:
            self.removals.append(line.volumes)

    def cut(self, host_id: str) -> None:
        self.closed = True

    def connect(self, session: int, position: int = 0, runs: list[RunState] | None = None) -> None:
        self.session = session
        hello = Hello(session, {"cpu": 1000}, attributes=self.attributes, runs=runs or [], position=position)
        self.cell.gateway.post(Connect(self.host_id, hello, self.answers.append))
        self.cell.gateway.step()
        self.cell.gateway.post(Attach({self.host_id: session}, self))
        self.cell.gateway.step()

    def report(
        self,
        *runs: RunState,
        volumes: Sequence[VolumeState] | None = None,
        images: Sequence[ImageState] = (),
        held_images: Sequence[str] | None = None,
    ) -> None:
        reports, told = columns_of(self.host_id, runs), [(0, image) for image in images]
        report = Report((self.session,), reports, self.acknowledged.append, volumes, held_images, images=told)
        self.cell.gateway.post(report)
        self.cell.gateway.step()

    def items(self) -> list[tuple[int, bool, Items]]:
        """What it was told: position, whether the whole, items."""
        out = []
        for orders in self.got:
            jobs = line(orders).jobs
            items = [(OrderKind(i.kind).name, jobs[i.job].job_id, i.instance, i.run) for i in line(orders).items]
            out.append((orders.position, orders.whole, items))
        return out


@pytest.fixture
def clock() -> TestClock:
    return TestClock()


@pytest.fixture
def cell(clock: TestClock, tmp_path: Path) -> Cell:
    cell = Cell(clock, tmp_path / "gateway.msgpack")
    cell.submit(JobSubmitted(job_id="j", pool="/p", instances=10), JobSubmitted(job_id="k", pool="/p", ports=("web",)))
    return cell


def settle(cell: Cell) -> None:
    while cell.turn():
        pass


def test_only_what_has_not_obeyed_is_killed(cell: Cell) -> None:
    host = Host(cell)
    host.connect(1)
    settle(cell)
    cell.decide(ordered([("j", 0, 1), ("j", 1, 1)], ["h1", "h1"]))
    position = cell.decide(stopping([("j", 0, 1), ("j", 1, 1)], ["h1", "h1"], [0, 1]))
    settle(cell)
    assert host.items()[2:] == [(position, False, [("STOP", "j", 0, 1), ("KILL", "j", 1, 1)])]


def test_orders_reach_each_host_in_one_message_per_round(cell: Cell) -> None:
    hosts = [Host(cell, "h1"), Host(cell, "h2"), Host(cell, "h3")]
    for host in hosts:
        host.connect(1)
    settle(cell)
    position = cell.decide(
        ordered([("j", 0, 1), ("j", 1, 1), ("k", 0, 1), ("j", 2, 1)], ["h1", "h2", "h1", "h1"], [31005], (0, 0, 1, 0)),
        stopping([("j", 1, 1)], ["h2"]),
        ended([("j", 0, 1)]),
    )
    settle(cell)
    assert [host.items()[1:] for host in hosts] == [
        [
            (
                position,
                False,
                [("START", "j", 0, 1), ("START", "k", 0, 1), ("START", "j", 2, 1), ("FORGET", "j", 0, 1)],
            )
        ],
        [(position, False, [("START", "j", 1, 1), ("STOP", "j", 1, 1)])],
        [],
    ]
    assert [item.ports for item in line(hosts[0].got[1]).items] == [(), (31005,), (), ()]


def test_the_whole_set_waits_until_lifecycle_has_settled_the_session(cell: Cell) -> None:
    cell.decide(ordered([("j", 0, 1), ("j", 1, 1)], ["h1", "h1"]))
    host = Host(cell)
    host.connect(1)
    cell.gateway.step()
    assert host.got == []
    cell.decide(ended([("j", 1, 1)]))
    settle(cell)
    assert [items for _, whole, items in host.items() if whole] == [[("START", "j", 0, 1)]]


def test_the_whole_set_is_never_older_than_what_the_agent_has_followed(cell: Cell) -> None:
    host = Host(cell)
    host.connect(1, position=7)
    settle(cell)
    assert host.got == []
    while cell.decide() < 7:
        pass
    settle(cell)
    assert [(position >= 7, whole) for position, whole, _ in host.items()] == [(True, True)]


def test_the_whole_set_holds_ports_and_stops(cell: Cell) -> None:
    cell.decide(ordered([("k", 0, 1), ("j", 3, 1)], ["h1", "h1"], [31007], (1, 0)), stopping([("j", 3, 1)], ["h1"]))
    host = Host(cell)
    host.connect(1)
    settle(cell)
    assert host.items()[0][2] == [("START", "k", 0, 1), ("STOP", "j", 3, 1)]
    assert line(host.got[0]).items[0].ports == (31007,)


def test_a_host_without_runs_is_told_so(cell: Cell) -> None:
    host = Host(cell)
    host.connect(1)
    settle(cell)
    assert [(whole, items) for _, whole, items in host.items()] == [(True, [])]


def test_a_session_that_is_not_the_newest_is_refused(cell: Cell) -> None:
    host, late = Host(cell), Host(cell)
    host.connect(5)
    late.connect(5)
    assert (host.answers, late.answers) == ([Welcome(2, log=cell.gateway.log_id)], [SessionRefused(5)])
    newer = Host(cell)
    newer.connect(6)
    assert host.closed
    host.report(RunState("j", 0, 1, 2))
    assert host.acknowledged == [False]
    assert list(cell.said()) == []


def test_reports_of_many_hosts_are_one_fact_and_acknowledged_when_durable(cell: Cell) -> None:
    hosts = [Host(cell, "h1"), Host(cell, "h2")]
    for host in hosts:
        host.connect(1)
    for number, host in enumerate(hosts):
        runs = (RunState("j", number, 1, 4, 127, f"no {number}"), RunState("k", 0, 1, 2))
        reports = columns_of(host.host_id, runs)
        cell.gateway.post(Report((1,), reports, host.acknowledged.append))
    assert hosts[0].acknowledged == []
    cell.gateway.step()
    assert [host.acknowledged for host in hosts] == [[True], [True]]
    assert list(cell.said()) == [
        ("j", 0, 1, "NOT_STARTED", 127),
        ("k", 0, 1, "EXITED", 0),
        ("j", 1, 1, "NOT_STARTED", 127),
        ("k", 0, 1, "EXITED", 0),
    ]
    assert cell.why() == ["no 0", "no 1"]


def test_repeated_reports_are_written_again_and_harm_nothing(cell: Cell) -> None:
    host = Host(cell)
    host.connect(1)
    host.report(RunState("j", 0, 1, 2))
    host.report(RunState("j", 0, 1, 2))
    assert host.acknowledged == [True, True]
    assert set(cell.said()) == {("j", 0, 1, "EXITED", 0)}


def test_nothing_is_acknowledged_while_the_log_is_away(
    cell: Cell, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(cell)
    host.connect(1)

    def away(records: list[NewRecord]) -> list[int]:
        raise LogUnavailable("no broker")

    with monkeypatch.context() as patch:
        patch.setattr(cell.log, "append", away)
        host.report(RunState("j", 0, 1, 2))
        assert host.acknowledged == []
    clock.ms += 1000
    cell.gateway.step()
    assert host.acknowledged == [True]
    assert list(cell.said()) == [("j", 0, 1, "EXITED", 0)]


def later(cell: Cell, clock: TestClock, ms: int) -> None:
    for _ in range(ms // 1000):
        clock.ms += 1000
        settle(cell)


def test_a_host_that_is_not_heard_is_silent_and_back_when_heard_again(cell: Cell, clock: TestClock) -> None:
    host = Host(cell)
    host.connect(1)
    settle(cell)
    later(cell, clock, 9000)
    assert cell.facts("paceline.hosts", HostSilent) == []
    later(cell, clock, 3000)
    assert cell.facts("paceline.hosts", HostSilent) == [HostSilent(host_id="h1", session=1)]
    later(cell, clock, 30_000)
    host.report()
    later(cell, clock, 1000)
    assert cell.facts("paceline.hosts", HostBack) == [HostBack(host_id="h1", session=1)]
    assert len(cell.facts("paceline.hosts", HostSilent)) == 1
    assert host.closed, "it may have been given up, and connects anew"


def test_a_pause_of_the_gateway_itself_makes_no_host_silent(cell: Cell, clock: TestClock) -> None:
    host = Host(cell)
    host.connect(1)
    settle(cell)
    clock.ms += 60_000
    settle(cell)
    assert cell.facts("paceline.hosts", HostSilent) == []


def test_a_round_that_could_not_be_folded_is_not_kept_as_folded(
    cell: Cell, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(cell, "h1")
    host.connect(1)
    settle(cell)
    cell.decide(ordered([("j", 0, 1)], ["h1"]))
    with monkeypatch.context() as broken:
        broken.setattr("hostagent.gateway.desired_runs.DesiredRuns.take", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            settle(cell)
    cell.gateway.close()
    cell.new_gateway()
    settle(cell)
    back = Host(cell, "h1")
    back.connect(2)
    settle(cell)
    assert back.items()[0][2] == [("START", "j", 0, 1)]


def test_a_gateway_that_restarts_knows_what_is_wanted_and_who_does_not_return(cell: Cell, clock: TestClock) -> None:
    gone, host = Host(cell, "gone"), Host(cell, "h1")
    gone.connect(1)
    host.connect(1)
    cell.decide(ordered([("j", 0, 1), ("k", 0, 1)], ["h1", "h1"], [31009], (0, 1)))
    settle(cell)
    cell.gateway.close()
    cell.decide(ordered([("j", 1, 1)], ["h1"]))
    cell.new_gateway()
    settle(cell)
    back = Host(cell, "h1")
    back.connect(2)
    settle(cell)
    assert back.items()[0][2] == [("START", "j", 0, 1), ("START", "j", 1, 1), ("START", "k", 0, 1)]
    assert line(back.got[0]).items[2].ports == (31009,)
    for _ in range(12):
        back.report()
        later(cell, clock, 1000)
    assert cell.facts("paceline.hosts", HostSilent) == [HostSilent(host_id="gone", session=1)]


@pytest.mark.parametrize("keeps_its_file", [True, False])
def test_a_host_that_was_back_once_and_dies_with_its_gateway_is_silent_again(
    cell: Cell, clock: TestClock, tmp_path: Path, keeps_its_file: bool
) -> None:
    host = Host(cell)
    host.connect(1)
    settle(cell)
    later(cell, clock, 12_000)
    host.report()
    later(cell, clock, 1000)
    assert len(cell.facts("paceline.hosts", HostBack)) == 1
    cell.gateway.close()
    if not keeps_its_file:
        (tmp_path / "gateway.msgpack").unlink()
    cell.new_gateway()
    settle(cell)
    host.report()
    assert host.acknowledged[-1] is False, "it may have been given up, so its old session is over"
    later(cell, clock, 12_000)
    assert len(cell.facts("paceline.hosts", HostSilent)) == 2


def test_without_its_file_a_gateway_folds_the_same_from_the_log(cell: Cell) -> None:
    host = Host(cell)
    host.connect(1)
    cell.decide(ordered([("k", 0, 1), ("j", 5, 1)], ["h1", "h1"], [31009], (1, 0)), stopping([("j", 5, 1)], ["h1"]))
    settle(cell)
    cell.gateway.close()
    assert cell.path is not None
    told = []
    for _ in range(2):
        cell.new_gateway()
        settle(cell)
        again = Host(cell)
        again.connect(again.cell.facts("paceline.hosts", HostConnected)[-1].session + 1)  # type: ignore[attr-defined]
        settle(cell)
        told.append(msgspec.json.encode(line(again.got[0]).items))
        cell.path.unlink(missing_ok=True)
    assert told[0] == told[1]


def test_output_of_a_run_that_nobody_knows_is_missing(cell: Cell) -> None:
    asked = cell.gateway.log_of(OutputAsk("j", 0, 1, "stdout", 0, 10))
    settle(cell)
    with pytest.raises(LogMissing):
        asked.result(timeout=0)


def test_a_link_that_left_gets_no_orders(cell: Cell) -> None:
    host = Host(cell)
    host.connect(1)
    settle(cell)
    cell.gateway.post(Detach(host))
    cell.decide(ordered([("j", 0, 1)], ["h1"]))
    settle(cell)
    assert len(host.got) == 1


def test_columns_are_split_between_one_host_and_many(cell: Cell) -> None:
    """A fleet behind one link and a host with a link of its own, in one round."""
    fleet, single = Host(cell, "f1"), Host(cell, "h1")
    for host_id in ("f1", "f2"):
        hello = Hello(1, {})
        cell.gateway.post(Connect(host_id, hello, fleet.answers.append))
    cell.gateway.step()
    cell.gateway.post(Attach({"f1": 1, "f2": 1}, fleet))
    single.connect(1)
    settle(cell)
    cell.decide(ordered([("j", i, 1) for i in range(6)], ["f1", "h1", "f2", "h1", "f2", "f1"]))
    settle(cell)
    assert [i[2] for i in single.items()[-1][2]] == [1, 3]
    last = fleet.got[-1]
    by_host = {host_id: last.instance[last.host == number].tolist() for number, host_id in enumerate(last.host_ids)}
    assert by_host == {"f1": [0, 5], "f2": [2, 4]}
    assert last.host.dtype == np.int32


@pytest.fixture
def http(cell: Cell) -> Iterator[httpx2.Client]:
    settle(cell)
    server = Server(cell.gateway)
    with httpx2.Client(base_url=server.url, headers={"Authorization": f"Bearer {TOKEN}"}, trust_env=False) as client:
        yield client
    server.stop()


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        ("h1/sessions", b"{}", {"Authorization": "Bearer wrong"}, 401),
        ("h1/sessions", b"{}", {}, 422),
        ("h1/sessions", b"\xff", {}, 422),
        ("h%20/reports", b'{"session":1,"number":1}', {}, 422),
        ("h1/reports", b'{"session":1,"number":1,"runs":[{"job_id":"j","instance":-1,"run":1,"state":2}]}', {}, 422),
        pytest.param("h1/reports", b" " * (8 * 1024 * 1024 + 1), {}, 413, id="too large"),
    ],
)
def test_what_is_no_message_is_refused(
    http: httpx2.Client, path: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    response = http.post(f"/v1/agents/{path}", content=body, headers=headers)
    assert response.status_code == status
    assert response.json()["status"] == status


def test_agents_that_guess_tokens_are_answered_later_each_time(
    http: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(wrong_tokens, "sleep", sleep)
    before = wrong_tokens.WRONG._value.get()
    for path in ("h1/sessions", "h1/reports", "h2/sessions"):
        answer = http.post(f"/v1/agents/{path}", content=b"{}", headers={"Authorization": f"Bearer {path}"})
        assert answer.status_code == 401
    assert http.post("/v1/agents/h1/sessions", content=b"{}").status_code == 422
    assert waits == [0.05, 0.1, 0.2]
    assert wrong_tokens.WRONG._value.get() - before == 3
    monkeypatch.setattr(wrong_tokens, "WAITING_MAX", 0)
    answer = http.post("/v1/agents/h1/sessions", content=b"{}", headers={"Authorization": "Bearer wrong"})
    assert (answer.status_code, answer.json()["code"]) == (429, "TOO_MANY_WRONG_TOKENS")
    assert answer.headers["Retry-After"] == "2"


def test_orders_for_a_session_that_is_not_known_end_at_once(http: httpx2.Client, cell: Cell) -> None:
    texts: list[str] = []
    thread = threading.Thread(target=lambda: texts.append(http.get("/v1/agents/h1/orders", params={"session": 4}).text))
    thread.start()
    cell.until(lambda: texts)
    thread.join()
    assert texts == [""]
