"""Waiting for jobs: asks until each has reached what is waited for, and shows how they get on."""

import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from paceline.client.errors import NotFound, PacelineError, TimedOut, Unavailable, Unreachable
from paceline.client.models import ENDED, KILLED, RUNNING, SUCCEEDED, Job
from paceline.client.patience import Patience
from paceline.client.pauses import FIRST_ASK_S, SLOWEST_ASK_S
from paceline.output import COLOURS, console, live, note, plain, show, timed

if TYPE_CHECKING:
    from rich.table import Table

    from paceline.client.client import Client

SILENCE_NOTE_S = 3.0
"""A cell that is away for less is not worth a word."""
BAR = 30
NAMED_MAX = 5
"""The most jobs that are named in the command that follows them."""
STOPPED = "stopped"
"""The goal of a command that waits for a job that it has stopped."""
IN_ORDER = "STARTS_IN_ORDER"
"""The code of a stateful job whose tasks wait for the one before: none of them has failed."""
CODE_FAILED, CODE_STOPPED, CODE_RUN_LIMIT = 1, 7, 8
CODES = (CODE_FAILED, CODE_RUN_LIMIT, CODE_STOPPED)
"""Exit codes in the order in which they count: of several jobs the first that one has."""


class Progress(Protocol):
    """Shows jobs while they are waited for."""

    def show(self, jobs: Mapping[str, Job]) -> None:
        """Shows how they stand now."""
        ...

    def close(self) -> None:
        """Leaves the last state on the screen."""
        ...


class Lines:
    """One line on stderr for each change."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def show(self, jobs: Mapping[str, Job]) -> None:
        """Implements `Progress`."""
        for job_id, job in jobs.items():
            line = f"{job_id}  {job['state']}  {counts(job)}"
            if self._last.get(job_id) != line:
                self._last[job_id] = line
                note(line)

    def close(self) -> None:
        """Nothing to leave."""


class Bars:
    """A bar for each job on stderr, drawn over."""

    def __init__(self) -> None:
        from rich.live import Live

        self._live = Live(console=console(sys.stderr), auto_refresh=False)
        self._live.start()

    def show(self, jobs: Mapping[str, Job]) -> None:
        """Implements `Progress`."""
        self._live.update(_bars(jobs.values()), refresh=True)

    def close(self) -> None:
        """Implements `Progress`."""
        self._live.stop()


def progress() -> Progress:
    """Bars on a terminal, lines elsewhere."""
    return Bars() if live(sys.stderr) else Lines()


def reached(job: Job, goal: str) -> bool | None:
    """Whether a job has reached a goal; False: it never will; None: not yet. A job that was stopped, or
    ran for as long as it may, hasn't ended as it should.
    """
    state = job["state"]
    if goal == "healthy" and _healthy(job):
        return True
    if goal == "running" and state in (RUNNING, SUCCEEDED):
        return True
    if goal in ("healthy", "running") and _creation_failed(job):
        return False
    if state not in ENDED:
        return None
    return state == SUCCEEDED or (goal == STOPPED and state == KILLED)


def exit_code_of(job: Job) -> int:
    """The exit code for a job that hasn't reached its goal and never will."""
    if job["state"] != KILLED:
        return CODE_FAILED
    return CODE_RUN_LIMIT if job.get("killed_by", {}).get("RUN_LIMIT") else CODE_STOPPED


def _creation_failed(job: Job) -> bool:
    """Whether the update that was to create a job has ended without it: its instances aren't started any more."""
    update = job.get("update")
    return bool(update and update["kind"] == "create" and update["ended_at"] and update["state"] != SUCCEEDED)


def _healthy(job: Job) -> bool:
    """Whether all instances that are wanted run, and no update is under way."""
    tasks, update = job.get("tasks") or {}, job.get("update")
    waiting = sum(tasks.get(state, 0) for state in ("queued", "ordered", "stopping", "backoff"))
    return bool(tasks.get("running")) and not waiting and (update is None or update["ended_at"] is not None)


def wait_for(
    client: "Client", job_ids: Iterable[str], goal: str, timeout: float | None, display: Progress | None = None
) -> dict[str, Job]:
    """Waits until no job can get nearer to the goal, and returns them. Raises `TimedOut`.

    A cell that goes away while jobs are waited for is waited for too, for a minute; after that, or if it was never
    there, it is `Unreachable`.
    """
    jobs = {job_id: client.job(job_id) for job_id in job_ids}
    deadline = None if timeout is None else time.monotonic() + timeout
    display = display or progress()
    pause, patience, noted = FIRST_ASK_S, Patience(client.patience), False
    try:
        while True:
            display.show(jobs)
            waiting = [job_id for job_id, job in jobs.items() if reached(job, goal) is None]
            if not waiting:
                return jobs
            remaining = pause if deadline is None else deadline - time.monotonic()
            if remaining <= 0:
                late = f"{', '.join(waiting)}: not {goal} after {timeout:g} s; the wait ended, the job goes on."
                raise TimedOut("\n".join((late, *_why(client, waiting))))
            time.sleep(min(pause, remaining))
            pause = min(SLOWEST_ASK_S, pause * 1.3)
            try:
                jobs |= {job_id: client.job(job_id) for job_id in waiting}
                patience.answered()
                noted = False
            except PacelineError as error:
                patience.missed(error)
                if not noted and patience.silent_s > SILENCE_NOTE_S:
                    note("the cell does not answer; waiting for it")
                    noted = True
    finally:
        display.close()


def _why(client: "Client", job_ids: Iterable[str]) -> Iterator[str]:
    """Why each job is where it is, as far as that is known."""
    for job_id in job_ids:
        with suppress(Unreachable, Unavailable, NotFound):
            if (headline := client.explanation(job_id)["headline"]) is not None:
                yield f"  {job_id}: {headline['code']} {timed(headline['message'])}"


def how_to_follow(job_ids: Sequence[str], pools: Collection[str] = ()) -> str:
    """The command that follows jobs, which names them where they are few; `pools`: theirs."""
    if len(job_ids) <= NAMED_MAX:
        return f"paceline job wait {' '.join(job_ids)}"
    return f"paceline job list{f' --pool {next(iter(pools))}' if len(pools) == 1 else ''}"


def wait_and_report(client: "Client", ids: Sequence[str], goal: str, timeout: float | None, form: str = "table") -> int:
    """Waits for jobs and says which have failed; returns the exit code. Raises `TimedOut`."""
    try:
        jobs = wait_for(client, ids, goal, timeout)
    except KeyboardInterrupt:
        goes_on, again = ("jobs go", "Follow them") if len(ids) > NAMED_MAX else ("job goes", "Wait again")
        note(f"interrupted; the {goes_on} on. {again} with: {how_to_follow(ids)}")
        return 130
    codes = set()
    for each in jobs.values():
        reason = each.get("reason")
        if not reached(each, goal):
            failed = each["update"] if _creation_failed(each) else reason
            text = f": {timed(failed['message'])}" if failed else ""
            note(f"job {each['job_id']} {each['state']}{text}")
            note(f"look with: paceline job get {each['job_id']}")
            codes.add(exit_code_of(each))
    show(form, {"jobs": list(jobs.values())}, jobs)
    return next((code for code in CODES if code in codes), 0)


def counts(job: Job) -> str:
    """`3/20 ended · 12 running · 5 queued`."""
    tasks = job.get("tasks") or {}
    finished = sum(tasks.get(state, 0) for state in ("succeeded", "failed", "killed"))
    parts = [f"{finished}/{sum(tasks.values())} ended"]
    reason = job.get("reason")
    names = {"backoff": "waiting their turn"} if reason and reason["code"] == IN_ORDER else {}
    parts += [f"{count} {names.get(state, state)}" for state, count in tasks.items() if count and state != "succeeded"]
    return " · ".join(parts)


def _bars(jobs: Iterable[Job]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    out = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for job in jobs:
        tasks = job.get("tasks") or {}
        total = max(1, sum(tasks.values()))
        bar = Text()
        for state, colour in (("succeeded", "green"), ("failed", "red"), ("killed", "magenta"), ("running", "blue")):
            bar.append("━" * (BAR * tasks.get(state, 0) // total), style=colour)
        bar.append("━" * (BAR - len(bar)), style="bright_black")
        state = job["state"]
        out.add_row(Text(plain(job["job_id"])), Text(state, style=COLOURS.get(state, "")), bar, counts(job))
    return out
