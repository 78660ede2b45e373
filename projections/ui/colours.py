"""The colours of reasons and states, the same on every page and plot."""

from collections.abc import Mapping

from events.codes import Code, Outcome, TaskState
from projections.host_states import HostState

REASONS: dict[str, str] = {
    Code.ENTITLEMENT_REACHED: "s1",
    Code.BEHIND_IN_QUEUE: "s7",
    Code.LIMIT_REACHED: "s5",
    Code.WAITING_FOR_PREEMPTION: "s4",
    Code.NO_HOST_FITS: "s2",
    Code.GANG_INCOMPLETE: "s6",
    Code.CONSTRAINT_MISMATCH: "s3",
    Code.NEVER_FITS: "s8",
    Code.NO_HOSTS: "lost",
    Code.HELD: "held",
    Code.BACKOFF: "backoff",
    Code.CRASH_LOOP: "failed",
    Code.RUN_FAILED: "s8",
}
"""Reasons, in the order in which they stand on one another from the bottom. Tasks don't wait for a run that failed."""
PALETTE = tuple(f"s{number}" for number in range(1, 9))
REST = "s0"
TASKS = {"queued": "waiting", "backoff": "backoff", "held": "held", "stopping": "stopping"} | {
    "ordered": "ordered", "running": "running"
}  # fmt: skip
"""States of tasks, from the top of a plot."""
OUTCOMES: dict[str, str] = {
    Outcome.SUCCEEDED.name: "succeeded",
    Outcome.FAILED.name: "failed",
    Outcome.STOPPED.name: "killed",
    Outcome.PREEMPTED.name: "preempted",
    Outcome.LOST.name: "lost",
    Outcome.REVOKED.name: "preempted",
    Outcome.WITH_GANG.name: "failed",
    Outcome.REPLACED.name: "killed",
    Outcome.RELOCATED.name: "killed",
}
"""Outcomes of runs, by colour and shape."""
HOSTS = {
    HostState.UP.lower(): "running",
    HostState.SUSPECTED.lower(): "backoff",
    HostState.SILENT.lower(): "waiting",
    HostState.RETURNING.lower(): "ordered",
    HostState.CONNECTING.lower(): "ordered",
    HostState.LOST.lower(): "lost",
}
"""States of hosts, as the series of a cell name them."""
TASK_COLOURS = {
    "succeeded": "succeeded",
    "running": "running",
    "ordered": "ordered",
    "stopping": "stopping",
    "backoff": "backoff",
    "queued": "waiting",
    "failed": "failed",
    "killed": "killed",
}
"""The colours of the states of tasks, in the order in which bars have them."""

GRID_STATES = [
    {"name": state.name, "word": state.name.capitalize(), "colour": TASK_COLOURS.get(state.name.lower(), "sunk")}
    for state in TaskState
]
"""For the script of the grid: the states of tasks, by their numbers."""


def task_bar(tasks: Mapping[str, int], instances: int) -> list[tuple[str, float]]:
    """The parts of a bar of tasks by state: colour, and percent of all instances."""
    return [(colour, tasks[name] * 100 / instances) for name, colour in TASK_COLOURS.items() if tasks[name]]
