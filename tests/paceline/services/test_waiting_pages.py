"""The pages of a process that waits at its start, until it comes up itself."""

import socket
import threading

import httpx2
import pytest

from hostagent.listen_address import address_of
from paceline.client.client import Client
from paceline.client.errors import Unavailable
from paceline.services.startup import listening
from paceline.services.waiting_pages import WaitingPages


def test_they_begin_when_something_is_waited_for_and_give_the_address_back() -> None:
    held = listening("127.0.0.1:0")
    address = address_of(held)
    told: list[str] = []
    with WaitingPages(held.dup, told.append) as waiting, httpx2.Client(trust_env=False) as client:
        assert not _serving(), "nothing is waited for, nothing is served"
        for trouble in ("no broker", "no registry"):
            waiting.wait_for(trouble)
            answer = client.get(f"http://{address}/readyz")
            assert (answer.status_code, answer.json()) == (503, {"ready": False, "trouble": trouble})
            with Client(f"http://{address}", "") as user, pytest.raises(Unavailable, match=f"{trouble}.*NOT_READY"):
                user.job("any")
    with held, socket.create_connection(held.getsockname()[:2]):
        held.accept()[0].close()  # by who holds the address, not by the pages
    assert told == ["no broker", "no registry"]
    assert not _serving()


def _serving() -> list[threading.Thread]:
    """The threads that serve such pages; those of tests before this one may still come to their end beside them."""
    return [thread for thread in threading.enumerate() if thread.name == "waiting"]
