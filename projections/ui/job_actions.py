"""Actions on a job from its page: each asks first, and names what is affected."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from events.codes import ENDED_JOBS, UpdateState
from projections.views.rows import JobRow

Update = Mapping[str, Any]
"""The newest update of a job; empty: there was none."""


class Need(NamedTuple):
    """A condition on a job for an action, and the sentence where it doesn't hold."""

    holds: Callable[[JobRow, Update], bool]
    otherwise: str


class JobAction(NamedTuple):
    """A button: its name in addresses, which is also that of the command, the word on it, what it needs, and what it
    does.
    """

    name: str
    word: str
    needs: tuple[Need, ...]
    says: str
    danger: bool = False
    fields: tuple[str, ...] = ()
    """Its fields beside a reason: instances, batch, version, priority."""

    def lacks(self, row: JobRow, update: Update) -> str:
        """Why it makes no sense for a job as it is; empty: it does."""
        return next((need.otherwise for need in self.needs if not need.holds(row, update)), "")


_ACCEPTED = Need(lambda row, update: row.base >= 0, "it isn't accepted")
_KEPT = Need(lambda row, update: not row.ended_ms, "it has ended")
_GOING = Need(lambda row, update: row.state not in ENDED_JOBS, "it has ended")
_ENDED = Need(lambda row, update: row.state in ENDED_JOBS, "it hasn't ended; stop it first")
_ROLLS = Need(lambda row, update: bool(update) and not update["ended_at"], "no update of it is under way")
_NOT_PAUSED = Need(lambda row, update: not update["paused"], "its update is paused already")
_PAUSED = Need(lambda row, update: bool(update["paused"]), "its update isn't paused")
_CANARY = Need(lambda row, update: update["state"] == UpdateState.CANARY, "its update has no canary that waits")
_CHANGED = Need(lambda row, update: row.version > 1, "it has one version")
_SERVICE = Need(lambda row, update: row.kind != "batch", "tasks of a batch job aren't restarted; submit it anew")
_RUNS = Need(lambda row, update: row.running > 0, "none of its tasks runs")
_IS_OVER = Need(
    lambda row, update: row.killed + row.failed + row.succeeded > 0, "none of its tasks was stopped or has ended"
)
_FREE = Need(lambda row, update: not row.held_ms, "it is held already")
_HELD = Need(lambda row, update: row.held_ms > 0, "it isn't held")
_STAYS = Need(lambda row, update: not row.stopping, "it is being stopped already")
_OPEN = (_ACCEPTED, _KEPT)
_IN_USE = (*_OPEN, _GOING)

JOB_ACTIONS = (
    JobAction("pause", "Pause update", (_ROLLS, _NOT_PAUSED),
              "What is being updated goes on, nothing more is begun."),
    JobAction("resume", "Resume update", (_ROLLS, _PAUSED),
              "The update goes on."),
    JobAction("promote", "Promote", (_ROLLS, _CANARY),
              "The update goes on from its canary to all instances."),
    JobAction("abort", "Abort update", (_ROLLS,),
              "What is updated stays so, the rest stays as it is.", danger=True),
    JobAction("rollback", "Roll back", (*_IN_USE, _CHANGED),
              "An update takes the job to a new version that is equal to an earlier one.", fields=("version",)),
    JobAction("restart", "Restart", (*_IN_USE, _SERVICE, _RUNS),
              "Instances are stopped and run again, in batches.", fields=("instances", "batch")),
    JobAction("start", "Start", (_ACCEPTED, _IS_OVER),
              "Instances that were stopped or have failed run again; of those that succeeded the ones that are named.",
              fields=("instances",)),
    JobAction("hold", "Hold", (*_IN_USE, _FREE),
              "Its waiting tasks leave the queue until it is released; what runs goes on."),
    JobAction("release", "Release", (*_OPEN, _HELD),
              "Its waiting tasks are queued again."),
    JobAction("priority", "Priority", _IN_USE,
              "Its waiting tasks move in the queue of its pool.", fields=("priority",)),
    JobAction("stop", "Stop", (*_IN_USE, _STAYS),
              "Running tasks get SIGTERM and the grace time of their job; waiting tasks never run.", danger=True,
              fields=("instances",)),
    JobAction("delete", "Delete", (_ACCEPTED, _ENDED),
              "The job is deleted with its versions; its history stays in the log.", danger=True),
)  # fmt: skip
BY_NAME = {action.name: action for action in JOB_ACTIONS}


def offered(row: JobRow, update: Update) -> list[JobAction]:
    """The buttons of a job as it is."""
    return [action for action in JOB_ACTIONS if not action.lacks(row, update)]
