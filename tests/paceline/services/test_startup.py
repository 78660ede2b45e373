"""A machine of a cell says when it recovers, also again: a long restore isn't taken for a hang."""

import socket
import time
from pathlib import Path

import pytest

from events.log.memory import MemoryLog
from events.log.port import LogUnavailable
from paceline.services import processor as service
from paceline.services.settings import load
from paceline.services.startup import Start
from processors.runtime.bootstrap import StartState
from processors.runtime.driver import Driver
from tests.events.log.contract import PATIENCE
from tests.processors.runtime.world import WorldClock


def test_a_machine_says_that_it_recovers_at_first_and_when_its_log_was_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = MemoryLog(WorldClock().monotonic_ms)
    monkeypatch.setattr(service, "begin", lambda *_: StartState(log, ""))
    monkeypatch.setattr("processors.runtime.in_process.RETRY_MS", 0)
    settings = load(data=tmp_path, kafka="127.0.0.1:1")
    start = Start("entitlement", "one", "here", socket.socket(), "", "", lambda *_, **__: None)
    part = service.MachinePart(settings, start, 0)

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
