"""Kafka that asks for passwords and certificates: what works there, and what is said where they are wrong."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined]

from events.log.kafka import topics as kafka_topics
from events.log.kafka.groups import groups
from events.log.kafka.kafka_log import KafkaLog
from events.log.kafka.membership import Membership
from events.log.port import LogFault, LogUnavailable
from tests.events.log.contract import PATIENCE, ends, new, read, values
from tests.events.log.kafka.test_kafka_log import until
from tests.helpers.broker import Broker
from tests.helpers.broker.security import Security, certify
from tests.helpers.ports import kept_port
from tests.helpers.real_cell import CellProcess
from tests.helpers.site import Site

pytestmark = pytest.mark.xdist_group("security")
JOBS = "paceline.jobs"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with such listeners, that has all topics."""
    folder = tmp_path_factory.mktemp("secure")
    security = Security(folder / "certificate", kept_port(), kept_port())
    with Broker(folder / "kafka", security=security) as broker:
        kafka_topics.create(security.scram_address, 1, extra=security.scram())
        yield broker


@pytest.fixture
def security(guarded: Broker) -> Security:
    """Its listeners."""
    assert guarded.security is not None
    return guarded.security


@pytest.mark.parametrize("listener", ["scram", "tls"])
def test_topics_log_and_group_work_behind_passwords_and_certificates(security: Security, listener: str) -> None:
    address = getattr(security, f"{listener}_address")
    options = getattr(security, listener)()
    assert kafka_topics.create(address, 1, extra=options) == []
    assert kafka_topics.check(address, 1, options) == []
    log = KafkaLog(address, extra=options)
    [offset] = log.append(new(JOBS, b"secret"))
    reader = log.reader({JOBS: offset})
    assert values(read(reader, 1)) == [b"secret"]
    assert ends(reader) == {JOBS: offset + 1}
    assert values(list(log.scan(JOBS, offset))) == [b"secret"]
    member = Membership(address, f"secure-{listener}", "one", extra=options)
    until(lambda: member.cells() == {0})
    assert groups(address, lambda name: name == f"secure-{listener}", options)[f"secure-{listener}"].of(0) == "one"
    member.close()
    reader.close()
    log.close()


def every_way_in(address: str, options: dict[str, str]) -> set[str]:
    """Each must be refused at once, by a sentence that names the address; returns the sentences."""
    said = set()
    log = KafkaLog(address, extra=options, on_trouble=lambda _: None)
    member = Membership(address, "refused", "one", extra=options, on_trouble=lambda _: None)
    reader = log.reader({JOBS: 0})
    ways: tuple[Callable[[], object], ...] = (
        lambda: kafka_topics.create(address, 1, extra=options),
        lambda: kafka_topics.check(address, 1, options),
        lambda: log.append(new(JOBS, b"0")),
        lambda: until(lambda: False, lambda: reader.poll(10, 0.1)),
        lambda: until(lambda: False, member.cells),
    )
    for way in ways:
        with pytest.raises(LogFault) as met:
            way()
        said.add(str(met.value))
    reader.close()
    member.close()
    log.close()
    return said


def test_a_wrong_password_is_said(security: Security) -> None:
    [said] = every_way_in(security.scram_address, security.scram("wrong"))
    assert said.startswith(f"No secure connection to Kafka at {security.scram_address}: SASL authentication error")
    assert said.endswith("Check the Kafka options.")


def test_a_broker_whose_certificate_nobody_vouches_for_is_said(security: Security, tmp_path: Path) -> None:
    other = certify(tmp_path / "other")
    [said] = every_way_in(security.tls_address, {**security.tls(), "ssl.ca.location": str(other.certificate)})
    assert said.startswith(f"No secure connection to Kafka at {security.tls_address}: SSL handshake failed")
    assert said.endswith("Check the Kafka options.")


def test_who_comes_without_tls_is_asked_about_it(security: Security) -> None:
    log = KafkaLog(security.tls_address, on_trouble=lambda _: None)
    with pytest.raises(LogUnavailable, match=r"can't be reached.*Does it ask for TLS or a password\?"):
        log.bounds(JOBS)
    log.close()


def test_a_user_without_rights_is_told_which(guarded: Broker, security: Security) -> None:
    address = security.scram_address
    seeing = security.guest(guarded.address, AclOperation.DESCRIBE, AclOperation.READ)
    said = every_way_in(address, seeing)
    for what in (JOBS, "group refused", "Cluster authorization failed", "Topic authorization failed"):
        assert any(what in each for each in said), what
    for each in said:
        assert each.startswith(f"Kafka at {address} doesn't allow it")
        assert "Give user guest-DESCRIBE-READ " in each
    assert any(f"Write on {JOBS}, with `kafka-acls.sh`" in each for each in said)
    assert any("Read on group refused, with" in each for each in said)
    assert any("Describe on group paceline.readers, with" in each for each in said)


def test_a_user_who_may_see_nothing_is_told_that_it_may_be_so(guarded: Broker, security: Security) -> None:
    blind = security.guest(guarded.address)
    [said] = kafka_topics.check(security.scram_address, 1, blind)
    assert "shows none of the topics to this user" in said
    log = KafkaLog(security.scram_address, extra=blind)
    with pytest.raises(LogFault, match=f"no partition 0 of {JOBS}, or this user may not see it"):
        log.bounds(JOBS)
    log.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"no.such": "1"}, 'A Kafka option is wrong: No such configuration property: "no.such".'),
        ({"ssl.ca.location": "/nowhere", "security.protocol": "SSL"}, "ssl.ca.location failed"),
        ({"acks": "0"}, "The Kafka option acks can't be set: the promises of the log rest on it."),
        ({"isolation.level": "read_uncommitted"}, "The Kafka option isolation.level can't be set"),
    ],
)
def test_an_option_that_is_wrong_or_breaks_a_promise_is_said(options: dict[str, str], said: str) -> None:
    with pytest.raises(LogFault) as met:
        KafkaLog("127.0.0.1:1", extra=options)
    assert said in str(met.value)
    with pytest.raises(LogFault):
        kafka_topics.check("127.0.0.1:1", 1, options)


def paceline(environment: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "paceline", *words]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=PATIENCE)


@pytest.mark.parametrize(
    "words", ["log topics", "log tail", "cell check", "up --listen 127.0.0.1:0", "processor sla", "fanout"]
)
def test_every_command_ends_with_one_sentence_where_the_password_is_wrong(
    security: Security, tmp_path: Path, words: str
) -> None:
    environment = {
        "PACELINE_KAFKA": security.scram_address,
        "PACELINE_KAFKA_OPTIONS": json.dumps(security.scram("wrong")),
        "PACELINE_DATA": str(tmp_path / "data"),
        "PACELINE_SERVICE__LISTEN": "127.0.0.1:0",
    }
    done = paceline(environment, *words.split())
    assert done.returncode == (1 if words.startswith("up") else 6), done
    assert "Check the Kafka options." in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


def test_a_cell_of_processes_runs_behind_passwords_and_certificates(
    guarded: Broker, security: Security, tmp_path: Path
) -> None:
    environment = {
        "PACELINE_KAFKA": security.scram_address,
        "PACELINE_KAFKA_OPTIONS": json.dumps(security.scram()),
    }
    site = Site(tmp_path, guarded.address, **environment)
    try:
        site.begin()
        site.pool("/p")
        site.submit("secret", 20)
        site.finish("secret")
        checked = paceline(environment, "cell", "check", "-o", "json")
        assert checked.returncode == 0, checked
        assert json.loads(checked.stdout)["problems"] == []
        site.end()
    finally:
        site.processes.stop_all()
    assert site.verify()["ended"] == 20


def test_a_cell_in_one_process_runs_behind_passwords_and_certificates(
    security: Security, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACELINE_KAFKA_OPTIONS", json.dumps(security.scram()))
    cell = CellProcess(tmp_path / "data", security.scram_address, sim_hosts=1)
    cell.start()
    try:
        cell.pool("/q")
    finally:
        cell.stop()
