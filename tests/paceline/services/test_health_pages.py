"""The end of a process that serves HTTP itself."""

import os
import signal
import threading
import time

import pytest

from events.process.health import Health
from hostagent.listen_address import bound
from paceline.services import http_serving
from paceline.services.health_pages import pages
from tests.events.log.contract import PATIENCE


def test_a_process_ends_though_what_runs_beside_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_serving, "END_S", 0.01)
    go, before = threading.Event(), signal.getsignal(signal.SIGTERM)

    def beside() -> None:
        while signal.getsignal(signal.SIGTERM) == before:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGTERM)
        go.wait(PATIENCE)

    stop = threading.Event()
    http_serving.serve_http(pages(lambda: Health(True, True, {})), bound("127.0.0.1:0"), stop, beside)
    assert stop.is_set()
    assert not go.is_set()
    go.set()
