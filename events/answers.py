"""The sentences with which a request is refused, the same wherever that is found."""

NO_SLACK = "the job is revocable, and this cell lends no slack; an operator says `paceline cell set slack=on`"
"""The answer to a revocable job where no slack is lent, wherever that is found."""


def no_pool(path: str) -> str:
    """What a pool that isn't there is answered with, wherever that is found."""
    return f"there is no pool {path[:200]}; define it first, or choose another"


def no_job(job_id: str) -> str:
    """What a job that isn't there is answered with, wherever that is found."""
    return (
        f"there is no job {job_id[:140]} (it may be deleted); `paceline job list` lists jobs, the log keeps the "
        "history of all: `paceline log tail --from-start`"
    )


def gone_job(job_id: str) -> str:
    """The same of requests, which no log has."""
    return f"there is no job {job_id[:140]}. It may have been deleted; see `paceline log tail --from-start`"


def other_specification(job_id: str, over: bool) -> str:
    """What the submission of a job is answered with that is there with another specification, and is over or not."""
    way = f"`paceline job delete {job_id}` forgets it" if over else "`paceline job update FILE` changes it"
    return f"job {job_id} has another specification; {way}, or choose another id"


def not_a_leaf(path: str) -> str:
    """What a job for a pool with pools below it is answered with, wherever that is found."""
    return f"pool {path} has pools below it; jobs go to one of those"


def too_many_jobs(path: str, have: int, most: int) -> str:
    """The answer, wherever it is found, to a job for a pool that is full; empty: it isn't."""
    return f"pool {path} has its {most} open jobs; wait for one to end" if have >= most else ""


def too_many_tasks(whose: str, have: int, more: int, most: int) -> str:
    """The answer, wherever it is found, to a request for more tasks than may be open; empty: they may be, and none
    always may. `whose`: the pool or the cell that has the others.
    """
    if more <= 0 or have + more <= most:
        return ""
    return f"{whose} has {have} open tasks, {more} more would exceed its {most}"


def cant_change(field: str, kind: str) -> str:
    """The answer, wherever it is found, to an update of a field that stays as it is."""
    return f"{field} of a {kind} job can't be changed; submit another job for it"
