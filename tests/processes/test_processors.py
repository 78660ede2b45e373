"""Processors as processes of their own: how a group shares cells, loses one of its members, and meets a bad cell."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from events.codec import decode, encode
from events.log.kafka.kafka_log import KafkaLog
from events.log.kafka.topics import check
from events.log.port import NewRecord
from events.records.entitlement import PoolAnswered
from events.records.pools import PoolDefined
from events.records.rounds import RoundCommitted
from events.topics import HOSTS, MACHINES
from processors.cell_machines import machines
from processors.runtime.replay import replay
from tests.helpers.asking import ask
from tests.helpers.broker import Broker
from tests.helpers.ports import kept_address
from tests.helpers.site import Site, empty

CELLS = 4
PAGES = ("livez", "startupz", "metrics")
SESSION_MS = "6000"
"""Nobody may leave a group for being slow, where epochs are counted."""


@pytest.fixture
def site(broker: Broker, tmp_path: Path) -> Iterator[Site]:
    """Four cells, no process yet."""
    found = Site(tmp_path, empty(broker, CELLS), CELLS, PACELINE_SERVICE__SESSION_TIMEOUT_MS=SESSION_MS)
    yield found
    found.processes.stop_all()


def pool(site: Site, cell: int, path: str) -> None:
    """An admin defines a pool."""
    event = PoolDefined(path=path, command_id=path, cell=cell)
    site.append(cell, NewRecord(event.topic, path.encode(), encode(event)))


def answered(site: Site, cell: int) -> set[str]:
    """The pools that entitlement has answered."""
    log = KafkaLog(site.bootstrap, cell)
    try:
        rounds = [decode(record.value) for record in log.scan("paceline.entitlement", 0)]
    finally:
        log.close()
    decisions = [decode(each) for found in rounds if isinstance(found, RoundCommitted) for each in found.decisions]
    return {each.path for each in decisions if isinstance(each, PoolAnswered)}


def verified(site: Site, cell: int) -> None:
    log = KafkaLog(site.bootstrap, cell)
    try:
        for make in machines(cell).values():
            found = replay(make(), log)
            assert found.difference is None, found.difference
    finally:
        log.close()


def halves(site: Site, machine: str) -> tuple[dict[int, int], dict[int, int]] | None:
    """What each of two processors owns, once they share the cells."""
    found = site.owned(machine), site.owned(f"{machine}.b")
    return found if [len(each) for each in found] == [CELLS // 2] * 2 else None


def test_cells_are_spread_move_on_death_and_those_that_stay_are_not_disturbed(site: Site) -> None:
    site.start(*MACHINES)
    for machine in MACHINES:
        site.until(lambda machine=machine: site.owned(machine) == dict.fromkeys(range(CELLS), 1))
    site.start(*(f"{machine}.b" for machine in MACHINES))
    stayed, moved = {}, {}
    for machine in MACHINES:
        stayed[machine], moved[machine] = site.until(lambda machine=machine: halves(site, machine))
        assert set(stayed[machine].values()) == {1}, "what stays goes on in its epoch"
        assert set(moved[machine].values()) == {2}
    for cell in range(CELLS):
        pool(site, cell, f"/before-{cell}")
    site.until(lambda: all(answered(site, cell) == {f"/before-{cell}"} for cell in range(CELLS)))

    for machine in MACHINES:
        site.kill(f"{machine}.b")
    for machine in MACHINES:
        owned = site.until(lambda machine=machine: len(found := site.owned(machine)) == CELLS and found)
        assert owned == stayed[machine] | dict.fromkeys(moved[machine], 3)
    for cell in range(CELLS):
        pool(site, cell, f"/after-{cell}")
    site.until(lambda: all(f"/after-{cell}" in answered(site, cell) for cell in range(CELLS)))
    for machine in MACHINES:
        site.stop(machine)
    for cell in range(CELLS):
        verified(site, cell)


@pytest.mark.parametrize("machine", ["entitlement", "lifecycle"])
def test_an_owner_that_is_frozen_loses_its_cells_and_does_no_harm_when_it_wakes(
    broker: Broker, tmp_path: Path, machine: str
) -> None:
    site, other = Site(tmp_path, empty(broker, 2), cells=2), f"{machine}.b"
    try:
        site.begin(other)
        site.until(lambda: len(site.owned(machine)) == len(site.owned(other)) == 1)
        [(lost, epoch)] = site.owned(other).items()
        for cell in range(2):
            site.pool(f"/{cell}", cell)
        site.submit("begun", 200, duration="1s", pool=f"/{lost}")
        site.freeze(other)
        site.until(lambda: site.owned(machine).get(lost, 0) > epoch, "another to take the cell")
        site.submit("while-away", 50, pool=f"/{lost}")
        site.finish("begun", "while-away")
        site.submit("as-it-wakes", 50, pool=f"/{lost}")
        site.thaw(other)
        site.finish("as-it-wakes")
        site.until(lambda: len(site.owned(machine)) == len(site.owned(other)) == 1)
        for cell in range(2):
            site.submit(f"together-{cell}", 50, pool=f"/{cell}")
        site.finish("together-0", "together-1")
        site.note_hashes()
        site.end()
    finally:
        site.processes.stop_all()
    found = site.verify()
    assert (found["ordered"], found["ended"], found["succeeded"]) == (400, 400, 400)


def test_a_cell_with_a_gap_stops_alone_and_says_why(site: Site) -> None:
    for cell in range(CELLS):
        pool(site, cell, "/p")
    site.remove(2, "paceline.pools", 1)
    site.start("entitlement")
    site.until(lambda: all(answered(site, cell) == {"/p"} for cell in (0, 1, 3)))
    site.until(lambda: "archive" in site.status("entitlement", 2).get("failed", ""))
    site.until(lambda: [site.status("entitlement", cell).get("ready") for cell in (0, 1, 3)] == [True] * 3)
    assert not site.ready("entitlement")
    assert "stopped: paceline.pools starts at 1" in site.said("entitlement")
    site.stop("entitlement")


def test_a_process_with_no_cell_left_ends_with_its_reason(site: Site) -> None:
    for cell in range(CELLS):
        pool(site, cell, "/p")
        site.remove(cell, "paceline.pools", 1)
    site.start("entitlement")
    assert site.until_ended("entitlement") == 1
    assert "paceline: paceline.pools starts at 1" in site.said("entitlement")
    assert "Traceback" not in site.said("entitlement")


def test_a_store_of_another_cell_or_from_before_a_gap_stops_its_cell_alone(site: Site) -> None:
    for cell in range(CELLS):
        pool(site, cell, f"/{cell}")
    site.start("entitlement")
    site.until(lambda: all(answered(site, cell) == {f"/{cell}"} for cell in range(CELLS)))
    site.stop("entitlement")
    own, other = (site.folder / "data" / f"cell-{cell}" / "store" / "entitlement" for cell in (0, 1))
    shutil.rmtree(other)
    shutil.copytree(own, other)
    for cell in range(CELLS):
        pool(site, cell, "/late")
    site.remove(2, "paceline.pools", 2)
    site.start("entitlement")
    site.until(lambda: all("/late" in answered(site, cell) for cell in (0, 3)))
    site.until(lambda: "is of another log" in site.status("entitlement", 1).get("failed", ""))
    site.until(lambda: "paceline.pools starts at 2" in site.status("entitlement", 2).get("failed", ""))
    assert all("/late" not in answered(site, cell) for cell in (1, 2))
    site.stop("entitlement")


def test_wrong_starts_are_one_sentence(site: Site, tmp_path: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "paceline", "processor", "sla", "--data", str(tmp_path / "x"), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    without = run()
    assert (without.returncode, without.stderr.count("\n")) == (1, 1)
    assert "--kafka" in without.stderr
    site.start("sla")
    site.until(lambda: site.health("sla") is not None)
    taken = run("--kafka", site.bootstrap, "--listen", site.address("sla"))
    assert (taken.returncode, taken.stderr.count("\n")) == (1, 1)
    assert "--listen" in taken.stderr
    site.stop("sla")


def test_no_part_starts_where_a_cell_would_have_no_owner_and_the_check_says_the_same(
    site: Site, broker: Broker
) -> None:
    admin = AdminClient({"bootstrap.servers": site.bootstrap})
    for done in admin.create_partitions([NewPartitions(HOSTS.name, CELLS + 1)]).values():
        done.result()
    site.until(lambda: check(site.bootstrap, CELLS))  # until the broker knows, too
    for words in (["processor", "sla", "--listen", "127.0.0.1:0"], ["cell", "check"]):
        command = [
            sys.executable,
            "-m",
            "paceline",
            *words,
            "--data",
            str(site.folder / "x"),
            "--kafka",
            site.bootstrap,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        said = done.stdout + done.stderr
        assert done.returncode == 1
        assert f"Topic paceline.jobs has {CELLS} partitions, {CELLS + 1} are wanted, as paceline.hosts has." in said
        assert f"--create --partitions {CELLS + 1}`" in said


@pytest.mark.parametrize("part", ["sla", "fanout", "gateway.0", "api"])
def test_a_broker_that_is_not_there_yet_is_waited_for_and_named(tmp_path: Path, part: str) -> None:
    site = Site(tmp_path, kept_address())
    site.start(part)
    said = site.until(lambda: site.health(part), "the pages of a process that waits")
    assert (said["ready"], site.bootstrap in said["trouble"]) == (False, True)
    assert site.bootstrap in site.said(part)
    codes = {page: ask(f"http://{site.address(part)}/{page}").status_code for page in PAGES}
    assert codes == {"livez": 200, "startupz": 503, "metrics": 200}
    site.processes.send(part, signal.SIGTERM)
    assert site.until_ended(part) == 0


def test_settings_are_shown_with_their_origins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = '[kafka_options]\n"security.protocol" = "sasl_ssl"\n[logs]\nform = "json"\n'
    (tmp_path / "paceline.toml").write_text(f'kafka = "file:9092"\n{file}')
    command = [sys.executable, "-m", "paceline", "processor", "sla", "--show-config", "--name", "one"]
    command += ["--kafka-option", "sasl.mechanism=PLAIN"]
    monkeypatch.setenv("PACELINE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("PACELINE_KAFKA_OPTIONS", '{"sasl.username": "u", "sasl.password": "hidden"}')
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert lines["service.name"].split()[1:] == ["one", "flag"]
    assert lines["data"].split()[1:] == [str(tmp_path / "data"), "PACELINE_DATA"]
    assert lines["kafka"].split()[1:] == ["file:9092", str(tmp_path / "paceline.toml")]
    assert lines["service.session_timeout_ms"].split()[1:] == ["6000", "default"]
    assert "hidden" not in done.stdout
    options = {name: lines[f"kafka_options.{name}"].split()[1:] for name in ("security.protocol", "sasl.mechanism")}
    assert options == {
        "security.protocol": ["sasl_ssl", str(tmp_path / "paceline.toml")],
        "sasl.mechanism": ["PLAIN", "flag"],
    }
    assert lines["kafka_options.sasl.username"].split()[1:] == ["u", "PACELINE_KAFKA_OPTIONS"]
    command = [*command[:3], "cell", "check", "--show-config"]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=60)
    lines = {line.split()[0]: line for line in checked.stdout.splitlines()}
    assert (checked.returncode, lines["kafka"].split()[1:]) == (0, ["file:9092", str(tmp_path / "paceline.toml")])
