"""Why tasks of a job wait before they are queued, in words."""

from typing import NamedTuple

from events.codes import Code
from projections.queries.last_failure import Failure, words_of
from projections.queries.sentences import CANNOT_START, REMEDIES, WAIT, YOU, Remedy, again, counted
from projections.record_json import at
from projections.views.rows import JobRow


class Told(NamedTuple):
    """A reason, and the time since when it holds; 0: it isn't known."""

    code: Code
    text: str
    remedy: Remedy
    since_ms: int = 0


def of_backoff(job: JobRow, failure: Failure | None) -> Told | None:
    """Why tasks wait in lifecycle; None: none does. `failure`: how the task that failed last did."""
    if job.held_ms:
        return _of_held(job)
    if not job.backoff:
        return None
    words = counted(job.backoff)
    others = job.queued + job.ordered + job.running + job.stopping_tasks
    if 0 < job.max_running <= others:
        in_use = f"{others} run{'s' * (others == 1)}"
        if job.queued:
            in_use += f" or {counted(others)['is']} queued"
        text = "{tasks} wait{s}: ".format(**words) + f"max_running is {job.max_running}, and {in_use}"
        return Told(Code.MAX_RUNNING, text, Remedy(YOU, "a higher max_running helps"))
    text = "{tasks} wait{s} before {it} {is} tried again".format(**words)
    if job.kind == "stateful":
        text += ", or for the one before to be available"
    if failure is None or not failure.waits:
        return Told(Code.BACKOFF, text, again(job.backoff))
    how = words_of(failure)
    how += f", its failure {failure.attempts} in a row" * (failure.attempts > 1)
    then = f"it is tried again at {at(failure.due_ms)}" if failure.due_ms else again(1).change
    if job.kind == "batch" or not failure.lasts:
        return Told(Code.BACKOFF, f"{text}; {how}", Remedy(WAIT, then if job.backoff == 1 else again(2).change))
    help_ = CANNOT_START.change if failure.cannot_start else REMEDIES[Code.MAX_FAILURES].change
    return Told(Code.CRASH_LOOP, f"{how}; {then}", Remedy(YOU, help_))


def _of_held(job: JobRow) -> Told:
    if job.backoff:
        text = "the job is held: {tasks} wait{s} until it is released".format(**counted(job.backoff))
    else:
        text = "the job is held; tasks that end wait until it is released"
    them = "it" if job.backoff == 1 else "them"
    return Told(Code.HELD, text, Remedy(YOU, f"`paceline job release {job.job_id}` lets {them} go on"), job.held_ms)
