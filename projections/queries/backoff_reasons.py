"""Why tasks of a job wait before they are queued, in words."""

from typing import NamedTuple

from events.codes import Code
from projections.queries.sentences import YOU, Remedy, again, counted
from projections.views.rows import JobRow


class Told(NamedTuple):
    """A reason, and the time since when it holds; 0: it isn't known."""

    code: Code
    text: str
    remedy: Remedy
    since_ms: int = 0


def of_backoff(job: JobRow, failure: str) -> Told | None:
    """Why tasks wait in lifecycle; None: none does. `failure`: how one of those that wait failed; empty: none did."""
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
    return Told(Code.BACKOFF, text + failure, again(job.backoff))


def _of_held(job: JobRow) -> Told:
    if job.backoff:
        text = "the job is held: {tasks} wait{s} until it is released".format(**counted(job.backoff))
    else:
        text = "the job is held; tasks that end wait until it is released"
    them = "it" if job.backoff == 1 else "them"
    return Told(Code.HELD, text, Remedy(YOU, f"`paceline job release {job.job_id}` lets {them} go on"), job.held_ms)
