"""What of a job is drawn as a bar."""

from collections.abc import Mapping

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


def task_bar(tasks: Mapping[str, int], instances: int) -> list[tuple[str, float]]:
    """The parts of a bar of tasks by state: colour, and percent of all instances."""
    return [(colour, tasks[name] * 100 / instances) for name, colour in TASK_COLOURS.items() if tasks[name]]
