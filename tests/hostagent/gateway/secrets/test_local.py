"""What a change of a secret waits for."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from events.log.port import LogUnavailable, NewRecord
from events.records.parts import Actor
from events.records.tasks import SecretDeleted, SecretPut
from hostagent.gateway import http_answers
from hostagent.gateway.secrets.folder import SecretFolder
from hostagent.gateway.secrets.local import LocalSecrets
from tests.hostagent.cell import Cell, TestClock


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    cell = Cell(TestClock(), tmp_path / "gateway")
    while cell.turn():
        pass
    return cell


@pytest.fixture
def secrets(cell: Cell, tmp_path: Path) -> LocalSecrets:
    return LocalSecrets(SecretFolder(tmp_path / "secrets"), cell.gateway.post)


async def stepped(cell: Cell, change: Coroutine[Any, Any, Any]) -> Any:
    """What a change returns while the gateway is stepped."""
    task = asyncio.ensure_future(change)
    while not task.done():
        cell.gateway.step()
        await asyncio.sleep(0.001)
    return await task


def test_whoever_is_answered_finds_what_he_did_to_a_secret_in_the_log(cell: Cell, secrets: LocalSecrets) -> None:
    assert asyncio.run(stepped(cell, secrets.put("key", b"value")))["version"] == 1
    [put] = cell.facts("paceline.tasks", SecretPut)
    assert asyncio.run(stepped(cell, secrets.delete("key"))) == [1]
    [deleted] = cell.facts("paceline.tasks", SecretDeleted)
    assert isinstance(put, SecretPut)
    assert isinstance(deleted, SecretDeleted)
    assert (put.name, put.version, deleted.versions) == ("key", 1, (1,))


def test_the_first_version_says_of_which_pool_a_secret_is_and_whose(cell: Cell, secrets: LocalSecrets) -> None:
    ci = Actor("ci", "token")
    for actor, pool in ((ci, "/maps"), (Actor("ann", "token"), ""), (None, "/maps")):
        stored = asyncio.run(stepped(cell, secrets.put("key", b"value", actor, pool)))
        assert (stored["pool"], stored["owner"]) == ("/maps", "ci")
    assert [put.pool for put in cell.facts("paceline.tasks", SecretPut)] == ["/maps"] * 3  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="secret key is of pool /maps: choose another name"):
        asyncio.run(secrets.put("key", b"value", ci, "/ads"))
    claimed = asyncio.run(stepped(cell, secrets.put("other", b"value", Actor("ci", "header"))))
    assert (claimed["pool"], claimed["owner"]) == ("/", ""), "a name that nobody has proven owns nothing"


def test_while_the_log_is_away_a_put_is_no_success_and_says_that_the_version_is_stored(
    cell: Cell, secrets: LocalSecrets, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(records: list[NewRecord]) -> list[int]:
        raise LogUnavailable("no broker")

    monkeypatch.setattr(http_answers, "ANSWER_S", 0.1)
    monkeypatch.setattr(cell.log, "append", away)
    with pytest.raises(ConnectionError, match="version 1 of key is stored, and the log doesn't say so: the log can't"):
        asyncio.run(stepped(cell, secrets.put("key", b"value")))
    with pytest.raises(ConnectionError, match="of key 1 version went, 1, and the log doesn't say so"):
        asyncio.run(stepped(cell, secrets.delete("key")))
