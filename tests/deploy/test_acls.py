"""The script of deploy/ that adds ACLs, with the command of a real Kafka."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AclBindingFilter, AdminClient  # type: ignore[attr-defined]

from paceline.services.kafka_rights import grants
from tests.deploy.files import DEPLOY
from tests.helpers.broker import CACHE, JAVA, Broker
from tests.helpers.broker.rights import ANYTHING, acls
from tests.helpers.broker.security import Security
from tests.helpers.ports import kept_port

TIMEOUT_S = 120
SCRIPT = DEPLOY / "kafka" / "acls.sh"
ACLS = "org.apache.kafka.tools.AclCommand"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that has no ACLs yet."""
    folder = tmp_path_factory.mktemp("acls")
    security = Security(folder / "certificate", kept_port(), kept_port())
    with Broker(folder / "kafka", security=security) as broker:
        yield broker


def script(folder: Path, kafka_acls: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs it with such a `kafka-acls.sh`, and the `paceline` of this Python."""
    commands = folder / "bin"
    commands.mkdir()
    for name, text in (("kafka-acls.sh", kafka_acls), ("paceline", f'exec {sys.executable} -m paceline "$@"')):
        (commands / name).write_text(f"#!/bin/sh\n{text}\n")
        (commands / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}"}
    return subprocess.run([SCRIPT, *words], env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)


def test_kafka_has_the_acls_of_the_table_afterwards(guarded: Broker, tmp_path: Path) -> None:
    properties, asked = tmp_path / "admin.properties", tmp_path / "asked"
    properties.touch()
    done = script(tmp_path, f'echo "$*" >> {asked}', guarded.address, str(properties), "x-")
    assert done.returncode == 0, done.stderr
    lines = [line for line in asked.read_text().splitlines() if "User:x-consumer" in line or "prefixed" in line]
    for line in lines:  # not all of them: each starts a Java
        command = [*JAVA, "-cp", f"{CACHE}/lib/*", ACLS, *shlex.split(line)]
        subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT_S)
    wanted = [each for each in grants(prefix="x-") if each.user == "x-consumer" or each.pattern == "prefixed"]
    admin = AdminClient({"bootstrap.servers": guarded.address})  # its questions end with it
    there = admin.describe_acls(AclBindingFilter(*ANYTHING)).result()
    assert {*map(repr, there)} == {*map(repr, acls(wanted))}


def test_it_ends_where_kafka_refuses(tmp_path: Path) -> None:
    done = script(tmp_path, "echo no right >&2; exit 1", "broker:9092", "admin.properties")
    assert (done.returncode, done.stderr) == (1, "no right\n")
