"""The pages of a process that waits at its start, until it comes up itself."""

import socket
from threading import active_count

import httpx2
import pytest

from hostagent.listen_address import address_of
from paceline.client.client import Client
from paceline.client.errors import Unavailable
from paceline.services.startup import listening
from paceline.services.waiting_pages import WaitingPages


def test_they_begin_when_something_is_waited_for_and_give_the_address_back() -> None:
    held, threads = listening("127.0.0.1:0"), active_count()
    address = address_of(held)
    told: list[str] = []
    with WaitingPages(held.dup, told.append) as waiting, httpx2.Client(trust_env=False) as client:
        assert active_count() == threads, "nothing is waited for, nothing is served"
        for trouble in ("no broker", "no registry"):
            waiting.wait_for(trouble)
            answer = client.get(f"http://{address}/readyz")
            assert (answer.status_code, answer.json()) == (503, {"ready": False, "trouble": trouble})
            with Client(f"http://{address}", "") as user, pytest.raises(Unavailable, match=f"{trouble}.*NOT_READY"):
                user.job("any")
    with held, socket.create_connection(held.getsockname()[:2]):
        held.accept()[0].close()  # by who holds the address, not by the pages
    assert told == ["no broker", "no registry"]
    assert active_count() == threads
