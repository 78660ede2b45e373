"""Each process of a cell is a user of its own on Kafka, with the rights of the table and no others."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from confluent_kafka.admin import AclBinding

from events.log.kafka import topics as kafka_topics
from events.log.kafka.kafka_log import KafkaLog
from events.log.kafka.membership import Membership
from events.log.port import LogFault, NewRecord
from events.topics import EVERY, SETTINGS
from paceline.services.kafka_rights import ALL_GROUPS, RIGHTS, grants, operations
from paceline.services.processes import IN_KAFKA, group_of, kind_of, up_group
from paceline.witness.notes import make_key, read_key
from paceline.witness.published import Heads
from tests.events.log.kafka.test_kafka_log import until
from tests.helpers.broker import Broker
from tests.helpers.broker.rights import PREFIX, User, acls, with_users
from tests.helpers.broker.security import Security
from tests.helpers.drawn import some
from tests.helpers.forked import PACELINE, ForkedProcesses
from tests.helpers.ports import kept_port
from tests.helpers.site import Site, empty

COMMAND_S = 60


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that asks for passwords, and lets nobody do what no ACL allows."""
    folder = tmp_path_factory.mktemp("rights")
    security = Security(folder / "certificate", kept_port(), kept_port())
    with Broker(folder / "kafka", security=security) as broker:
        yield broker


@pytest.fixture(scope="module")
def users(guarded: Broker) -> dict[str, dict[str, str]]:
    """The options of a user of each kind; `topics` has made the topics."""
    options = with_users(guarded)
    assert guarded.security is not None
    kafka_topics.create(guarded.security.scram_address, 1, extra=options["topics"])
    return options


class OwnUsers(ForkedProcesses):
    """Processes of which each is a user of its own."""

    users: Mapping[str, Mapping[str, str]]

    def launch(self, words: Sequence[str], out: BinaryIO, environment: Mapping[str, str]) -> Any:
        """See `Processes`."""
        kind = kind_of(words[len(PACELINE) :])
        options = {"PACELINE_KAFKA_OPTIONS": json.dumps(self.users[kind])} if kind in self.users else {}
        return super().launch(words, out, {**environment, **options})


def site_of(folder: Path, broker: Broker, users: Mapping[str, Mapping[str, str]]) -> Site:
    assert broker.security is not None
    settings = {"PACELINE_KAFKA": broker.security.scram_address}
    site = Site(folder, empty(broker, 1), **settings)
    processes = OwnUsers(folder / "logs", {"PACELINE_TOKEN": "secret", **settings})
    processes.users = users
    site.processes = processes
    return site


def command(broker: Broker, options: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    assert broker.security is not None
    environment = {"PACELINE_KAFKA": broker.security.scram_address, "PACELINE_KAFKA_OPTIONS": json.dumps(options)}
    return subprocess.run(
        [sys.executable, "-m", "paceline", *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
    )


def started(broker: Broker, options: Mapping[str, str], *words: str) -> "subprocess.Popen[bytes]":
    assert broker.security is not None
    environment = {"PACELINE_KAFKA": broker.security.scram_address, "PACELINE_KAFKA_OPTIONS": json.dumps(options)}
    return subprocess.Popen([sys.executable, "-m", "paceline", *words], env={**os.environ, **environment})


def with_records(broker: Broker) -> list[str]:
    """Makes the topics anew, with a record in each; returns their names."""
    every = [topic.name for topic in EVERY]
    broker.make_topics(every, 1, SETTINGS)
    with closing(KafkaLog(broker.address)) as log:
        log.append([NewRecord(topic, b"", b"0") for topic in every])
    return every


def sentences(guarded: Broker, kind: str, options: dict[str, str]) -> Iterator[str]:
    """What a process of a kind is told when it does what it does, each thing until it is done or refused."""
    assert guarded.security is not None
    address, rights = guarded.security.scram_address, RIGHTS[kind]
    yield from kafka_topics.check(address, 1, options)
    with closing(KafkaLog(address, extra=options, on_trouble=lambda _: None)) as log:
        log.append([NewRecord(topic, b"", b"1") for topic in rights.write])
        with closing(log.reader(dict.fromkeys(rights.read, 0))) as reader:
            until(lambda: all(map(reader.position, rights.read)), lambda: reader.poll(100, 0.1))
    for group in rights.groups:
        member = Membership(address, group.replace("*", "one"), "one", extra=options, on_trouble=lambda _: None)
        with closing(member):
            until(lambda member=member: member.cells() is not None)


def told(guarded: Broker, kind: str, options: dict[str, str]) -> list[str]:
    """The same, and the fault that ends it."""
    found = []
    try:
        for each in sentences(guarded, kind, options):
            found.append(each)
    except LogFault as fault:
        found.append(str(fault))
    return found


def one_of_each(kind: str) -> dict[tuple[str, str], tuple[AclBinding, str]]:
    """A right of each sort that a kind has, and what is said where it isn't there; by type and operation."""
    found = {}
    for grant in grants([kind], PREFIX):
        name = grant.names[0]
        shows = [right for right in grant.operations if right != "DescribeConfigs"]
        for right in grant.operations:
            [binding] = acls([grant._replace(names=(name,), operations=(right,))])
            if grant.type == "group":
                sentence = f"Give user {grant.user} {right} on group {name}"
            elif right == "DescribeConfigs":
                sentence = f"Give user {grant.user} DescribeConfigs on the topics `paceline.*`"
            elif shows == [right]:
                sentence = f"Topic {name} is missing, or this user may not describe it"
            else:
                sentence = f"Give user {grant.user} {right} on paceline."
            found[grant.type, right] = binding, sentence
    return found


FIRST = ("lifecycle", "projector", "fanout", "gateway", "api")


@pytest.mark.drawn
@pytest.mark.parametrize("kind", some([*FIRST, *(kind for kind in IN_KAFKA if kind not in FIRST)], len(FIRST)))
def test_who_lacks_a_right_is_told_which(guarded: Broker, users: Mapping[str, dict[str, str]], kind: str) -> None:
    assert guarded.security is not None
    with_records(guarded)
    assert told(guarded, kind, users[kind]) == []
    for right, sentence in one_of_each(kind).values():
        guarded.security.forbid(guarded.address, [right])
        said: list[str] = []
        try:
            until(partial(any_has, said, sentence), lambda said=said: said.extend(told(guarded, kind, users[kind])))
        finally:
            guarded.security.allow(guarded.address, [right])
        until(lambda: told(guarded, kind, users[kind]) == [])


def any_has(lines: Sequence[str], text: str) -> bool:
    return any(text in line for line in lines)


def test_a_cell_of_which_each_process_is_a_user_of_its_own_runs_a_job(
    guarded: Broker, users: Mapping[str, Mapping[str, str]], tmp_path: Path
) -> None:
    site = site_of(tmp_path, guarded, users)
    make_key("w", tmp_path / "w.key")
    published = ["--key", str(tmp_path / "w.key"), "--publish", str(tmp_path / "heads"), "--every", "1s"]
    witnessing = ["witness", *published, "--state", str(tmp_path / "witness")]
    witness = started(guarded, users["witness"], *witnessing)  # the topics are there, and nothing in them
    try:
        site.begin("forecaster")
        site.pool("/p")
        site.submit("own-users", 20)
        site.finish("own-users")
        until(lambda: len(Heads(str(tmp_path / "heads"), 0).numbers()) > 2)
        witness.terminate()
        assert witness.wait(COMMAND_S) == 0
        checked = command(guarded, users["reader"], "cell", "check", "-o", "json")
        assert json.loads(checked.stdout)["problems"] == [], checked
        assert site.request("GET", "/v1/cell/operations").json()["process"]["faults"] == []
        said = {kind: site.said(name) for kind in IN_KAFKA for name in site.names if name.startswith(kind)}
        site.end()
    finally:
        witness.kill()
        site.processes.stop_all()
    assert site.verify()["ended"] == 20
    for kind, text in said.items():
        assert "doesn't allow" not in text, (kind, text)
    assert command(guarded, users["witness"], *witnessing, "--once").returncode == 0
    trusted = ["--heads", str(tmp_path / "heads"), "--trust", str(tmp_path / "w.pub")]
    (tmp_path / "w.pub").write_text(str(read_key(tmp_path / "w.key").public))
    verified = command(guarded, users["reader"], "log", "verify", *trusted)
    assert verified.returncode == 0, verified
    assert "which has 0 rounds more" in verified.stdout
    by_build = command(guarded, users["shadow"], "log", "verify", "--build", sys.executable)
    assert by_build.returncode == 0, by_build


@pytest.mark.parametrize("kind", RIGHTS)
def test_what_is_beyond_the_table_is_refused(guarded: Broker, users: Mapping[str, dict[str, str]], kind: str) -> None:
    assert guarded.security is not None
    every = with_records(guarded)
    user, rights = User({"bootstrap.servers": guarded.security.scram_address, **users[kind]}), RIGHTS[kind]
    seen = {topic for topic in every if operations(rights, topic)}
    assert user.sees() == seen
    assert user.reads(seen) == rights.read
    assert user.writes({*every} - rights.write) == set()
    assert user.may("Create", every) == user.may("Alter", every) == rights.create
    assert user.may("Delete", every) == rights.delete
    assert user.may("DescribeConfigs", every) == ({*every} if rights.checks else set())
    assert user.may("AlterConfigs", every) == set()
    groups = [group_of(each, "one") for each in IN_KAFKA if group_of(each)] + [up_group(0), "foreign"]
    joined = {name for name in groups if any(fnmatchcase(name, each) for each in rights.groups)}
    assert user.joins(groups, every[0]) == joined
    assert user.looks_at(groups) == joined | ({*groups} - {"foreign"} if ALL_GROUPS in rights.looks_at else set())
    assert not user.begins_transactions()
    assert not user.changes_acls()
