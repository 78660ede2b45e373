"""A server that proves that it has the token, and answers that prove nothing."""

import asyncio
from typing import Any

import pytest

from paceline.client import proof
from paceline.client.proof import PATH, Challenge, NotProven, Proving, address_of

TOKEN = "secret"
HERE = ("192.0.2.1", 7117)


def answered(token: str, request: bytes, server: tuple[str, int] = HERE) -> bytes:
    """What a server with a token and an address answers to a challenge."""
    path, _, query = request.split()[1].partition(b"?")
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def other(*_: Any) -> None:
        raise AssertionError("not for others")

    scope = {"type": "http", "path": path.decode(), "query_string": query, "server": server}
    asyncio.run(Proving(other, token)(scope, other, send))
    start, body = sent
    head = b"".join(name + b": " + value + b"\r\n" for name, value in start["headers"])
    return b"HTTP/1.1 %d X\r\n" % start["status"] + head + b"\r\n" + body["body"]


def test_who_has_the_token_proves_it_in_pieces_of_any_size() -> None:
    challenge = Challenge(TOKEN, *HERE)
    assert challenge.request.startswith(b"GET " + PATH.encode())
    assert TOKEN.encode() not in challenge.request
    answer = answered(TOKEN, challenge.request)
    assert TOKEN.encode() not in answer
    assert [challenge.feed(answer[at : at + 1]) for at in range(len(answer))][-2:] == [False, True]


@pytest.mark.parametrize(
    ("server", "token", "why"),
    [
        (HERE, "another", "it has another token"),
        (("192.0.2.2", 7117), TOKEN, r"forwards to 192\.0\.2\.2:7117"),
        (("192.0.2.1", 7118), TOKEN, r"forwards to 192\.0\.2\.1:7118"),
    ],
)
def test_another_token_or_address_proves_nothing(server: tuple[str, int], token: str, why: str) -> None:
    challenge = Challenge(TOKEN, *HERE)
    with pytest.raises(NotProven, match=why):
        challenge.feed(answered(token, challenge.request, server))


def test_an_answer_serves_once() -> None:
    first, second = Challenge(TOKEN, *HERE), Challenge(TOKEN, *HERE)
    with pytest.raises(NotProven):
        second.feed(answered(TOKEN, first.request))


def test_a_loopback_address_is_of_one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    loopback = ("127.0.0.1", 7117)
    challenge = Challenge(TOKEN, *loopback)
    assert challenge.feed(answered(TOKEN, challenge.request, loopback))
    again = Challenge(TOKEN, *loopback)
    monkeypatch.setattr(proof, "_boot_id", lambda: "of-another-machine")
    with pytest.raises(NotProven):
        again.feed(answered(TOKEN, again.request, loopback))


def test_an_address_reads_the_same_at_both_ends() -> None:
    assert address_of("::ffff:192.0.2.1", 1) == address_of("192.0.2.1", 1)
    assert address_of("fe80::1%eth0", 1) == address_of("fe80::1", 1)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-x\r\n\r\n",
        b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nxx",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n\xff\xfe",
        b"x" * 20_000,
    ],
)
def test_what_is_no_proof_is_refused(answer: bytes) -> None:
    with pytest.raises(NotProven):
        Challenge(TOKEN, *HERE).feed(answer)


@pytest.mark.parametrize(
    "query", [b"", b"nonce=", b"nonce=xyz", b"nonce=" + b"A" * 64, b"nonce=" + b"a" * 100, b"%ff=%ff"]
)
def test_only_a_nonce_is_answered(query: bytes) -> None:
    assert answered(TOKEN, b"GET " + PATH.encode() + b"?" + query).startswith(b"HTTP/1.1 400")
