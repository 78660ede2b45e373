"""Addresses that guess tokens: each waits for itself."""

import asyncio

import pytest

from events import wrong_tokens


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The delays, which no test waits for."""
    seconds_waited: list[float] = []

    async def sleep(seconds: float) -> None:
        seconds_waited.append(seconds)

    monkeypatch.setattr(wrong_tokens, "sleep", sleep)
    return seconds_waited


def test_addresses_that_guess_fill_no_memory(monkeypatch):
    monkeypatch.setattr(wrong_tokens, "ADDRESSES_MAX", 3)
    wrong = wrong_tokens.WrongTokens()
    for number in range(10):
        asyncio.run(wrong.delay(f"10.0.0.{number}"))
    assert (len(wrong._failures), wrong._waiting) == (3, {})


def test_one_network_of_ipv6_is_one_guesser(waits):
    wrong = wrong_tokens.WrongTokens()
    for address in ("fe80::1", "fe80::2", "fe81::1"):
        asyncio.run(wrong.delay(address))
    assert waits == [0.05, 0.1, 0.05]


def test_an_address_has_few_answers_that_wait_at_once(monkeypatch):
    async def guess_together() -> list[bool]:
        gate = asyncio.Event()

        async def sleep(seconds: float) -> None:
            await gate.wait()

        monkeypatch.setattr(wrong_tokens, "sleep", sleep)
        wrong = wrong_tokens.WrongTokens()
        guesses = [asyncio.ensure_future(wrong.delay("10.0.0.1")) for _ in range(6)]
        asyncio.get_running_loop().call_soon(gate.set)
        return await asyncio.gather(*guesses)

    assert asyncio.run(guess_together()) == [True] * 4 + [False] * 2
