"""Whatever an agent sends, its gateway goes on and what it writes is bounded; whatever is in the log, so do readers."""

import json
import random
import threading
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from events.bounds import (
    AMOUNT_MAX,
    ATTRIBUTES_MAX,
    EXCLUDES_MAX,
    HOST_CORES_MAX,
    HOST_DEVICES_MAX,
    HOST_RUNS_MAX,
    SESSION_MAX,
    USE_MAX,
)
from events.codec import encode
from events.log.port import NewRecord
from events.records.base import Event
from events.records.hosts import HostConnected, HostOffered, HostSilent
from events.records.parts import HostDevice
from events.records.tasks import HostInventory, RunsReported
from events.resources import Amounts, Kinds
from events.topics import ROUND_BYTES_MAX
from hostagent.gateway.connections import Report
from hostagent.gateway.facts import columns_of, connected
from hostagent.messages import Hello, ReportBatch, RunState
from hostagent.run import Run
from hostagent.run_record import RunKey
from projections.queries import entities, host_list
from projections.views.projector import Projector
from tests.helpers import whole_cell as world
from tests.helpers.drawn import examples
from tests.hostagent.cell import TOKEN, Cell, Server
from tests.hostagent.gateway.test_component import Host as Agent

RUN = RunState("j", 0, 1, 2)
DEVICE = HostDevice("0", "gpu", "a100", numa=1)
BASES: dict[str, Any] = {
    "sessions": msgspec.to_builtins(
        Hello(1, {"cpu": 1000, "gpu": 1000}, attributes={"rack": "1"}, runs=[RUN], devices=[DEVICE], cores=[0, 1])
    ),
    "reports": msgspec.to_builtins(ReportBatch(1, 1, [RUN], offer=Hello(1, {"gpu": 1000}, devices=[DEVICE]))),
}
VALUES = st.one_of(
    st.sampled_from([-1, 0, 1, 2**31, 2**40 + 1, 2**48 + 1, 2**53, 2**62, 2**63 - 1, 2**63, 2**64, 10**30, -(10**30)]),
    st.sampled_from([1.5, True, None, "", "x" * 300, "\u2028", "\0", [], {}, [[]], {"a": {}}, "Infinity"]),
    st.text(max_size=5),
    st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=3),
)


class Host:
    """A gateway whose thread turns, and a client that may be hostile to it."""

    def __init__(self) -> None:
        self.cell = Cell()
        self.fault: BaseException | None = None
        self._over = threading.Event()
        self.cell.until(lambda: self.cell.gateway.serving)
        self._thread = threading.Thread(target=self._turn)
        self._thread.start()
        self.server = Server(self.cell.gateway)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        self.client = httpx2.Client(base_url=f"{self.server.url}/v1/agents/", headers=headers, trust_env=False)

    def _turn(self) -> None:
        try:
            while not self._over.is_set():
                if not self.cell.turn():
                    self._over.wait(0.001)
        except BaseException as fault:
            self.fault = fault

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self.client.close()
        self.server.stop()

    def post(self, path: str, body: bytes, **headers: str) -> httpx2.Response:
        response = self.client.post(path, content=body, headers=headers)
        assert self.fault is None
        assert response.status_code < 500, response.text
        return response


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    host = Host()
    yield host
    host.close()


@st.composite
def messages(draw: st.DrawFn) -> tuple[str, bytes]:
    """A message of which some fields hold something else."""
    kind = draw(st.sampled_from(sorted(BASES)))
    message = msgspec.json.decode(msgspec.json.encode(BASES[kind]))
    for _ in range(draw(st.integers(1, 3))):
        at: Any = message
        while isinstance(at, dict | list) and at:
            key = draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
            if not isinstance(at[key], dict | list) or not at[key] or draw(st.booleans()):
                at[key] = deepcopy(draw(VALUES))
                break
            at = at[key]
    return kind, json.dumps(message).encode()


@examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(message=messages())
def test_no_message_of_an_agent_ends_its_gateway(host: Host, message: tuple[str, bytes]) -> None:
    kind, body = message
    response = host.post(f"h1/{kind}", body)
    assert response.status_code in (200, 409, 421, 422)
    if response.status_code != 200:
        assert response.json().get("title") or response.json().get("session")


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(["sessions", "reports", "logs/1"]), body=st.binary(max_size=60))
def test_no_bytes_of_an_agent_end_its_gateway(host: Host, kind: str, body: bytes) -> None:
    assert host.post(f"h1/{kind}", body).status_code == (204 if kind == "logs/1" else 422)


@pytest.mark.parametrize("body", [b"[" * 200_000, b'{"session":' + b"[" * 200_000, b"1" * 100_000, b'"\\ud800"'])
def test_nested_and_endless_text_is_refused(host: Host, body: bytes) -> None:
    assert host.post("h1/sessions", body).status_code == 422


@pytest.mark.parametrize("offsets", [("-1", "5"), ("5", "1"), ("1", str(2**63)), ("9" * 5000, "9" * 5000), ("a", "b")])
def test_offsets_of_output_that_can_not_be_are_refused(host: Host, offsets: tuple[str, str]) -> None:
    headers = {"Log-Found": "1", "Log-Offset": offsets[0], "Log-Next-Offset": offsets[1]}
    assert host.post("h1/logs/7", b"", **headers).status_code == 422


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"capacity": {"cpu": -1}}, "cpu is -0.001"),
        ({"capacity": {"memory": 1 << 62}}, f"must be 0MiB to {AMOUNT_MAX >> 20}TiB"),
        ({"capacity": {"gpu": 10**30}}, f"must be 0 to {AMOUNT_MAX / 1000}"),
        ({"port_first": 9, "port_last": 3}, "ports are 9 to 3"),
        ({"attributes": {str(at): "" for at in range(ATTRIBUTES_MAX + 1)}}, f"at most {ATTRIBUTES_MAX}"),
        ({"attributes": {"a": "x" * 257}}, "attribute 'a'"),
        ({"session": 2**63 - 1}, str(SESSION_MAX)),
        ({"runs": [msgspec.to_builtins(RUN)] * (HOST_RUNS_MAX + 1)}, str(HOST_RUNS_MAX)),
        ({"runs": [msgspec.to_builtins(RUN) | {"cpu_ms": 2**63 - 1}]}, f"<= {USE_MAX} - at `$.runs[0].cpu_ms`"),
        ({"runs": [msgspec.to_builtins(RUN) | {"memory_kib": USE_MAX + 1}]}, "$.runs[0].memory_kib"),
    ],
)
def test_an_agent_is_told_what_is_refused_of_its_hello(host: Host, change: dict[str, Any], says: str) -> None:
    before = host.cell.facts("paceline.hosts", HostConnected)
    response = host.post("h2/sessions", msgspec.json.encode(BASES["sessions"] | change))
    assert response.status_code == 422
    assert says in response.json()["title"]
    assert host.cell.facts("paceline.hosts", HostConnected) == before


def test_an_agent_says_no_more_of_a_run_than_its_cell_takes(tmp_path: Path) -> None:
    numbers = dict.fromkeys(("cpu_ms", "memory_kib", "throttled_ms", "read_kib", "written_kib"), 2**64)
    said = Run(RunKey("j", 0, 1), tmp_path, state=2, **numbers).report()
    assert set(said.details()[2:]) == {USE_MAX}


def test_hosts_that_are_only_named_are_not_kept() -> None:
    cell = Cell()
    cell.until(lambda: cell.gateway.serving)
    answers: list[bool] = []
    for number in range(100):
        cell.gateway.post(Report((1,), columns_of(f"x{number}", [RUN]), answers.append))
    cell.until(lambda: len(answers) == 100)
    assert not any(answers)
    assert not list(cell.gateway._hosts.items())


def test_long_reasons_are_divided_among_records_that_the_log_takes() -> None:
    cell = Cell()
    cell.until(lambda: cell.gateway.serving)
    agent = Agent(cell, "h1")
    agent.connect(1)
    draw = random.Random(1)
    for _ in range(8):
        runs = [RunState("j", at, 1, 2, 1, f"{draw.random()}".ljust(1000, "\u20ac")) for at in range(500)]
        cell.gateway.post(Report((1,), columns_of("h1", runs), agent.acknowledged.append))
    cell.until(lambda: len(agent.acknowledged) == 8)
    assert all(agent.acknowledged)
    facts = cell.facts("paceline.tasks", RunsReported)
    assert len(list(cell.said())) == 8 * 500
    assert len(facts) > 1
    assert all(len(encode(fact)) <= ROUND_BYTES_MAX for fact in facts)


@pytest.mark.parametrize("job_id", ["../../x", "..", "j\u2028", "j\n", "a/b", "", "x" * 129])
def test_runs_of_ids_that_no_job_can_have_are_refused(host: Host, job_id: str) -> None:
    for path, body in BASES.items():
        odd = body | {"runs": [body["runs"][0] | {"job_id": job_id}]}
        assert host.client.post(f"h1/{path}", json=odd).status_code == 422


@pytest.mark.parametrize("job_id", ["j", "...", "Job_1.a-b", "x" * 128])
def test_runs_of_all_ids_that_jobs_can_have_are_taken(host: Host, job_id: str) -> None:
    body = BASES["sessions"]
    assert host.client.post(
        f"of-{len(job_id)}/sessions", json=body | {"runs": [body["runs"][0] | {"job_id": job_id}]}
    ).is_success


def facts_of(host_id: str, session: int, capacity: Amounts, **offer: Any) -> list[Event]:
    none = {"job_ids": (), "job": b"", "instance": b"", "run": b"", "state": b"", "exit_code": b""}
    return [
        HostConnected(host_id=host_id, session=session, gateway="g"),
        HostOffered(host_id=host_id, session=session, capacity=capacity, **offer),
        HostInventory(host_id=host_id, session=session, **none),  # type: ignore[arg-type]
    ]


@pytest.mark.parametrize(
    "offer",
    [
        {"capacity": {"cpu": -1}},
        {"capacity": {"cpu": 1 << 62}},
        {"capacity": {}, "port_first": 0},
        {"capacity": {}, "attributes": {str(at): "" for at in range(ATTRIBUTES_MAX + 1)}},
    ],
)
def test_an_offer_in_the_log_that_counts_as_nothing_is_not_shown_as_up(tmp_path: Any, offer: dict[str, Any]) -> None:
    cell = world.Cell(hosts=1)
    for event in facts_of("h9", 5, **offer):
        cell.append(event)
    cell.run(1000)
    views = Projector(cell.log, tmp_path)
    views.fold_whole()
    with views.views.read() as connection:
        shown = entities.host_row(connection, "h9")
        good = entities.host_row(connection, "sim-1")
        assert shown is not None
        assert good is not None
        shown_, good_ = entities.host_json(shown, Kinds()), entities.host_json(good, Kinds())
    views.close()
    assert (good_["state"], good_["offer_refused"]) == ("UP", None)
    assert shown_["state"] == "RETURNING"
    assert shown_["offer_refused"]
    assert shown_["capacity"] == {}
    placement: Any = cell.drivers["placement"].machine
    assert not placement.hosts.up[placement.hosts.table["h9"].number]
    cell.verify()


@pytest.mark.parametrize(
    ("host_id", "session"),
    [("h9", 2**63 - 1), ("h9", -1), ("h9", SESSION_MAX + 1), ("../h9", 5), ("", 5), ("x" * 129, 5)],
)
def test_a_session_that_can_not_be_is_skipped_by_all_and_the_host_connects(
    tmp_path: Any, host_id: str, session: int
) -> None:
    cell = world.Cell(hosts=0)
    for event in facts_of(host_id, session, world.HOST):
        cell.append(event)
    cell.append(HostSilent(host_id=host_id, session=session))
    for event in facts_of("h9", 1, world.HOST):
        cell.append(event)
    cell.run(1000)
    placement: Any = cell.drivers["placement"].machine
    assert list(placement.hosts.table) == ["h9"]
    assert placement.hosts.up.all()
    assert list(cell.lifecycle.hosts.table) == ["h9"]
    views = Projector(cell.log, tmp_path)
    views.fold_whole()
    with views.views.read() as connection:
        assert [row.host_id for row in host_list.host_rows(connection, host_list.HostFilter(), 10, "").rows] == ["h9"]
        skipped = {item["reason"] for item in entities.quarantine_rows(connection, 10, None).rows}
    views.close()
    assert skipped <= {"BAD_HOST_ID", "SESSION_OUT_OF_BOUNDS"}
    assert len(skipped) == 1
    assert [host_id for host_id, _ in cell.gateway._hosts.items()] == ["h9"]
    cell.verify()


def test_a_record_of_the_largest_host_is_one_that_the_log_takes() -> None:
    runs = [RunState(f"{at:05}".ljust(128, "x"), at, 1, 2) for at in range(HOST_RUNS_MAX)]
    attributes = {f"{at:03}".ljust(256, "\u20ac"): "\u20ac" * 256 for at in range(ATTRIBUTES_MAX)}
    names = [f"{at:03}".ljust(128, "x") for at in range(HOST_DEVICES_MAX)]
    devices = [HostDevice(name, "nic", "\u20ac" * 256, excludes=(*names[:EXCLUDES_MAX],)) for name in names]
    cores = [0] * HOST_CORES_MAX
    hello = Hello(SESSION_MAX, {"cpu": AMOUNT_MAX}, attributes=attributes, runs=runs, devices=devices, cores=cores)
    records: list[NewRecord] = connected("h" * 128, hello, "g")
    assert max(len(record.value) for record in records) <= ROUND_BYTES_MAX
