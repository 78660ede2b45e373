"""Watches whether what is expected holds, moment by moment."""

from collections.abc import Sequence
from typing import NamedTuple

from paceline.simulate.scenario.assertions import Assertion, CellState
from paceline.simulate.scenario.scenario import Expectation


class ExpectationResult(NamedTuple):
    """The result of an expectation: when it was decided, from the start, what was seen then, and after which round."""

    text: str
    holds: bool
    at_ms: int
    observation: str
    position: str

    @property
    def at_s(self) -> str:
        """When, in seconds, to the millisecond and no longer than needed: `--until` comes to the same moment."""
        return f"{self.at_ms / 1000:.15g}s"


class WatchedExpectation:
    """One expectation."""

    def __init__(self, expectation: Expectation) -> None:
        self.assertion: Assertion = expectation.assertion()
        self.verdict: ExpectationResult | None = None
        self._expectation = expectation
        kind = next(name for name in ("at", "by", "always", "never") if name in expectation.model_fields_set)
        self._kind = kind
        moment = expectation.at if kind == "at" else expectation.by
        self.until_ms = moment
        """When it is decided at the latest; None: at the end."""
        self.due_ms = moment if moment is not None else expectation.since or None
        """When it must be looked at though nothing has changed: when it is decided, or where it begins to look."""

    def check(self, now_ms: int, cell_state: CellState, position: str, ended: bool) -> None:
        """Looks at a moment at which everything is at rest."""
        if self.verdict is not None or now_ms < self._expectation.since:
            return
        if self._kind == "at" and now_ms < (self.until_ms or 0):
            return
        self.due_ms = self.until_ms
        observation = self.assertion.evaluate(cell_state)
        last = ended or (self.until_ms is not None and now_ms >= self.until_ms)
        if self._kind in ("always", "never"):
            decided, holds = (
                observation.holds is (self._kind == "never") or ended,
                observation.holds is (self._kind == "always"),
            )
        else:
            decided, holds = observation.holds or last, observation.holds
        if decided:
            self.verdict = ExpectationResult(self.text(), holds, now_ms, observation.what, position)

    def text(self) -> str:
        """The expectation in words."""
        from events.quantities import write_ms

        when = f" {write_ms(self.until_ms)}" if self.until_ms is not None else ""
        since = f" since {write_ms(self._expectation.since)}" if self._expectation.since else ""
        return f"{self._kind}{when}{since}: {self.assertion.text}"


class Watch:
    """All expectations of a scenario."""

    def __init__(self, expectations: Sequence[Expectation]) -> None:
        self._all = [WatchedExpectation(each) for each in expectations]
        self._open = list(self._all)
        self._changes_checked = -1

    def check(self, now_ms: int, changes: int, cell_state: CellState, position: str, ended: bool = False) -> None:
        """Looks at a moment; `changes` grows whenever anything has changed."""
        due = ended or any(each.due_ms is not None and each.due_ms <= now_ms for each in self._open)
        if changes == self._changes_checked and not due:
            return
        self._changes_checked = changes
        for each in self._open:
            each.check(now_ms, cell_state, position, ended)
        self._open = [each for each in self._open if each.verdict is None]

    def next_ms(self) -> int | None:
        """When it must look though nothing has changed."""
        return min((each.due_ms for each in self._open if each.due_ms is not None), default=None)

    def verdicts(self) -> list[ExpectationResult]:
        """The results of all of them, once the end was looked at."""
        return [each.verdict for each in self._all if each.verdict is not None]
