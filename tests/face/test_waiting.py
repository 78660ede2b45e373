"""The pages of a process that waits at its start, until it comes up itself."""

from threading import active_count

import httpx2
import pytest

from paceline.client import Client
from paceline.errors import Unavailable
from paceline.services.common import listening
from paceline.services.waiting import WaitingPages
from tests.broker import free_ports


def test_they_begin_when_something_is_waited_for_and_give_the_address_back() -> None:
    address, threads = f"127.0.0.1:{free_ports(1)[0]}", active_count()
    told: list[str] = []
    with WaitingPages(lambda: listening(address), told.append) as waiting, httpx2.Client(trust_env=False) as client:
        listening(address).close()  # nothing is waited for, nothing is served
        for trouble in ("no broker", "no registry"):
            waiting.wait_for(trouble)
            answer = client.get(f"http://{address}/readyz")
            assert (answer.status_code, answer.json()) == (503, {"ready": False, "trouble": trouble})
            with Client(f"http://{address}", "") as user, pytest.raises(Unavailable, match=f"{trouble}.*NOT_READY"):
                user.job("any")
    listening(address).close()
    assert told == ["no broker", "no registry"]
    assert active_count() == threads
