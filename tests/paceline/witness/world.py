"""A small real history that grows in memory, and witnesses of it."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from events.log.memory import MemoryLog
from events.topics import ALL
from paceline.witness.chain import CheckedChain, check_chain
from paceline.witness.notes import PrivateKey, make_key, read_key
from paceline.witness.published import Heads
from paceline.witness.witness import Keys, Witness
from processors.cell_machines import machines
from processors.machine import Machine
from tests.helpers.past import past

NOW_MS = 1_800_000_000_000


@cache
def times() -> list[int]:
    """The times at which something was appended to the small history."""
    return sorted({record.at_ms for topic in ALL for record in past().scan(topic.name, 0)})


def part(share: float) -> int:
    """The time by which so much of the history had come."""
    found = times()
    return found[min(len(found) - 1, round(share * len(found)))]


def copied(source: MemoryLog | None = None, until_ms: int | None = None) -> MemoryLog:
    """A log that may be changed: that of the small history, up to before a time."""
    log = MemoryLog(lambda: 0)
    grow(log, source or past(), until_ms)
    return log


def grow(log: MemoryLog, source: MemoryLog, until_ms: int | None = None) -> None:
    """Appends what came up to before a time, to topics that end before."""
    for topic in ALL:
        held = log.topic(topic.name)
        records = [each for each in source.scan(topic.name, 0) if until_ms is None or each.at_ms < until_ms]
        held.records += [each for each in records if each.offset >= held.end]
        held.end = source.topic(topic.name).end if until_ms is None else len(records)


class World:
    """A folder with keys, published heads and the state of a witness. `now_ms`: the time of all witnesses."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now_ms = NOW_MS
        self.heads = Heads(str(folder / "heads"), 0)
        self.key = self.new_key("witness-1")
        self.said: list[str] = []
        """What witnesses have said."""

    def new_key(self, name: str) -> PrivateKey:
        """Another key."""
        file = self.folder / f"{name}.key"
        make_key(name, file)
        return read_key(file)

    def witness(
        self,
        log: MemoryLog,
        key: PrivateKey | None = None,
        old_key: PrivateKey | None = None,
        state: str = "state",
        make: Mapping[str, Callable[[], Machine]] | None = None,
        heads: Heads | None = None,
    ) -> Witness:
        """A witness that begins, or goes on."""
        keys = Keys(key or self.key, old_key)
        made = make or machines()
        return Witness(
            log, heads or self.heads, keys, self.folder / state, made, lambda: self.now_ms, say=self.said.append
        )

    def follow(self, log: MemoryLog, **how: object) -> Witness:
        """The same, once it has caught up and signed a head; it is closed."""
        witness = self.witness(log, **how)  # type: ignore[arg-type]
        try:
            caught_up(witness)
        finally:
            witness.close()
        return witness

    def chain(self, key: PrivateKey | None = None) -> CheckedChain:
        """The published heads, as a third party sees them."""
        return check_chain(self.heads, 0, (key or self.key).public)


def caught_up(witness: Witness) -> None:
    """Lets a witness decide all that is there: it sees the end of the log a look later."""
    witness.step()
    while witness.step():
        pass
