"""Requests of the client that follow the output of tasks, run after run."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress

from paceline.client.errors import NotFound, PacelineError
from paceline.client.jobs import JobRequests
from paceline.client.models import ENDED, Task
from paceline.client.output import NO_OUTPUT, STREAMS, OutputPiece, OutputRequests
from paceline.client.patience import Patience
from paceline.client.pauses import FIRST_ASK_S, SLOWEST_ASK_S

TASK_ENDED = frozenset(("SUCCEEDED", "FAILED", "KILLED"))
"""States of a task after which it has no more runs."""


class FollowRequests(JobRequests, OutputRequests):
    """Methods about the output of tasks, see `Client`."""

    def follow(
        self, job_id: str, instance: int = 0, streams: Sequence[str] = STREAMS, tail: int | None = None
    ) -> Iterator[OutputPiece]:
        """The output of a task from its present run on, run after run, until the task has ended for good; it waits for
        its first run. `tail`: begin with so many of the last lines of each stream.

            for piece in client.follow("web"):
                print(piece.data.decode(), end="")

        It never ends as if all were well before the task has: a cell that is away is waited for, by default for a
        minute; then it raises `Unreachable`. Raises `NotFound` for what isn't there.
        """
        patience = Patience(self.patience, codes=(NO_OUTPUT,))
        last, pause = 0, FIRST_ASK_S
        while True:
            try:
                task = self._task(job_id, instance)
                patience.answered()
            except PacelineError as error:
                if not last:
                    raise
                patience.missed(error)
                task = None
            begun = task["run"] - (task["state"] == "QUEUED") if task else 0
            if task and begun > last:
                number = min(begun, last + 1) if last else begun
                with suppress(NotFound) if number < begun or task["state"] == "ORDERED" else nullcontext():
                    offsets = self._ends(job_id, instance, number, streams, tail) if tail is not None else {}
                    yield from self.read_output(job_id, instance, number, streams, True, offsets)
                    pause, tail, last = FIRST_ASK_S, None, number
                    continue
                last = number if number < begun else last  # that one came to no host
            elif task and task["state"] in TASK_ENDED:
                return
            time.sleep(pause)
            pause = min(SLOWEST_ASK_S, pause * 1.3)

    def _task(self, job_id: str, instance: int) -> Task | None:
        """A task; None where its job isn't accepted yet. Raises `NotFound`."""
        task = next(self.tasks(job_id, instances=str(instance)), None)
        if task is None:
            job = self.job(job_id)
            if job["state"] in ENDED or instance >= job["instances"] > 0:
                detail = f"there is no task {instance} of job {job_id}"
                raise NotFound(404, {"code": "NOT_FOUND", "detail": detail})
        return task

    def _ends(self, job_id: str, instance: int, run: int, streams: Sequence[str], tail: int) -> Mapping[str, int]:
        """Where the last lines of each stream begin."""
        return {each: self.output_end(job_id, instance, run, each, tail) for each in streams}
