"""Wrong tokens: counted, and answered the later the more of them come from an address, so that guessing is hopeless."""

import ipaddress
import time
from asyncio import sleep
from collections import OrderedDict

from prometheus_client import Counter

WRONG = Counter("paceline_http_wrong_tokens_total", "Requests with a token that is none of the cell.")
FIRST_S, LONGEST_S = 0.05, 2.0
"""The delay after the first wrong token of an address, and the longest: it doubles each time."""
FORGET_S = 300.0
"""So long after its last wrong token an address is forgotten."""
ADDRESSES_MAX = 4096
WAITING_MAX, WAITING_OF_ADDRESS_MAX = 256, 4
"""Answers that are delayed at the same time; further wrong tokens are answered with 429 at once."""
TOO_MANY = "too many wrong tokens have come from this address"


class WrongTokens:
    """Delays the answers to wrong tokens; right ones are never delayed, whatever else came from their address."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._waiting: dict[str, int] = {}

    async def delay(self, host: str) -> bool:
        """Waits before a wrong token is answered that has come from an address, an IP or a name; returns False, at
        once, where too many such answers wait.
        """
        WRONG.inc()
        address = _network(host)
        seconds = self._seconds(address)
        waiting = self._waiting.get(address, 0)
        if waiting >= WAITING_OF_ADDRESS_MAX or sum(self._waiting.values()) >= WAITING_MAX:
            return False
        self._waiting[address] = waiting + 1
        try:
            await sleep(seconds)
        finally:
            self._waiting[address] -= 1
            if not self._waiting[address]:
                del self._waiting[address]
        return True

    def _seconds(self, address: str) -> float:
        """The delay of one more failure of an address."""
        now = time.monotonic()
        count, last = self._failures.pop(address, (0, now))
        count = 1 if now - last > FORGET_S else count + 1
        self._failures[address] = count, now
        if len(self._failures) > ADDRESSES_MAX:
            self._failures.popitem(last=False)
        return float(min(LONGEST_S, FIRST_S * 2 ** min(count - 1, 16)))


def _network(text: str) -> str:
    """The address of a client; of IPv6 its network, of which one client has all."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text
    if address.version == 6 and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return text
