"""Why something was decided, in a log of a million decisions: one job of 10,000 tasks, each of which fails and is run
again, so that every search goes through the records of a job that has as many of each kind as a log may hold.
"""

import time
from pathlib import Path
from random import Random
from statistics import median

from bench import sized
from events.codes import Outcome, RunReport
from events.columns import pack_ints
from events.log.embedded import EmbeddedLog
from events.log.port import Log
from events.records.base import Event
from events.records.lifecycle import RunsAvailable
from events.records.tasks import RunsReported
from projections.queries import entities, why
from projections.queries.log_places import Place
from projections.views.projector import rebuild
from projections.views.reader import AttachedViews
from tests.helpers.written_cell import Cell, admitted, ended, on_host, ordered, placed, queued, runs

DECISIONS = sized(1_000_000, 6_000)
TASKS = sized(10_000, 500)
TOGETHER = 100
"""Tasks whose decisions stand in the same rounds."""
OF_A_RUN = 6
"""Decisions: queued, admitted, placed, ordered, available, ended."""
JOB = "large"
ASKED = sized(50, 3)


def run(folder: Path, decisions: int = DECISIONS) -> tuple[dict[str, float], dict[str, float]]:
    """Figures and references of a log that is written to a folder."""
    write(folder, decisions)
    log = EmbeddedLog(folder / "log")
    begin = time.perf_counter()
    engine = rebuild(log, folder)
    folding = time.perf_counter() - begin
    seconds, records = ask(log, folder)
    references = {
        "why_median_ms": median(seconds) * 1000,
        "why_records": float(max(records)),
        "folding_s": folding,
        "views_mib": (folder / "views.sqlite").stat().st_size / (1 << 20),
    }
    engine.dispose()
    log.close()
    return {"why_ms": max(seconds) * 1000}, references


def write(folder: Path, decisions: int) -> None:
    """Writes the log."""
    cell = Cell(log=(log := EmbeddedLog(folder / "log")))
    cell.host()
    cell.accept(JOB, instances=TASKS, retries={"max": 1000})
    rounds = max(1, decisions // (OF_A_RUN * TASKS))
    for number in range(1, rounds + 1):
        for first in range(0, TASKS, TOGETHER):
            tasks = range(first, first + TOGETHER)
            cell.decide("entitlement", *(admitted(JOB, (task,), number) for task in tasks))
            cell.decide("placement", *(placed(JOB, (task,), number, "h1") for task in tasks))
            cell.decide("lifecycle", *(ordered(JOB, (task,), number, "h1") for task in tasks))
            cell.fact(_reported(tasks, number, RunReport.STARTED))
            cell.decide("lifecycle", *(RunsAvailable(**runs(JOB, (task,), number)) for task in tasks))
            cell.fact(_reported(tasks, number, RunReport.EXITED))
            over = (ended(JOB, (task,), Outcome.FAILED, number, exit_code=1, kept=1) for task in tasks)
            again = (queued(JOB, (task,), number + 1) for task in tasks)
            cell.decide("lifecycle", *over, *again)
    log.close()


def ask(log: Log, folder: Path) -> tuple[list[float], list[int]]:
    """Measures how long answers take, each read from a new connection: of the job, and of decisions drawn by seed."""
    views, random = AttachedViews(folder / "views.sqlite"), Random(1)
    ends = {machine: log.bounds(f"paceline.{machine}")[1] for machine in ("lifecycle", "entitlement", "placement")}
    seconds, sizes = [], []
    for number in range(ASKED):
        machine = random.choice(list(ends))
        place = Place(None, f"paceline.{machine}", machine, random.randrange(ends[machine] // 2, ends[machine]), None)
        begin = time.perf_counter()
        with views.read() as connection:
            job = entities.job_row(connection, JOB)
            assert job is not None
            starts = why.starts_at(connection, log, place) if number else why.starts_of(connection, job)
            sizes.append(len(why.chain(connection, log, starts).records))
        seconds.append(time.perf_counter() - begin)
    return seconds, sizes


def _reported(tasks: range, number: int, state: RunReport) -> Event:
    state_column, code = pack_ints([state] * len(tasks)), pack_ints([state == RunReport.EXITED] * len(tasks))
    where = on_host("h1", len(tasks))
    return RunsReported(gateway="g", **runs(JOB, tuple(tasks), number), **where, state=state_column, exit_code=code)
