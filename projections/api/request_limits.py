"""Limits on the requests that hold something at once: in all, and of each client address."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from projections.api.problems import Problem

OF_CLIENT_MAX = 16
"""Places of one address, unless there are fewer in all."""
RETRY_S = "5"


class ConcurrencyLimit:
    """`limit` places for `what` that `verb` something: streams that are open, reads that wait. Who finds no place gets
    the problem `TOO_MANY_STREAMS`, `TOO_MANY_READS`.
    """

    def __init__(self, limit: int, what: str, verb: str, of_client: int | None = None) -> None:
        self._limit, self._of_client = limit, of_client
        self._what, self._verb = what, verb
        self._open: Counter[str] = Counter()

    @contextmanager
    def one(self, client: str) -> Iterator[None]:
        """Holds a place for a client. Raises a problem where there is none."""
        self._check(client)
        self._open[client] += 1
        try:
            yield
        finally:
            self._open[client] -= 1
            if not self._open[client]:
                del self._open[client]

    def _check(self, client: str) -> None:
        limit = min(self._of_client or OF_CLIENT_MAX, self._limit)
        code, headers = f"TOO_MANY_{self._what.upper()}", {"Retry-After": RETRY_S}
        if self._open.total() >= self._limit:
            detail = f"{self._limit} {self._what} {self._verb}, no more are allowed; try again when one has ended"
            raise Problem(503, code, detail, headers=headers)
        if self._open[client] >= limit:
            whose = f"{self._what} of {client or 'this client'}"
            detail = f"{limit} {whose} {self._verb}, no more are allowed; try again when one has ended"
            raise Problem(429, code, detail, headers=headers)
