"""Expectations of campaigns of maintenance."""

from collections.abc import Callable

from events.codes import Code, Step
from paceline.simulate.scenario.assertions import (
    Assertion,
    CellState,
    Malformed,
    Observation,
    count_of,
    one_of,
    other_word,
)
from processors.placement.campaigns.rows import CampaignRow, State

STEPS = tuple(step.name for step in Step if step is not Step.NONE)
STATES = (*(state.name for state in State), "ABSENT")


def of_campaign(text: str, words: list[str]) -> Assertion:
    """The assertion of a line that begins with `campaign`. Raises `Malformed`."""
    name, verb, arguments = (*words[1:2], "")[0], (*words[2:3], "")[0], words[3:]
    evaluate: Callable[[CellState], Observation]
    if verb == "is":
        state = one_of(" ".join(arguments), STATES)

        def evaluate(cell_state: CellState) -> Observation:
            row = _row(cell_state, name)
            have = "ABSENT" if row is None else row.state
            return Observation(have == state, f"campaign {name} is {have}")

    elif verb == "hosts":
        step = Step[one_of((*arguments, "")[0], STEPS)]
        what = f"campaign {name} hosts {step.name}"
        evaluate = count_of(arguments[1:], lambda cell_state: _count(cell_state, name, step), what)
    elif verb == "taken":
        evaluate = count_of(arguments, lambda cell_state: _taken(cell_state, name), f"campaign {name} taken")
    elif verb == "waits":
        if arguments[:1] != ["for"] or arguments[1:] not in [[code] for code in Code]:
            raise Malformed("must end with `for` and a reason code")

        def evaluate(cell_state: CellState) -> Observation:
            row = _row(cell_state, name)
            have = row.waits if row is not None else ""
            return Observation(have == arguments[1], f"campaign {name} waits for {have or 'nothing'}")

    else:
        raise other_word("go on", verb, ("is", "hosts", "taken", "waits"))
    return Assertion(text, evaluate, {"campaign": (name,)})


def _row(cell_state: CellState, name: str) -> CampaignRow | None:
    return cell_state.placement.campaigns.rows.campaigns.get(name)


def _count(cell_state: CellState, name: str, step: Step) -> int:
    row = _row(cell_state, name)
    return row.counts[step] if row is not None else 0


def _taken(cell_state: CellState, name: str) -> int:
    row = _row(cell_state, name)
    return row.active if row is not None else 0
