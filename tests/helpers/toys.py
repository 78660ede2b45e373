"""Two toy machines that feed each other in a cycle. `left` answers facts, `right` echoes the answers, `left` closes
what was echoed by a timer. What they hold depends on the order of all inputs, so any other order shows in the hash.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from events.acceptance import digest
from events.records.base import Event
from events.records.entitlement import PoolAnswered
from events.records.jobs import JobStopRequested
from events.records.lifecycle import CommandAnswered
from events.records.rounds import TimerPassed
from processors.machine import Decided, Fact, Input, PeerRound
from processors.state.conversion import Conversions
from processors.state.table import Table, struct_table

CLOSE_AFTER_MS = 40


class Ball(msgspec.Struct, array_like=True):
    stage: int
    due_ms: int = 0


class Tally(msgspec.Struct, array_like=True):
    order: bytes = bytes(32)
    out_of_order: int = 0


class Toy:
    name: ClassVar[str]
    peers: ClassVar[tuple[str, ...]]
    facts: ClassVar[tuple[str, ...]] = ("paceline.jobs",)
    logic: ClassVar[int] = 1
    state: ClassVar[int] = 1
    conversions: ClassVar[Conversions] = {}

    def __init__(self) -> None:
        self.balls: Table[str, Ball] = struct_table("balls", Ball)
        self.tally: Table[str, Tally] = struct_table("tally", Tally)
        self.tally.put("all", Tally())

    @property
    def tables(self) -> Sequence[Table[Any, Any]]:
        return (self.balls, self.tally)

    def restored(self) -> None:
        pass

    def saw(self, *what: object, in_order: bool = True) -> None:
        tally = self.tally.change("all")
        tally.order = digest(tally.order + repr(what).encode())
        tally.out_of_order += not in_order

    def next_wakeup(self) -> int | None:
        return None


class Left(Toy):
    """ball: 1 asked, 2 answered, 3 echoed, 4 closed."""

    name = "left"
    peers = ("right",)

    def apply(self, record: Input) -> None:
        match record:
            case Fact(_, offset, _, JobStopRequested(command_id=ball), _):
                self.saw("fact", offset)
                if ball not in self.balls:
                    self.balls.put(ball, Ball(1))
            case PeerRound(_, number, now, decisions):
                for decision in decisions:
                    if isinstance(decision, PoolAnswered):
                        known = self.balls.get(decision.command_id)
                        self.saw("echo", number, decision.command_id, in_order=known is not None and known.stage == 2)
                        if known is not None:
                            self.balls.put(decision.command_id, Ball(3, now + CLOSE_AFTER_MS))
            case Decided(_, CommandAnswered(command_id=ball)):
                self.balls.put(ball, Ball(2))
            case Decided(now, TimerPassed()):
                for ball, row in list(self.balls.items()):
                    if row.stage == 3 and row.due_ms <= now:
                        self.balls.put(ball, Ball(4))

    def decide(self, now: int, caught_up: bool, budget: int) -> list[Event]:
        asked = [ball for ball, row in sorted(self.balls.items()) if row.stage == 1][:budget]
        mark = self.tally["all"].order.hex()[:8]
        out: list[Event] = [CommandAnswered(job_id=mark, jobs_offset=0, command_id=ball, code="DONE") for ball in asked]
        due = self.next_wakeup()
        if caught_up and due is not None and due <= now:
            out.append(TimerPassed(machine=self.name, due_ms=due))
        return out

    def next_wakeup(self) -> int | None:
        return min((row.due_ms for row in self.balls.values() if row.stage == 3), default=None)


class Right(Toy):
    """ball: 1 seen as a fact, 2 answered by left, 3 echoed."""

    name = "right"
    peers = ("left",)

    def apply(self, record: Input) -> None:
        match record:
            case Fact(_, offset, _, JobStopRequested(command_id=ball), _):
                self.saw("fact", offset)
                if ball not in self.balls:
                    self.balls.put(ball, Ball(1))
            case PeerRound(_, number, _, decisions):
                for decision in decisions:
                    self.saw("round", number)
                    if isinstance(decision, CommandAnswered):
                        ball = decision.command_id
                        self.saw("answer", number, ball, in_order=ball in self.balls)
                        self.balls.put(ball, Ball(2))
            case Decided(_, PoolAnswered(command_id=ball)):
                self.balls.put(ball, Ball(3))

    def decide(self, now: int, caught_up: bool, budget: int) -> list[Event]:
        mark = self.tally["all"].order.hex()[:8]
        ready = [ball for ball, row in sorted(self.balls.items()) if row.stage == 2][:budget]
        return [PoolAnswered(path=mark, pools_offset=0, command_id=ball, code="DONE") for ball in ready]


TOYS: dict[str, type[Toy]] = {"left": Left, "right": Right}
