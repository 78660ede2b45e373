"""The log of a large cell and the projector that fills its views, in a process of its own.

    python -m bench._ui_feed FOLDER JOBS TASKS HOSTS POOLS

Writes the log, folds it, prints one JSON object (how long that took); from then on 100 jobs a second come and end, each
tenth of a second in rounds of their own, until it is told to end.
"""

import json
import sys
import time
from pathlib import Path

from bench._large_cell import Job, LargeCell, Size
from events.log.embedded import wall_clock_ms
from projections.views.projector import Projector

RATE = 100
TICK_S = 0.1
RUNS_TICKS = 20
"""A job ends so many ticks after it was submitted."""


def main(folder: Path, size: Size) -> None:
    """Runs until it is ended."""
    begin = time.perf_counter()
    cell = LargeCell(folder, size)
    cell.write()
    written = time.perf_counter()
    projector = Projector(cell.log, folder)
    fold(projector)
    print(json.dumps({"write_s": written - begin, "fold_s": time.perf_counter() - written}), flush=True)
    number, running, due = size.jobs, list[list[Job]](), time.perf_counter()
    while True:
        due += TICK_S
        time.sleep(max(0.0, due - time.perf_counter()))
        cell.ms = wall_clock_ms()
        batch = [Job(at, 1, cell.paths[at % size.pools]) for at in range(number, number + int(RATE * TICK_S))]
        number += len(batch)
        cell.start(batch)
        running.append([job for job in batch if job.runs])
        if len(running) > RUNS_TICKS:
            cell.end(running.pop(0))
        fold(projector)


def fold(projector: Projector) -> None:
    """Until the views have all that is in the log."""
    while projector.step():
        pass


if __name__ == "__main__":
    main(Path(sys.argv[1]), Size(*map(int, sys.argv[2:])))
