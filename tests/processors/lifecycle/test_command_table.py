"""Each command in each state of a job: what it does, or the code that refuses it."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from events.codec import encode
from events.codes import Code
from events.records.base import Event
from events.records.jobs import (
    JobActionRequested,
    JobPriorityRequested,
    JobStopRequested,
    JobSubmitted,
    JobUpdateRequested,
)
from events.records.lifecycle import (
    CommandAnswered,
    InstancesWanted,
    JobHeld,
    JobPriorityChanged,
    JobsForgotten,
    UpdateEnded,
    UpdatePaused,
    UpdateProgressed,
    UpdatePromoted,
    UpdateStarted,
)
from tests.helpers.machines import one
from tests.processors.lifecycle.harness import columns_of
from tests.processors.lifecycle.test_updates import HEALTHY_MS, Cell, policy

EFFECTS: dict[str, tuple[type[Event], ...]] = {
    "N": (),
    "W": (InstancesWanted,),
    "H": (JobHeld,),
    "U": (UpdateStarted,),
    "O": (UpdateEnded, UpdateStarted),
    "P": (UpdatePaused,),
    "C": (UpdatePromoted,),
    "E": (UpdateEnded,),
    "R": (JobPriorityChanged,),
    "F": (JobsForgotten,),
    "G": (UpdateProgressed,),
}
"""What is decided with an answer that is DONE."""
CODES = {
    "f": Code.NOT_FOUND,
    "e": Code.ALREADY_ENDED,
    "r": Code.REPEATED,
    "u": Code.NO_UPDATE,
    "p": Code.NO_CANARY,
    "v": Code.NO_SUCH_VERSION,
    "n": Code.NOT_UPDATABLE,
    "x": Code.NEEDS_FORCE,
    "d": Code.BEING_DELETED,
    "c": Code.VERSION_CONFLICT,
    "i": Code.INVALID_SPEC,
}


def updating(**more: Any) -> Cell:
    """A service in the middle of an update, or as the policy has it."""
    cell = Cell(instances=2, update=policy(**({"batch": 1, "healthy_ms": HEALTHY_MS} | more)))
    cell.update(command=("two",))
    return cell


def then(cell: Cell, *actions: str, stops: bool = True, **fields: Any) -> Cell:
    """The cell after some commands; hosts that don't stop what they are told to leave it in between."""
    cell.stops = stops
    for action in actions:
        if action == "stop":
            cell.settle(cell.stop("web"))
        else:
            cell.act(action, **fields)
    return cell


STATES: dict[str, Callable[[], Cell]] = {
    "none": lambda: then(Cell(), "stop", "delete"),
    "running": Cell,
    "held": lambda: then(Cell(), "hold"),
    "stopping": lambda: then(Cell(), "stop", stops=False),
    "stopped": lambda: then(Cell(), "stop"),
    "updating": updating,
    "paused": lambda: then(updating(), "pause"),
    "canary": lambda: updating(canary=1, healthy_ms=0),
    "updated": lambda: updating(healthy_ms=0),
    "sla_0": lambda: Cell(max_unavailable=0),
    "deleting": lambda: then(Cell(), "delete", stops=False, force=True),
    "batch": lambda: Cell(kind="batch"),
    "ended": lambda: then(Cell(kind="batch"), "stop"),
}
"""How a job comes to be in a state."""

RANGE = columns_of([(1, 1)])
COMMANDS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "stop": (JobStopRequested, {}),
    "stop 1": (JobStopRequested, RANGE),
    "start": (JobActionRequested, {"action": "start"}),
    "start 1": (JobActionRequested, {"action": "start", **RANGE}),
    "restart": (JobActionRequested, {"action": "restart"}),
    "restart 1": (JobActionRequested, {"action": "restart", **RANGE}),
    "other": (JobUpdateRequested, {"command": ("other",)}),
    "same": (JobUpdateRequested, {}),
    "more": (JobUpdateRequested, {"instances": 6}),
    "roll_back": (JobActionRequested, {"action": "roll_back"}),
    "pause": (JobActionRequested, {"action": "pause"}),
    "resume": (JobActionRequested, {"action": "resume"}),
    "promote": (JobActionRequested, {"action": "promote"}),
    "abort": (JobActionRequested, {"action": "abort"}),
    "hold": (JobActionRequested, {"action": "hold"}),
    "release": (JobActionRequested, {"action": "release"}),
    "priority": (JobPriorityRequested, {"priority": 5}),
    "delete": (JobActionRequested, {"action": "delete"}),
    "delete!": (JobActionRequested, {"action": "delete", "force": True}),
    "beyond": (JobStopRequested, columns_of([(9, 1)])),
    "for 9": (JobStopRequested, {"expected_version": 9}),
    "dance": (JobActionRequested, {"action": "dance"}),
}

TABLE = """
           none running held stopping stopped updating paused canary updated sla_0 deleting batch ended
stop       f  W  W  r  r  W  W  W  W  W  d  W  e
stop 1     f  W  W  r  r  W  W  W  W  W  d  W  e
start      f  r  r  W  W  r  r  r  r  r  d  r  e
start 1    f  r  r  W  W  r  r  r  r  r  d  r  e
restart    f  U  U  U  U  N  N  G  U  n  d  n  e
restart 1  f  U  U  U  U  N  N  N  U  n  d  n  e
other      f  U  U  U  U  O  O  O  U  n  d  n  e
same       f  r  r  r  r  r  r  r  r  r  d  r  e
more       f  U  U  U  U  O  O  O  U  U  d  U  e
roll_back  f  v  v  v  v  O  O  O  U  v  d  v  e
pause      f  u  u  u  u  P  r  P  u  u  d  u  e
resume     f  u  u  u  u  r  P  r  u  u  d  u  e
promote    f  u  u  u  u  p  p  C  u  u  d  u  e
abort      f  u  u  u  u  E  E  E  u  u  d  u  e
hold       f  H  r  H  H  H  H  H  H  H  d  H  e
release    f  r  H  r  r  r  r  r  r  r  d  r  e
priority   f  R  R  R  R  R  R  R  R  R  d  R  e
delete     f  x  x  x  W  x  x  x  x  x  d  x  F
delete!    f  W  W  W  W  W  W  W  W  W  d  W  F
beyond     f  i  i  i  i  i  i  i  i  i  d  i  e
for 9      f  c  c  c  c  c  c  c  c  c  d  c  e
dance      f  i  i  i  i  i  i  i  i  i  d  i  e
"""


def say(cell: Cell, command: str) -> Sequence[Event]:
    """A command, with the answer and all that is decided in the same round."""
    kind, fields = COMMANDS[command]
    if kind is JobUpdateRequested:
        fields = {"spec": encode(JobSubmitted(job_id="web", **(cell.spec | fields)))}
    cell.stops = False
    return cell.fact("paceline.jobs", kind(job_id="web", command_id="mine", **fields))


def effect_of(said: Sequence[Event]) -> str:
    """The letter of what an answer comes with."""
    answer = one(said, CommandAnswered)
    if answer.code != Code.DONE:
        return next(letter for letter, code in CODES.items() if code == answer.code)
    before = tuple(type(event) for event in said[: said.index(answer)])
    return next(letter for letter, kinds in EFFECTS.items() if kinds == before)


CELLS = [
    (state, command, letter)
    for (command, *letters) in (line.rsplit(maxsplit=len(STATES)) for line in TABLE.strip().splitlines()[1:])
    for state, letter in zip(STATES, letters, strict=True)
]


@pytest.mark.parametrize(("state", "command", "letter"), CELLS)
def test_each_command_does_in_each_state_what_the_table_says(state: str, command: str, letter: str) -> None:
    assert effect_of(say(STATES[state](), command)) == letter


def test_the_table_has_all_commands_and_states() -> None:
    assert TABLE.split("\n")[1].split() == [*STATES]
    assert [command for _, command, _ in CELLS[:: len(STATES)]] == [*COMMANDS]
