"""Waiting for updates of jobs: a line on stderr for each change, until all have ended."""

import time
from typing import TYPE_CHECKING

from paceline.client.errors import PacelineError, TimedOut
from paceline.client.patience import Patience
from paceline.client.pauses import FIRST_ASK_S, SLOWEST_ASK_S
from paceline.output import note

if TYPE_CHECKING:
    from paceline.client.client import Client
    from paceline.client.models import Update


def wait_for_updates(client: "Client", numbers: dict[str, int], timeout: float | None) -> int:
    """Waits until updates have ended, given by job; the exit code: 1 where one did not succeed. Raises `TimedOut`."""
    deadline = None if timeout is None else time.monotonic() + timeout
    lines: dict[str, str] = {}
    updates: dict[str, Update] = {}
    pause, patience = FIRST_ASK_S, Patience(client.patience, "the update goes on")
    try:
        while open_ := [job_id for job_id in numbers if job_id not in updates or not updates[job_id]["ended_at"]]:
            try:
                updates |= {job_id: client.update(job_id, numbers[job_id]) for job_id in open_}
                patience.answered()
            except PacelineError as error:
                patience.missed(error)
            for job_id, update in updates.items():
                if lines.get(job_id) != (line := f"{job_id}  {progress_of(update)}"):
                    lines[job_id] = line
                    note(line)
            if deadline is not None and time.monotonic() >= deadline:
                raise TimedOut(f"{', '.join(open_)}: not updated after {timeout:g} s; the update goes on.")
            time.sleep(pause if deadline is None else min(pause, max(0.0, deadline - time.monotonic())))
            pause = min(SLOWEST_ASK_S, pause * 1.3)
    except KeyboardInterrupt:
        note(f"interrupted; the update goes on. Follow it with: paceline job updates {next(iter(numbers))}")
        return 130
    return 0 if all(update["state"] == "SUCCEEDED" for update in updates.values()) else 1


def progress_of(update: "Update") -> str:
    """`update 2  ROLLING  3/10 done · 1 in flight`, and why it stands or has ended."""
    steps = update["steps"]
    state = "PAUSED" if update["paused"] else update["state"]
    parts = [f"{steps['done']}/{sum(steps.values())} done"]
    parts += [f"{steps[step]} {step.replace('_', ' ')}" for step in ("in_flight", "failed") if steps[step]]
    text = f"update {update['number']}  {state}  {' · '.join(parts)}"
    if update["state"] == "CANARY" and not update["paused"]:
        text += "; waits for `paceline job promote`"
    if (image := update.get("image")) and image["waits"]:
        text += f"; waits for its image: {image['message']}"
    return f"{text}: {update['code']} {update['message']}".rstrip() if update["code"] else text
