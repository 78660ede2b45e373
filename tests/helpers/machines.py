"""A machine by itself: fed with facts and other machines' rounds, asked until it is quiet, taken over from its rows."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from events.codec import decode, encode
from events.columns import ints, pack_ints
from events.records.base import Event
from events.records.lifecycle import GangsQueued, InstancesChanged
from events.records.parts import Constraint, TaskShape
from events.resources import Amounts
from processors.machine import Decided, Fact, Input, Machine, PeerRound
from processors.state.table import RowChange, State
from tests.helpers.drawn import ALL

M = TypeVar("M", bound=Machine)
Run = tuple[str, int, int]
"""Job, instance, run."""
Range = tuple[str, int, int, int, int]
"""Job, first instance, count, run, gang."""

START_MS = 1_700_000_000_000
PASSES_MAX = 10_000
FOLLOWED = 4 if ALL else 2
"""How many restored copies hear the same inputs at a time."""


class Alone(Generic[M]):
    """Whoever uses it adds what users, hosts and other machines say, in their words.

    When it is at rest a copy is restored from the rows. It and the copies before it hear what the live machine hears,
    and must decide the same and come to the same state. So must one that replays the log: it is asked where the live
    machine has decided something, and never when it is to be woken.
    """

    each_pass = ALL
    """Whether a copy is restored whenever the machine has decided."""

    def __init__(self, make: Callable[[], M], budget: int = 1000) -> None:
        self.now = START_MS
        self.budget = budget
        self.caught_up = True
        self.busy = False
        """Inputs are applied and nothing is decided, as while a machine reads what has piled up."""
        self.offsets: dict[str, int] = {}
        """Of each topic the offset of its last fact."""
        self.rounds: dict[str, int] = {}
        """Of each machine the number of its last round."""
        self.said: list[Event] = []
        self._make = make
        self._stored: dict[tuple[str, bytes], bytes] = {}
        self.machine = make()
        self.state = State(self.machine.tables, self.machine.peers)
        self._copies: list[tuple[M, State]] = []
        self._replay: M | None = make()

    def take(self, topic: str, *facts: Event) -> list[Event]:
        """Facts of a topic; decides after all of them."""
        for event in facts:
            self.catch(topic, event)
        return self.quiet()

    def catch(self, topic: str, event: Event) -> None:
        """A fact that is applied and not decided on yet."""
        self.offsets[topic] = self.offsets.get(topic, -1) + 1
        self.apply(Fact(topic, self.offsets[topic], self.now, event, encode(event)))

    def peer(self, machine: str, *decisions: Event) -> list[Event]:
        """A round of another machine."""
        self.rounds[machine] = self.rounds.get(machine, 0) + 1
        self.apply(PeerRound(machine, self.rounds[machine], self.now, decisions))
        return self.quiet()

    def decided(self, *decisions: Event) -> list[Event]:
        """Decisions that the machine knows how to apply and doesn't make by itself yet."""
        name = self.machine.name
        self.rounds[name] = self.rounds.get(name, 0) + 1
        for index, decision in enumerate(decisions):
            self.apply(Decided(self.now, decision, self.rounds[name], index))
        return self.quiet()

    def apply(self, record: Input) -> None:
        """The live machine and its copies hear the same."""
        replay = [self._replay] if self._replay is not None else []
        for machine in (self.machine, *replay, *(copy for copy, _ in self._copies)):
            machine.apply(record)

    def quiet(self) -> list[Event]:
        """Decides until nothing is left, and checks that deciding changes nothing that is hashed, and that processes
        which took over from the rows, now or some passes ago, decide the same.
        """
        said: list[Event] = []
        if self.busy:
            return said
        self.rounds[self.machine.name] = self.rounds.get(self.machine.name, 0) + 1
        for _ in range(PASSES_MAX):
            self._store()
            before = self.state.rehash()
            assert before == self.state.hash, "a row changed and nobody said so"
            decisions = self._decide(self.machine)
            if self.each_pass or not decisions:
                self._copies = [*self._copies[1 - FOLLOWED :], self.restored()]
                self.look(self._copies[-1][0])
            assert self._decide(self.machine) == decisions
            assert self.state.rehash() == before, "deciding changed the state"
            wakeup = self.machine.next_wakeup()
            self._compare(wakeup, decisions)
            if decisions and self._replay is not None:
                assert self._decide(self._replay) == decisions, "a replay of the log decides otherwise"
            if not decisions:
                self.said += said
                assert not self.caught_up or wakeup is None or wakeup > self.now, "a due timer decided nothing"
                return said
            for index, decision in enumerate(decisions, len(said)):
                assert decode(encode(decision)) == decision
                self.apply(Decided(self.now, decision, self.rounds[self.machine.name], index))
            said += decisions
        raise AssertionError(f"{self.machine.name} never comes to rest")

    def _compare(self, wakeup: int | None, decisions: list[Event]) -> None:
        """The copies stand where the live machine stands, and decide as it does."""
        for copy, state in self._copies:
            state.take_changes()
            assert state.hash == self.state.hash, "a machine that was restored came to another state"
            assert copy.next_wakeup() == wakeup, "a machine that was restored wakes at another time"
            assert self._decide(copy) == decisions, "a machine that was restored decides otherwise"

    def look(self, copy: M) -> None:
        """What else must hold before decisions are applied; `copy` was restored from the rows."""

    def later(self, ms: int) -> list[Event]:
        """Time passes."""
        self.now += ms
        return self.quiet()

    def restart(self) -> None:
        """Another process takes over from the rows."""
        self.machine, self.state = self.restored()

    def restart_copies(self) -> None:
        """A test has changed the state by hand: what was restored before knows nothing of it."""
        self._copies.clear()
        self._replay = None

    def restored(self) -> tuple[M, State]:
        """A machine as it is restored from the rows, in the order in which a store has them."""
        machine = self._make()
        state = State(machine.tables, machine.peers)
        state.load(RowChange(table, key, row) for (table, key), row in sorted(self._stored.items()))
        machine.restored()
        return machine, state

    def _decide(self, machine: M) -> list[Event]:
        return machine.decide(self.now, self.caught_up, self.budget)

    def _store(self) -> None:
        for table, key, row in self.state.take_changes():
            if row is None:
                self._stored.pop((table, key), None)
            else:
                self._stored[table, key] = row


def shaped(
    need: Amounts, ports: int = 0, constraints: tuple[Constraint, ...] = (), strategy: str = "pack", **fields: Any
) -> dict[str, Any]:
    """The fields of a job whose tasks have this shape."""
    return {"shapes": (TaskShape(need, ports, constraints, strategy),)} | fields


def mixed(*parts: tuple[int, TaskShape]) -> dict[str, Any]:
    """The fields of a job whose tasks have these shapes, so many each, one after another."""
    shapes = range(len(parts))
    counts = [count for count, _ in parts]
    return {
        "instances": sum(counts),
        "shapes": tuple(shape for _, shape in parts),
        "first": pack_ints([sum(counts[:at]) for at in shapes]),
        "count": pack_ints(counts),
        "shape": pack_ints(shapes),
    }


def columns(runs: Sequence[Run]) -> dict[str, Any]:
    """The fields that name runs."""
    names = list(dict.fromkeys(job for job, _, _ in runs))
    return {
        "job_ids": tuple(names),
        "job": pack_ints([names.index(job) for job, _, _ in runs]),
        "instance": pack_ints([instance for _, instance, _ in runs]),
        "run": pack_ints([run for _, _, run in runs]),
    }


def ranges(what: Sequence[Range]) -> dict[str, Any]:
    """The fields that name ranges of runs."""
    names = list(dict.fromkeys(job for job, *_ in what))
    rows = [(names.index(job), *rest) for job, *rest in what]
    fields = ("job", "first", "count", "run", "gang")
    return {"job_ids": tuple(names), **{name: pack_ints(row[at] for row in rows) for at, name in enumerate(fields)}}


def queued(what: Sequence[Range], admitted: int = 0, shapes: Sequence[TaskShape | None] = ()) -> GangsQueued:
    """Ranges that are queued, each with what its tasks ask from now on; None: what they asked before."""
    new = list(dict.fromkeys(str(shape) for shape in shapes if shape))
    by_text = {str(shape): shape for shape in shapes if shape}
    return GangsQueued(
        **ranges(what),
        admitted=pack_ints([admitted] * len(what)),
        shapes=tuple(by_text[text] for text in new),
        shape=pack_ints(new.index(str(shape)) if shape else -1 for shape in shapes),
    )


def instances_changed(
    job_id: str,
    instances: Sequence[int],
    added: Sequence[int] = (),
    removed: Sequence[int] = (),
    first_run: int = 1,
    shapes: Sequence[TaskShape] = (TaskShape({"cpu": 1}),),
) -> InstancesChanged:
    """What lifecycle says when a job that has some instances gets more, of these shapes by turns, and loses some."""
    left = {*instances, *added} - {*removed}
    changes = [(each, 1) for each in added] + [(each, 0) for each in removed]
    return InstancesChanged(
        job_id=job_id,
        first=pack_ints(each for each, _ in changes),
        count=pack_ints([1] * len(changes)),
        wanted=pack_ints(wanted for _, wanted in changes),
        shape=pack_ints(at % len(shapes) for at, _ in enumerate(changes)),
        shapes=tuple(shapes),
        instances=max(left, default=-1) + 1,
        first_run=first_run,
    )


def runs_of(event: Any) -> list[Run]:
    """The runs that a record names."""
    rows = zip(ints(event.job).tolist(), ints(event.instance).tolist(), ints(event.run).tolist(), strict=True)
    return [(event.job_ids[job], instance, run) for job, instance, run in rows]


def ranges_of(event: Any) -> list[Range]:
    """The ranges that a record names."""
    rows = zip(*(ints(getattr(event, name)).tolist() for name in ("job", "first", "count", "run", "gang")), strict=True)
    return [(event.job_ids[job], first, count, run, gang) for job, first, count, run, gang in rows]


def kinds(said: Sequence[Event]) -> list[str]:
    """What was said, by the names of the records."""
    return [type(event).__name__ for event in said]


def of(said: Sequence[Event], kind: type[Any]) -> list[Any]:
    """What was said of one kind."""
    return [event for event in said if isinstance(event, kind)]


def one(said: Sequence[Event], kind: type[Any]) -> Any:
    """The only thing of a kind that was said."""
    found = of(said, kind)
    assert len(found) == 1, kinds(said)
    return found[0]
