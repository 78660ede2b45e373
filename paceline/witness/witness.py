"""The witness of a cell: follows its log, replays every round, and signs heads (decision 130).

It keeps the stores of the four machines and its last head in a folder of its own. A head stands there before it is
published, so that a witness which was killed never signs another in its place.
"""

from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import NamedTuple

from events.acceptance import NO_HASH
from events.log.object_store import Files
from events.log.port import Log, LogError, LogGap, LogUnavailable
from events.topics import ALL
from paceline.client.errors import PacelineError
from paceline.history.heads import OpenEnd, hash_of
from paceline.history.tail import Tail, TailLog
from paceline.history.verify import MachineFactories
from paceline.witness.alarms import Alarmed, found
from paceline.witness.head import SignedHead, Standing, check, log_id
from paceline.witness.notes import NoteFault, PrivateKey, signed
from paceline.witness.published import Heads, Published, forked, parsed
from paceline.witness.rounds import WitnessedMachine
from processors.runtime.replay import Difference, Mismatch

EVERY_MS, EVERY_ROUNDS = 60_000, 10_000
"""A head is signed so long after the last one, and after so many rounds."""
ROUNDS_A_TURN = 500
"""So many rounds of a machine are decided before the next machine has its turn."""
LAST = "last-head.txt"


class Keys(NamedTuple):
    """The key that signs, and the one that did before, where it hands over now."""

    key: PrivateKey
    old: PrivateKey | None = None


class Witness:
    """Replays the rounds of one cell. `folder`: its own, for this cell; `make`: the machines of its build.

    Methods raise `Alarmed`, `LogUnavailable` where log or heads can't be reached now, and `PacelineError`.
    """

    def __init__(
        self,
        log: Log,
        heads: Heads,
        keys: Keys,
        folder: Path,
        make: MachineFactories,
        now_ms: Callable[[], int],
        every_ms: int = EVERY_MS,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.log = log
        self.heads = heads
        self._keys = keys
        self._folder = folder
        self._now_ms = now_ms
        self._every_ms = every_ms
        self._say = say
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.last = self._last_head()
        self._pending: Published | None = None
        """A head that is signed and not published yet."""
        if self.last is not None:
            finding = check(log, self.last.head)
            if finding is not None:
                raise Alarmed(finding)
        self.caught_up = False
        self._signed_here = False
        self._stale = False
        """Whether a machine may have stopped in the middle of a round."""
        self._signed_ms = self.last.head.at_ms if self.last else 0
        """When the last head was signed, by the clock as it is now: never later than now."""
        self._has_told_clock = False
        self._tail = _tail(log)
        after = self.last.head.machines if self.last else {}
        with ExitStack() as opened:
            opened.callback(self._close_tail)
            self.machines = [
                opened.enter_context(closing(WitnessedMachine(each, self._tail, folder, after.get(name, Standing()))))
                for name, each in make.items()
            ]
            self._opened = opened.pop_all()

    def step(self) -> bool:
        """Replays some rounds, and signs a head when it is time. True: there is more to do at once."""
        away = self._publish_pending()
        if self._stale:
            self._reopen()
        try:
            self._tail.pull()
            self._stale = True
            for each in self.machines:
                each.step(ROUNDS_A_TURN)
            self._stale = False
        except LogGap as gap:
            raise _cut(gap) from gap
        except Alarmed:
            self.caught_up = False
            with suppress(LogError, Alarmed):
                self._sign_if_new()  # what was decided up to there is worth a head
            raise
        self.caught_up = all(each.is_level for each in self.machines)
        if away is not None:
            raise away
        if self._is_due():
            self.sign()
        return not self.caught_up

    def sign(self) -> None:
        """Signs a head of what was decided, and publishes it."""
        try:
            head = self._head()
        except LogGap as gap:
            raise _cut(gap) from gap
        if head is None:
            return
        self._signed_ms = self._now_ms()
        keys = [self._keys.key]
        if head.key is not None and self._keys.old is not None:
            keys = [self._keys.old, self._keys.key]
        self._pending = Published(head, signed(head.text, *keys))
        _write(self._folder / LAST, self._pending.note.pack())
        self._publish()

    def finish(self) -> None:
        """Signs what was decided since the last head, before the end."""
        with suppress(LogUnavailable):
            self._publish_pending()
            self._sign_if_new()

    def close(self) -> None:
        """Closes the stores and the reader."""
        self._opened.close()

    def _close_tail(self) -> None:
        self._tail.close()

    @property
    def has_signed(self) -> bool:
        """Whether this process has published a head."""
        return self._signed_here

    @property
    def rounds_since(self) -> int:
        """Rounds that the last head doesn't have."""
        last = self.last.head.rounds if self.last else 0
        return sum(each.standing.round for each in self.machines) - last

    def _is_due(self) -> bool:
        if self.rounds_since >= EVERY_ROUNDS:
            return True
        if not self._signed_here and self.caught_up:
            return True
        now_ms = self._now_ms()
        self._signed_ms = min(self._signed_ms, now_ms)  # a clock that was set back doesn't stop heads
        passed = now_ms - self._signed_ms >= self._every_ms
        return passed and (self.caught_up or self.rounds_since > 0)

    def _sign_if_new(self) -> None:
        if self._pending is None and self.rounds_since > 0:
            self.sign()

    def _head(self) -> SignedHead | None:
        """The next head; None: the log has no round yet."""
        last = self.last.head if self.last else None
        name = last.log if last else log_id(self.log)
        if not name:
            if any(each.standing.round for each in self.machines):
                raise PacelineError(
                    "The log no longer begins with its first record. Name its archive: PACELINE_ARCHIVE, or `archive` "
                    "in the settings."
                )
            return None
        key, now_ms = self._keys.key.public if self._hands_over() else None, self._now_ms()
        if last is not None and last.at_ms > now_ms + self._every_ms and not self._has_told_clock:
            self._say(f"the clock is behind head {last.number}, of {last.time}: heads keep that time until it has come")
            self._has_told_clock = True
        return SignedHead(
            self.log.cell,
            name,
            last.number + 1 if last else 1,
            max(now_ms, last.at_ms if last else 0),
            last.hash if last else NO_HASH,
            {each.name: each.standing for each in self.machines},
            self._open_ends(last),
            key,
        )

    def _open_ends(self, last: SignedHead | None) -> dict[str, OpenEnd]:
        """Per topic what no round has read, as far as it was looked at."""
        ends: dict[str, OpenEnd] = {}
        view, start = TailLog(self._tail, ""), dict[str, int]()
        for each in self.machines:
            for topic, position in each.inputs.items():
                start[topic] = max(start.get(topic, 0), position)
        own = {each.own: each.standing.position for each in self.machines}
        for topic in (topic.name for topic in ALL):
            begin = start.get(topic, 0)
            end = self._tail.settled[topic] if self.caught_up else max(begin, own.get(topic, 0))
            end = max(end, begin, last.topics[topic].end if last and topic in last.topics else 0)
            ends[topic] = OpenEnd(begin, end, hash_of(view, topic, begin, end))
        return ends

    def _publish_pending(self) -> LogUnavailable | None:
        """Publishes what couldn't be before; returns why it can't be now. Rounds are replayed in any case."""
        try:
            if self._pending is not None:
                self._publish()
        except LogUnavailable as away:
            return away
        return None

    def _publish(self) -> None:
        assert self._pending is not None
        self.heads.publish(self._pending)
        self.last, self._pending, self._signed_here = self._pending, None, True
        for each in self.machines:
            each.write()

    def _reopen(self) -> None:
        """Reads the log again, from the last whole round of each machine."""
        tail = _tail(self.log)
        self._tail.close()
        self._tail = tail
        for each in self.machines:
            each.restart(tail)
        self._stale = False

    def _hands_over(self) -> bool:
        """Whether the key that signs now has still to be named by the one before."""
        return self.last is not None and not self.last.note.is_signed_by(self._keys.key.public)

    def _last_head(self) -> Published | None:
        """The newest head of this witness, published if it wasn't yet; None: there is none."""
        own, numbers = self._own_head(), self.heads.numbers()
        there = self.heads.read(numbers[-1]) if numbers else None
        if own is not None:
            number, url = own.head.number, self.heads.url
            if number == (numbers[-1] if numbers else 0) + 1:
                self.heads.publish(own)  # the witness ended before it could
                there = own
            elif there is None or there.head.number < number:
                raise Alarmed(forked(number, f"head {number}, which this witness has signed, is missing at {url}"))
            elif self.heads.read(number).note.text != own.note.text:
                raise Alarmed(forked(number, f"head {number} at {url} is not the one that this witness has signed"))
        if there is not None:
            self._check_signer(there)
        return there

    def _own_head(self) -> Published | None:
        file = self._folder / LAST
        try:
            return parsed(file.read_bytes())
        except FileNotFoundError:
            return None
        except NoteFault as fault:
            raise PacelineError(f"{file} can't be read: {fault}. Remove it if you know why.") from fault

    def _check_signer(self, last: Published) -> None:
        """Raises `PacelineError` where this witness can't go on from a head."""
        key, old = self._keys
        if last.note.is_signed_by(key.public):
            return
        number = last.head.number
        if old is not None and last.note.is_signed_by(old.public):
            self._say(f"key {key.public} takes over from {old.public} with head {number + 1}")
            return
        signers = ", ".join(f"{each.name}+{each.id.hex()}" for each in last.note.signatures) or "nobody"
        raise PacelineError(
            f"Head {number} at {self.heads.url} is signed by {signers}, and not by {key.public}. To hand over to this "
            "key, name the one that signed with --old-key; or publish elsewhere."
        )


def _tail(log: Log) -> Tail:
    try:
        return Tail(log)
    except LogGap as gap:
        raise _cut(gap) from gap


def _cut(gap: LogGap) -> Alarmed:
    return Alarmed(found(Difference("", 0, 0, None, None, str(gap), (), Mismatch.MISSING)))


def _write(file: Path, data: bytes) -> None:
    Files(str(file.parent)).write(file.name, data)
