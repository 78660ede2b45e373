"""Why tasks of a job wait before they are queued, and why it has failed, in words."""

from events.codes import IN_USE_TASKS, Code
from events.reasons import WAIT, YOU, kind_of
from projections.queries.end_reasons import resubmit
from projections.queries.last_failure import Failure, words_of
from projections.queries.reason import Reason, Remedy, count_tasks, counted, of_code
from projections.record_json import at
from projections.views.named_tasks import COUNTS
from projections.views.rows import JobRow

CANNOT_START = Remedy(YOU, "correct the command, or install the program on the hosts")


def code_of(job: JobRow, failure: Failure | None) -> Code:
    """Why tasks of a job wait in lifecycle, of which some do. `failure`: how the task that failed last did."""
    if job.held_ms:
        return Code.HELD
    if 0 < job.max_running <= in_use(job):
        return Code.MAX_RUNNING
    fails = failure is not None and failure.waits
    if job.kind == "stateful" and not fails and job.backoff < job.tasks:  # where all wait, the first waits for its time
        return Code.STARTS_IN_ORDER
    lasts = fails and failure is not None and failure.lasts
    return Code.CRASH_LOOP if lasts and job.kind != "batch" else Code.BACKOFF


def in_use(job: JobRow) -> int:
    """Counts the tasks that count against `max_running`, without a gang that waits: lifecycle alone knows of that."""
    return sum(getattr(job, COUNTS[state]) for state in IN_USE_TASKS)


def of_backoff(job: JobRow, failure: Failure | None) -> Reason | None:
    """Why tasks wait in lifecycle; None: none does. `failure`: how the task that failed last did."""
    if not job.backoff and not job.held_ms:
        return None
    code = code_of(job, failure)
    if code == Code.HELD:
        reason = _of_held(job)
    elif code == Code.MAX_RUNNING:
        reason = _of_room(job)
    elif code == Code.STARTS_IN_ORDER:
        reason = of_code(code, "lifecycle", counted(job.backoff))
    else:
        reason = _of_failure(job, failure, code)
    return reason._replace(tasks=job.backoff, numbers={"tasks": job.backoff})


def _of_room(job: JobRow) -> Reason:
    others = in_use(job)
    says = f"{others} run{'s' * (others == 1)}"
    if job.queued:
        says += f" or {counted(others)['is']} queued"
    words = {**counted(job.backoff), "max_running": job.max_running, "in_use": says}
    return of_code(Code.MAX_RUNNING, "lifecycle", words)


def _of_failure(job: JobRow, failure: Failure | None, code: Code) -> Reason:
    reason = of_code(Code.BACKOFF, "lifecycle", counted(job.backoff))
    text = f"{reason.text}, in order" if job.kind == "stateful" and job.backoff > 1 else reason.text
    if failure is None or not failure.waits:
        return reason._replace(text=text, remedy=again(job.backoff))
    how = words_of(failure)
    how += f", its failure {failure.attempts} in a row" * (failure.attempts > 1)
    if job.kind == "stateful" and (behind := job.backoff - 1):
        text = f"1 task waits before it is tried again, {count_tasks(behind)} for the one before to be up"
    then = f"it is tried again at {at(failure.due_ms)}" if failure.due_ms else again(1).change
    if code != Code.CRASH_LOOP:
        change = then if job.backoff == 1 else again(2).change
        return reason._replace(text=f"{text}; {how}", remedy=Remedy(WAIT, change))
    remedy = CANNOT_START if failure.cannot_start else Remedy(YOU, kind_of(Code.CRASH_LOOP).remedy)
    return Reason(code, f"{how}; {then}", "lifecycle", remedy=remedy)


def _of_held(job: JobRow) -> Reason:
    reason = of_code(Code.HELD, "lifecycle", {**counted(job.backoff), "job_id": job.job_id}, job.held_ms)
    return reason if job.backoff else reason._replace(text="the job is held; tasks that end wait until it is released")


def of_failed(job: JobRow, failure: Failure | None) -> Reason:
    """Why a job that is over has failed, and what helps. `failure`: how the task that failed last did."""
    text = f"{count_tasks(job.failed)} of {job.tasks} failed"
    text += f"; {words_of(failure)}" if failure is not None else ""
    again = f"`paceline job start {job.job_id} --failed` runs what failed again"
    change = f"look at the output of the task; {again}; to change the job {resubmit(job)}"
    if failure is not None and failure.cannot_start:
        change = (
            f"correct the command or the image in the file, then {resubmit(job)}; or put there what is missing: {again}"
        )
    return Reason(Code.RUN_FAILED, text, "lifecycle", job.ended_ms, Remedy(YOU, change))


def again(tasks: int) -> Remedy:
    """The remedy of tasks that wait before they are tried again."""
    return Remedy(WAIT, "it is tried again by itself" if tasks == 1 else "they are tried again by themselves")
