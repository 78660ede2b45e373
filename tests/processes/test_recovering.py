"""A machine of a cell says when it recovers, also again: a long restore isn't taken for a hang."""

import socket
import time
from pathlib import Path

import pytest

from events.log import LogUnavailable
from events.memory import MemoryLog
from paceline.services import processor as service
from paceline.services.common import Start
from paceline.settings import load
from processors.beginning import Beginning
from processors.driver import Driver
from tests.contracts.log import PATIENCE
from tests.protocol.world import WorldClock


def test_a_machine_says_that_it_recovers_at_first_and_when_its_log_was_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = MemoryLog(WorldClock().monotonic_ms)
    monkeypatch.setattr(service, "begin", lambda *_: Beginning(log, ""))
    monkeypatch.setattr("processors.inprocess.RETRY_MS", 0)
    settings = load(data=tmp_path, kafka="127.0.0.1:1")
    start = Start("one", "here", socket.socket(), "", "", lambda *_, **__: None)
    part = service.MachinePart(settings, start, "entitlement", 0)

    def works() -> None:
        deadline = time.monotonic() + PATIENCE
        assert part.recovers()
        while part.recovers():
            assert time.monotonic() < deadline
            part.step()

    def away(_: Driver) -> None:
        raise LogUnavailable("away")

    try:
        works()
        with monkeypatch.context() as patch:
            patch.setattr(Driver, "turn", away)
            part.step()
        works()
    finally:
        part.close()
        start.listening.close()
