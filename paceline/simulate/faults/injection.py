"""Injects failures into every effect of a cell, drawn from a seed and counted by kind.

    faults = Faults(seed=7)                    # draws
    faults = Faults(seed=7, only=found.hits)   # these and no others: the same run again

A fault is named by its kind and a number: the n-th time that something of the kind could have happened.
"""

import random
from bisect import insort
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from events.log.memory import MemoryLog, MemoryReader
from events.log.port import AppendUnknown, LogRecord, LogUnavailable, NewRecord
from hostagent.gateway import Gateway
from hostagent.gateway.connections import Attach, Detach, Link, Post, Report
from hostagent.messages import Orders
from processors.runtime.store import MemoryStore, Progress
from processors.state.table import RowChange

HOUR_MS = 3_600_000
CHANCE = {
    "append lost": 0.004,
    "append written unacknowledged": 0.004,
    "append written late unacknowledged": 0.004,
    "append written twice": 0.004,
    "append acknowledged late": 0.004,
    "read short": 0.05,
    "read late": 0.05,
    "read error": 0.001,
    "scan error": 0.02,
    "store write torn": 0.003,
    "checkpoint torn": 0.2,
    "orders lost": 0.02,
    "report lost": 0.02,
    "report twice": 0.05,
    "report late": 0.02,
    "crash": 0.01,
    "pause": 0.005,
    "takeover": 0.01,
    "clock jump": 0.004,
    "clock stands": 0.004,
    "clock twice as fast": 0.004,
    "gateway lost": 0.004,
    "projector lost": 0.02,
    "host silent": 0.002,
    "log away": 0.001,
}
"""The probability of each kind: those of an effect per effect, the others per step of the cell."""
VIEWS = "projector lost"
KINDS = tuple(kind for kind in CHANCE if kind != VIEWS)
"""The kinds of a trial without views."""
SCANNED_MAX = 50
"""A scan that fails has given fewer records than this."""
HELD_MAX_MS = 20_000
"""So long an append may take until it is acknowledged; what it wrote is there before."""
LATE_POSTS = (5, 20, 60)
"""A report that is late comes after so many others."""


class InjectedFault(NamedTuple):
    """A fault that happened: the n-th time that one of its kind could have."""

    kind: str
    number: int


class Crashed(Exception):
    """A process ends here."""


class Faults:
    """Draws faults of some kinds by a seed, or lets just those happen that are named. `calm`: none any more."""

    def __init__(
        self, seed: int, kinds: Collection[str] = tuple(CHANCE), only: Collection[InjectedFault] | None = None
    ) -> None:
        self.hits: list[InjectedFault] = []
        self.calm = False
        self._chances: Counter[str] = Counter()
        self._seed = seed
        self._kinds = kinds
        self._only = None if only is None else frozenset(only)
        self._draw = random.Random(f"{seed}/faults")

    def hit(self, kind: str) -> random.Random | None:
        """Whether a fault of this kind happens now: where it does, the draw of its particulars."""
        if self.calm or kind not in self._kinds:
            return None
        self._chances[kind] += 1
        hit = InjectedFault(kind, self._chances[kind])
        happens = self._draw.random() < CHANCE[kind] if self._only is None else hit in self._only
        if not happens:
            return None
        self.hits.append(hit)
        return random.Random(f"{self._seed}/{kind}/{hit.number}")

    def missed(self) -> None:
        """The last fault has hit nothing, so it hasn't happened."""
        self.hits.pop()

    def unmet(self) -> set[InjectedFault]:
        """The faults that were named and haven't happened."""
        return set(self._only or ()) - set(self.hits)

    def count(self) -> dict[str, int]:
        """The number of times that each kind happened; 0 where one never did."""
        counted = Counter(hit.kind for hit in self.hits)
        return {kind: counted[kind] for kind in CHANCE if kind in self._kinds}


class FaultyLog:
    """A log, as processes have it that may lose it: appends, scans and reads go wrong, and it may be away."""

    def __init__(self, log: MemoryLog, faults: Faults) -> None:
        self.cell = log.cell
        self.away = False
        self.held_ms = 0
        """The milliseconds until the latest append is acknowledged: its sender waits for so long."""
        self.late: list[NewRecord] = []
        self.wait, self.close = log.wait, log.close
        self._log = log
        self._faults = faults

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        """Implements `Log.append`."""
        hit = self._faults.hit
        self._check_reachable()
        if hit("append lost"):
            raise AppendUnknown("lost")
        if hit("append written unacknowledged"):
            self._log.append(records)
            raise AppendUnknown("written")
        if hit("append written late unacknowledged"):
            self.late += records
            raise AppendUnknown("late")
        offsets = self._log.append(records)
        if draw := hit("append written twice"):
            if draw.random() < 0.5:
                self._log.append(records)
            else:
                self.late += records
        draw = hit("append acknowledged late")
        self.held_ms = draw.randrange(HELD_MAX_MS) if draw else 0
        return offsets

    def write_late(self) -> None:
        """A record that somebody sent long ago arrives."""
        if self.late:
            self._log.append([self.late.pop(0)])

    def reader(self, positions: Mapping[str, int]) -> "FaultyReader":
        """Implements `Log.reader`."""
        return FaultyReader(self, self._log, positions, self._faults)

    def scan(self, topic: str, start: int) -> Iterator[LogRecord]:
        """Implements `Log.scan`."""
        self._check_reachable()
        draw = self._faults.hit("scan error")
        ends_after = draw.randrange(SCANNED_MAX) if draw else -1
        for count, record in enumerate(self._log.scan(topic, start)):
            if count == ends_after:
                raise LogUnavailable("no answer")
            yield record

    def bounds(self, topic: str) -> tuple[int, int]:
        """Implements `Log.bounds`."""
        self._check_reachable()
        return self._log.bounds(topic)

    def ends(self, topics: Iterable[str]) -> dict[str, int]:
        """Implements `Log.ends`."""
        self._check_reachable()
        return self._log.ends(topics)

    def _check_reachable(self) -> None:
        if self.away:
            raise LogUnavailable("away")


class FaultyReader(MemoryReader):
    """A reader that gives less, later, or fails."""

    def __init__(self, faulty: FaultyLog, log: MemoryLog, positions: Mapping[str, int], faults: Faults) -> None:
        super().__init__(log, positions)
        self._log = faulty
        self._faults = faults

    def poll(self, limit: int, timeout: float) -> list[LogRecord]:
        """Implements `Reader.poll`; one that may wait gets what is there in the end."""
        hit = self._faults.hit
        if self._log.away or hit("read error"):
            raise LogUnavailable("no answer")
        if timeout <= 0 and hit("read late"):
            return []
        return super().poll(1 if hit("read short") else limit, timeout)

    def ends(self) -> dict[str, int]:
        """Implements `Reader.ends`."""
        if self._log.away:
            raise LogUnavailable("no answer")
        return super().ends()


class FaultyStore(MemoryStore):
    """A disk whose writer may die while it writes: what it holds then is the old or the new, never between."""

    def __init__(self, faults: Faults) -> None:
        super().__init__()
        self._faults = faults

    def commit(self, changes: Sequence[RowChange], progress: Progress) -> None:
        """Implements `Store.commit`."""
        draw = self._faults.hit("store write torn")
        if draw is None or draw.random() < 0.5:
            super().commit(changes, progress)
        if draw is not None:
            raise Crashed


class FaultyLink:
    """A link that may break as orders are sent: they are lost, and each of its hosts connects again."""

    def __init__(self, link: Link, hosts: Collection[str], gateway: Gateway, faults: Faults) -> None:
        self.cut, self.ask = link.cut, link.ask
        self._link = link
        self._hosts = hosts
        self._gateway = gateway
        self._faults = faults
        self._broken = False

    @property
    def heard_ms(self) -> int:
        """Implements `Link`."""
        return self._link.heard_ms

    def deliver(self, orders: Orders) -> None:
        """Implements `Link.deliver`."""
        if not self._broken and self._faults.hit("orders lost"):
            self._broken = True
            self._gateway.post(Detach(self))
            for host_id in self._hosts:
                self.cut(host_id)
        if not self._broken:
            self._link.deliver(orders)


class FaultyGateway(Gateway):
    """A gateway that may die as it writes its checkpoint. Orders to its hosts may get lost; their reports get lost,
    come twice, or late and so in another order.
    """

    faults: Faults
    _late: list[tuple[int, Report]]
    _posts_seen = 0

    def spoil(self, faults: Faults) -> "FaultyGateway":
        """From now on things go wrong."""
        self.faults, self._late = faults, []
        return self

    def checkpoint(self) -> None:
        """Implements `Gateway.checkpoint`."""
        draw = self.faults.hit("checkpoint torn")
        if draw is None or draw.random() < 0.5:
            super().checkpoint()
        if draw is not None:
            raise Crashed

    def post(self, post: Post) -> None:
        """Implements `Gateway.post`."""
        self._posts_seen += 1
        while self._late and (self.faults.calm or self._late[0][0] <= self._posts_seen):
            super().post(self._late.pop(0)[1])
        if isinstance(post, Attach):
            super().post(Attach(post.sessions, FaultyLink(post.link, post.sessions, self, self.faults)))
        elif not isinstance(post, Report):
            super().post(post)
        elif self.faults.hit("report lost"):  # a link breaks, and the host knows
            post.done(False)
        elif draw := self.faults.hit("report late"):
            self._delay(post, draw)
        else:
            super().post(post)
            if draw := self.faults.hit("report twice"):  # the second time when the next run may go on
                self._delay(post._replace(done=lambda accepted: None), draw)

    def _delay(self, post: Report, draw: random.Random) -> None:
        insort(self._late, (self._posts_seen + draw.choice(LATE_POSTS), post), key=itemgetter(0))

    def step(self) -> bool:
        """Implements `Component.step`."""
        while self._late and self.faults.calm:
            super().post(self._late.pop(0)[1])
        return super().step()


class Clock:
    """The clock of one process: that of the world, until it jumps, stands or runs twice as fast."""

    def __init__(self, true_clock: "Clock | None" = None, at_ms: int = 0) -> None:
        self.ms = at_ms
        self.rate = 1
        self._true_clock = true_clock
        self._since = true_clock.ms if true_clock else 0

    def monotonic_ms(self) -> int:
        """Milliseconds, from anywhere."""
        if self._true_clock is not None:
            self.ms += self.rate * (self._true_clock.ms - self._since)
            self._since = self._true_clock.ms
        return self.ms

    def turn(self, jump_ms: int = 0, rate: int = 1) -> None:
        """Jumps, or goes on at another rate."""
        self.ms = self.monotonic_ms() + jump_ms
        self.rate = rate
