"""How many requests may hold something at once: in all, and of each client address."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from projections.api.problems import Problem

OF_CLIENT_MAX = 16
"""Places of one address, unless there are fewer in all."""
RETRY_S = "5"


class ConcurrencyLimit:
    """`most` places for `things` that `do` something: streams that are open, reads that wait. Who finds no place gets
    the problem `TOO_MANY_STREAMS`, `TOO_MANY_READS`.
    """

    def __init__(self, most: int, things: str, do: str) -> None:
        self._most = most
        self._things, self._do = things, do
        self._of: Counter[str] = Counter()

    @contextmanager
    def one(self, client: str) -> Iterator[None]:
        """Holds a place for a client. Raises a problem where there is none."""
        self._check(client)
        self._of[client] += 1
        try:
            yield
        finally:
            self._of[client] -= 1
            if not self._of[client]:
                del self._of[client]

    def _check(self, client: str) -> None:
        code, headers = f"TOO_MANY_{self._things.upper()}", {"Retry-After": RETRY_S}
        mine = min(OF_CLIENT_MAX, self._most)
        if self._of.total() >= self._most:
            detail = f"{self._most} {self._things} {self._do}, no more are allowed; try again when one has ended"
            raise Problem(503, code, detail, headers=headers)
        if self._of[client] >= mine:
            whose = f"{self._things} of {client or 'this client'}"
            detail = f"{mine} {whose} {self._do}, no more are allowed; try again when one has ended"
            raise Problem(429, code, detail, headers=headers)
