"""Quotas of actors: how many calls a second, and how many streams, somebody may have (settings `calls_per_s` and
`streams_per_actor`; 0: any number).
"""

import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.types import Scope

from projections.access.identity import Identity
from projections.api.problems import Problem

ACTORS_MAX = 4096
BURST_S = 10
"""The calls of so many seconds may be made at once."""
RETRY_S = "5"


def actor_key(who: Identity, scope: Scope) -> str:
    """Names who is counted together: a subject, a run, or an address from which nobody shows anything."""
    if who.run is not None:
        return "run {}/{}/{}".format(*who.run)
    client = scope.get("client")
    return f"{who.how} {who.subject}" if who.subject else f"address {client[0] if client else ''}"


class CallQuota:
    """A token bucket for each actor, which holds the calls of `BURST_S`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """By actor how many calls it may make, and since when."""

    def take(self, key: str, per_s: int) -> None:
        """Counts a call. Raises a problem where there have been too many."""
        now, most = self._clock(), float(per_s * BURST_S)
        rest, since = self._buckets.pop(key, (most, now))
        rest = min(most, rest + (now - since) * per_s)
        self._buckets[key] = (rest - 1 if rest >= 1 else rest, now)
        if len(self._buckets) > ACTORS_MAX:
            self._buckets.popitem(last=False)
        if rest < 1:
            wait_s = max(1, math.ceil((1 - rest) / per_s))
            detail = f"{per_s} calls a second are allowed (`paceline cell set --calls-per-s`); send it again later"
            raise Problem(429, "TOO_MANY_CALLS", detail, headers={"Retry-After": str(wait_s)})


class StreamQuota:
    """The streams that each actor has open."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    @contextmanager
    def one(self, key: str, limit: int) -> Iterator[None]:
        """Holds a stream of an actor; `limit` 0: as many as it likes. Raises a problem where it has as many."""
        if limit and self._open[key] >= limit:
            detail = f"{limit} streams at a time are allowed (`paceline cell set --streams-per-actor`); end one first"
            raise Problem(429, "TOO_MANY_STREAMS", detail, headers={"Retry-After": RETRY_S})
        self._open[key] += 1
        try:
            yield
        finally:
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]
