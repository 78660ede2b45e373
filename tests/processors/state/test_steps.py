"""The steps of a decision: each sees what those before it decided and spent."""

from collections.abc import Callable

from events.records.base import Event
from events.records.rounds import TimerPassed
from processors.state.budget import Budget
from processors.state.steps import Pass, Step, decide_in_steps

ONE, TWO, THREE = (TimerPassed(machine="m", due_ms=at) for at in (1, 2, 3))


def look(budget: int = 10) -> Pass:
    return Pass(7, True, 7, Budget(budget))


def step(*events: Event, ends: bool = False, seen: list[int] | None = None) -> Step:
    def decide(this: Pass) -> list[Event]:
        if seen is not None:
            seen.append(len(this.out))
        this.budget.spend(len(events))
        return [*events]

    return Step("s", decide, "", ends)


def test_what_steps_decide_is_one_list_in_their_order() -> None:
    this, seen = look(), list[int]()
    assert decide_in_steps([step(ONE, seen=seen), step(seen=seen), step(TWO, THREE, seen=seen)], this) == [
        ONE,
        TWO,
        THREE,
    ]
    assert (seen, this.budget.left) == ([0, 1, 1], 7)


def test_a_step_that_ends_the_pass_does_so_only_with_a_decision() -> None:
    assert decide_in_steps([step(ONE), step(ends=True), step(TWO, ends=True), step(THREE)], look()) == [ONE, TWO]


def test_a_step_may_end_the_pass_without_a_decision() -> None:
    def stop(this: Pass) -> list[Event]:
        this.over = True
        return []

    decide: Callable[[Pass], list[Event]] = stop
    assert decide_in_steps([step(ONE), Step("stop", decide, ""), step(TWO)], look()) == [ONE]
