"""What may be done to a job from its page: each asks first, and names what is affected."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from events.codes import ENDED_JOBS
from projections.views.rows import JobRow

Update = Mapping[str, Any]
"""The newest update of a job; empty: there was none."""


class JobAction(NamedTuple):
    """A button: its name in addresses, which is also that of the command, the word on it, when it makes sense, and what
    it does.
    """

    name: str
    word: str
    makes_sense: Callable[[JobRow, Update], bool]
    says: str
    danger: bool = False
    fields: tuple[str, ...] = ()
    """What it asks for beside a reason: instances, batch, version, priority."""


def _open(row: JobRow) -> bool:
    return row.base >= 0 and not row.ended_ms


def _going(row: JobRow) -> bool:
    return _open(row) and row.state not in ENDED_JOBS


def _rolls(update: Update) -> bool:
    return bool(update) and not update["ended_at"]


JOB_ACTIONS = (
    JobAction("pause", "Pause update", lambda row, update: _rolls(update) and not update["paused"],
              "What is being updated goes on, nothing more is begun."),
    JobAction("resume", "Resume update", lambda row, update: _rolls(update) and update["paused"],
              "The update goes on."),
    JobAction("promote", "Promote", lambda row, update: _rolls(update) and update["state"] == "CANARY",
              "The update goes on from its canary to all instances."),
    JobAction("abort", "Abort update", lambda row, update: _rolls(update),
              "What is updated stays so, the rest stays as it is.", danger=True),
    JobAction("rollback", "Roll back", lambda row, update: _going(row) and row.version > 1,
              "An update takes the job to a new version that is equal to an earlier one.", fields=("version",)),
    JobAction("restart", "Restart", lambda row, update: _going(row) and row.running > 0,
              "Instances are stopped and run again, in batches.", fields=("instances", "batch")),
    JobAction("start", "Start", lambda row, update: _open(row) and row.killed + row.failed + row.succeeded > 0,
              "Instances that were stopped or have ended run again.", fields=("instances",)),
    JobAction("hold", "Hold", lambda row, update: _going(row) and not row.held_ms,
              "What of it waits isn't queued until it is released; what runs goes on."),
    JobAction("release", "Release", lambda row, update: _open(row) and row.held_ms > 0,
              "What of it waits is queued again."),
    JobAction("priority", "Priority", lambda row, update: _going(row),
              "What of it waits stands elsewhere in the queue of its pool.", fields=("priority",)),
    JobAction("stop", "Stop", lambda row, update: _going(row) and not row.stopping,
              "Its runs get the time to end that the job asks for; what waits is never run.", danger=True,
              fields=("instances",)),
    JobAction("delete", "Delete", lambda row, update: row.base >= 0 and row.state in ENDED_JOBS,
              "The job is forgotten with its versions; its records stay in the log.", danger=True),
)  # fmt: skip
BY_NAME = {action.name: action for action in JOB_ACTIONS}


def offered(row: JobRow, update: Update) -> list[JobAction]:
    """The buttons of a job as it is."""
    return [action for action in JOB_ACTIONS if action.makes_sense(row, update)]
