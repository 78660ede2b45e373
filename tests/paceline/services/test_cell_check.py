"""`paceline cell check`: one look at everything of the cells, with a code for scripts."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from events.codec import encode
from events.log.embedded import EmbeddedLog
from events.log.kafka import topics as kafka_topics
from events.log.memory import MemoryLog
from events.log.port import NewRecord
from events.records.hosts import GatewayBeat
from events.records.pools import PoolDefined
from events.topics import EVERY, MACHINES
from paceline.cli.main import run
from paceline.services.cell_check import TAIL_RECORDS, gateway_missing
from paceline.services.data_folder import keep_cell, prepare
from tests.helpers.broker import Broker
from tests.helpers.ports import kept_address
from tests.helpers.real_cell import CellProcess
from tests.helpers.site import Site, empty


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]) -> Any:
    """Checks and returns the exit code with what was printed: an object, or the text where that is asked for."""

    def checked(*words: str, form: str = "json") -> Any:
        capsys.readouterr()
        code = run(["cell", "check", "-o", form, *words])
        printed = capsys.readouterr()
        assert printed.err.count("\n") == (code == 6), printed.err
        return code, json.loads(printed.out) if form == "json" and printed.out else printed.out + printed.err

    return checked


def retention(broker: Broker, value: str) -> None:
    entry = ConfigEntry("retention.ms", value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "paceline.jobs", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": broker.address})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result()


def test_what_is_there_is_shown_and_what_is_missing_is_named(broker: Broker, tmp_path: Path, check: Any) -> None:
    site = Site(tmp_path, empty(broker, 2), cells=2)
    try:
        parts = (*MACHINES, "projector", "fanout", "gateway.0", "gateway.1")
        site.start(*parts)
        site.until_ready(*parts)
        site.until(lambda: check("--kafka", site.bootstrap)[0] == 0, "all to be well")
        code, body = check("--kafka", site.bootstrap)
        assert (code, body["well"], body["problems"]) == (0, True, [])
        found = {(each["cell"], each["machine"]): each for each in body["machines"]}
        assert found.keys() == {(cell, machine) for cell in (0, 1) for machine in MACHINES}
        for (cell, machine), each in found.items():
            assert each["runner"] == each["claimant"] == machine
            assert each["epoch"] == site.owned(machine)[cell]
            assert each["at_ms"] > 0
            assert len(bytes.fromhex(each["hash"])) == 32
            assert each["behind"].keys() > {"paceline.pools"} or machine == "placement"
        code, text = check("--kafka", site.bootstrap, "--cell", "1", form="table")
        assert (code, text.splitlines()[-1]) == (0, "all is well")
        assert [line.split()[:2] for line in text.splitlines()[1:5]] == [["1", machine] for machine in MACHINES]

        site.kill("placement")
        site.stop("projector")
        site.stop("fanout")
        event = PoolDefined(path="/p", command_id="p")
        site.append(0, NewRecord(event.topic, b"/p", encode(event)))
        retention(broker, "3600000")
        missing = [
            f"{who} of cell {cell}. Start `paceline {what}`, or `paceline up`."
            for cell in (0, 1)
            for who, what in (("Nobody runs placement", "processor placement"), ("the views", "projector"))
        ]
        missing += [f"decisions of cell {cell}. Start `paceline fanout` again." for cell in (0, 1)]
        wanted = sorted([*missing, "--add-config retention.ms=-1`."])

        def named() -> bool:
            code, body = check("--kafka", site.bootstrap)
            assert code == 1
            behind = {(each["cell"], each["machine"]): sum(each["behind"].values()) for each in body["machines"]}
            said = sorted(body["problems"])
            return (
                behind[0, "placement"] > 0
                and len(said) == len(wanted)
                and all(any(line.endswith(end) for line in said) for end in wanted)
            )

        site.until(named, "the group to miss the one that was killed")
        site.end()
    finally:
        site.processes.stop_all()


def test_a_cell_whose_gateways_are_silent_is_named() -> None:
    now = time.time() * 1000
    at = now - 60_000.0
    log = MemoryLog(lambda: int(at), 1)
    said = gateway_missing(log)
    assert "No gateway of cell 1 was heard for 30 s. Start `paceline gateway --cell 1`" in said
    beat = NewRecord(GatewayBeat.topic, b"g", encode(GatewayBeat(gateway="g")))
    log.append([beat])
    assert gateway_missing(log) == said
    at = now
    log.append([NewRecord(GatewayBeat.topic, b"k", b"no fact")])
    assert gateway_missing(log) == said
    log.append([beat])
    assert not gateway_missing(log)
    log.append([NewRecord(GatewayBeat.topic, b"k", b"no fact")] * TAIL_RECORDS)
    assert not gateway_missing(log), "so much has come since that it can't be told"


def test_topics_and_cells_that_are_not_there_are_named(broker: Broker, check: Any) -> None:
    broker.remove_topics([topic.name for topic in EVERY])
    code, body = check("--kafka", broker.address)
    assert (code, body["machines"]) == (1, [])
    assert [line for line in body["problems"] if "is missing. Make it with" in line] == body["problems"]
    assert len(body["problems"]) == len(EVERY)
    kafka_topics.create(broker.address, 1)
    code, body = check("--kafka", broker.address, "--cell", "3")
    assert code == 1
    assert any("has no partition 3 of" in line for line in body["problems"])


def test_a_broker_that_is_away_is_named(check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_topics, "REACH_SECONDS", 0.3)
    address = kept_address()
    code, said = check("--kafka", address)
    assert (code, f"Kafka at {address} can't be reached" in said) == (6, True)


@pytest.mark.outside
def test_a_cell_on_the_embedded_log_is_checked_too(tmp_path: Path, check: Any) -> None:
    cell = CellProcess(tmp_path / "data", sim_hosts=1)
    cell.start()
    cell.pool("/p")
    code, body = check("--data", str(cell.data))
    assert (code, body["problems"]) == (0, [])
    assert {each["machine"] for each in body["machines"]} == set(MACHINES)
    cell.stop()
    code, text = check("--data", str(cell.data), form="table")
    assert (code, text.count("Nobody runs")) == (1, len(MACHINES))


def test_a_cell_that_a_data_folder_does_not_hold_is_not_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(tmp_path / "data")
    keep_cell(tmp_path / "data", 0)
    assert run(["cell", "check", "--data", str(tmp_path / "data"), "--cell", "3"]) == 1
    assert "is the data folder of cell 0: there is no cell 3 in it" in capsys.readouterr().err


def test_the_cell_that_is_checked_is_that_of_the_data_folder(tmp_path: Path, check: Any) -> None:
    prepare(tmp_path / "data")
    keep_cell(tmp_path / "data", 1)
    EmbeddedLog(tmp_path / "data" / "log", cell=1).close()
    code, body = check("--data", str(tmp_path / "data"))
    assert code == 1, "nothing runs"
    assert {each["cell"] for each in body["machines"]} == {1}


def test_a_machine_that_leaves_a_fact_unread_is_named(tmp_path: Path, check: Any) -> None:
    prepare(tmp_path / "data")
    log = EmbeddedLog(tmp_path / "data" / "log", now_ms=lambda: int(time.time() * 1000) - 31_000)
    fact = PoolDefined(path="/late", command_id="late")
    log.append([NewRecord(fact.topic, b"/late", encode(fact))])
    log.close()
    code, body = check("--data", str(tmp_path / "data"))
    assert code == 1
    assert any("entitlement of cell 0 doesn't decide: the oldest record" in line for line in body["problems"])
    assert not any("lifecycle of cell 0 doesn't decide" in line for line in body["problems"])


def test_the_log_of_each_cell_is_verified_and_its_views_are_made_anew(
    broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def paceline(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run([*words, "--kafka", site.bootstrap, "--data", str(tmp_path / "data"), "--cell", "1"])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    site = Site(tmp_path, empty(broker, 2), cells=2)
    try:
        site.start("entitlement", "projector")
        site.until_ready("entitlement", "projector")
        pool = PoolDefined(path="/far", command_id="far", cell=1)
        site.append(1, NewRecord(pool.topic, b"/far", encode(pool)))
        site.until(lambda: site.status("entitlement", 1).get("round"), "the round of the pool")
        code, out, _ = paceline("log", "verify")
        assert (code, "all identical" in out) == (0, True), out
        assert out.split()[out.split().index("entitlement") + 1] != "0", out
        capsys.readouterr()
        assert run(["log", "verify", "--kafka", site.bootstrap, "--data", str(tmp_path / "data")]) == 1
        out = capsys.readouterr().out
        assert [line for line in out.splitlines() if line.startswith(("cell ", "There is"))] == [
            "cell 0",
            "There is nothing to verify: the log of cell 0 has no rounds.",
            "cell 1",
        ]
        assert "all identical" in out.partition("cell 1")[2]
        assert run(["log", "verify", "--kafka", site.bootstrap, "--save-head", str(tmp_path / "head")]) == 2
        code, _, err = paceline("admin", "rebuild")
        assert (code, "A projector keeps the views" in err) == (1, True)
        site.stop("projector")
        code, out, _ = paceline("admin", "rebuild")
        assert (code, out.startswith(f"the views of {tmp_path}/data/cell-1 are new, from ")) == (0, True)
        site.start("projector")
        site.until_ready("projector")
        site.end()
    finally:
        site.processes.stop_all()
