"""A gateway whose step doesn't come to its end."""

import threading
from pathlib import Path

import pytest

from events.log.memory import MemoryLog
from hostagent.gateway import service
from hostagent.gateway.component import Gateway
from hostagent.listen_address import bound
from tests.events.log.contract import PATIENCE


def test_a_gateway_that_hangs_says_where_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    monkeypatch.setattr(service, "LOOK_S", 0.01)
    monkeypatch.setattr(service, "HANG_S", 0.2)
    monkeypatch.setattr(service, "END_S", 0.01)
    monkeypatch.setattr(Gateway, "step", lambda _: go.wait(PATIENCE))
    stop = threading.Event()
    with pytest.raises(service.GatewayHangs, match=r"hangs at .*threading.py:\d+ in wait: it ends"):
        service.run_gateway(MemoryLog(lambda: 1), tmp_path, "g", "t", bound("127.0.0.1:0"), lambda: None, stop)
    go.set()
