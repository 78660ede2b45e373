"""Expectations of windows of maintenance."""

from paceline.simulate.scenario.assertions import Assertion, CellState, Observation, one_of, other_word
from processors.placement.windows import LEADING, OPEN, SET

STATES = (SET, LEADING, OPEN, "ABSENT")


def of_window(text: str, words: list[str]) -> Assertion:
    """The assertion of a line that begins with `window`. Raises `Malformed`."""
    name, verb, arguments = (*words[1:2], "")[0], (*words[2:3], "")[0], words[3:]
    if verb != "is":
        raise other_word("go on", verb, ("is",))
    state = one_of(" ".join(arguments), STATES)

    def evaluate(cell_state: CellState) -> Observation:
        row = cell_state.placement.windows.table.get(name)
        have = "ABSENT" if row is None else row.state
        return Observation(have == state, f"window {name} is {have}")

    return Assertion(text, evaluate, {"window": (name,)})
