"""Results of a run: figures over its jobs, and the files of `--out`."""

import csv
from array import array
from collections import Counter
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from paceline.simulate.report.series import Sample, Totals
from paceline.simulate.world.cell import START_MS
from paceline.simulate.world.log_summary import NEVER, JobSummary

THRESHOLD_S = 10.0
"""Bounded slowdown: max(1, (wait + run) / max(run, 10 s)), as in the literature."""
SHOWN_MAX = 20
JOB_COLUMNS = (
    *("job_id", "pool", "state", "tasks", "cpu_milli", "gpu_milli", "gang", "submitted_s", "started_s", "ended_s"),
    *("wait_s", "run_s", "bounded_slowdown", "runs", "preempted", "lost"),
)


class Jobs:
    """The jobs of a run: figures over those that have ended, a row of a file for each, and the first few whole."""

    def __init__(self, folder: Path | None) -> None:
        self.first: list[JobSummary] = []
        self.states: Counter[str] = Counter()
        self.tasks = self.preempted = self.lost = 0
        self.pools: dict[str, int] = {}
        self.wait_s, self.slowdown, self.ended_s = array("d"), array("d"), array("d")
        self.cpu_milli, self.gpu_milli, self.pool = array("q"), array("q"), array("l")
        """The needs of all tasks of each job that ran, and its pool's number."""
        self._file = (folder / "jobs.csv").open("w", newline="", encoding="utf-8") if folder is not None else None
        self._rows = csv.writer(self._file, lineterminator="\n") if self._file is not None else None
        if self._rows is not None:
            self._rows.writerow(JOB_COLUMNS)

    def ended(self, job: JobSummary) -> None:
        """A job has ended, or the run has."""
        if len(self.first) < SHOWN_MAX + 1:
            self.first.append(job)
        self.states[job.state] += 1
        self.tasks += job.tasks
        self.preempted += job.preempted
        self.lost += job.lost
        wait, run = waited_s(job), ran_s(job)
        if job.ended_ms != NEVER and wait is not None and run is not None:
            self.wait_s.append(wait)
            self.slowdown.append(bounded_slowdown(wait, run))
            self.ended_s.append((job.ended_ms - START_MS) / 1000)
            self.cpu_milli.append(job.tasks * job.cpu_milli)
            self.gpu_milli.append(job.tasks * job.gpu_milli)
            self.pool.append(self.pools.setdefault(job.pool, len(self.pools)))
        if self._rows is not None:
            self._rows.writerow(_row(job))

    def close(self) -> None:
        """Ends the file."""
        if self._file is not None:
            self._file.close()

    def figures(self) -> dict[str, float]:
        """Over the jobs that ran to their end; names end in their units, slowdowns have none."""
        if not self.wait_s:
            return {}
        wait, slowdown = np.frombuffer(self.wait_s), np.frombuffer(self.slowdown)
        return {
            "mean_wait_s": float(wait.mean()),
            "median_wait_s": float(np.median(wait)),
            "p99_wait_s": float(np.quantile(wait, 0.99)),
            "max_wait_s": float(wait.max()),
            "mean_bounded_slowdown": float(slowdown.mean()),
            "p99_bounded_slowdown": float(np.quantile(slowdown, 0.99)),
            "makespan_s": float(np.frombuffer(self.ended_s).max()),
        }

    def by_pool(self) -> dict[str, dict[str, float]]:
        """Jobs that ran, mean wait and mean slowdown of each pool."""
        pool, wait, slowdown = np.array(self.pool), np.frombuffer(self.wait_s), np.frombuffer(self.slowdown)
        return {
            path: {
                "jobs": int((pool == number).sum()),
                "mean_wait_s": float(wait[pool == number].mean()),
                "mean_bounded_slowdown": float(slowdown[pool == number].mean()),
            }
            for path, number in sorted(self.pools.items())
        }


def waited_s(job: JobSummary) -> float | None:
    """Seconds between submission and the first task; None: it never began."""
    return None if job.started_ms == NEVER else (job.started_ms - job.submitted_ms) / 1000


def ran_s(job: JobSummary) -> float | None:
    """Seconds between its first task and its end."""
    return None if NEVER in (job.started_ms, job.ended_ms) else (job.ended_ms - job.started_ms) / 1000


def bounded_slowdown(wait_s: float, run_s: float) -> float:
    """The slowdown of a job, with run times below `THRESHOLD_S` counted as that."""
    return max(1.0, (wait_s + run_s) / max(run_s, THRESHOLD_S))


def _row(job: JobSummary) -> list[Any]:
    wait, run = waited_s(job), ran_s(job)
    times = [None if at == NEVER else (at - START_MS) / 1000 for at in (job.submitted_ms, job.started_ms, job.ended_ms)]
    slowdown = None if wait is None or run is None else round(bounded_slowdown(wait, run), 4)
    shape = [job.tasks, job.cpu_milli, job.gpu_milli, job.gang]
    return [job.job_id, job.pool, job.state, *shape, *times, wait, run, slowdown, job.runs, job.preempted, job.lost]


def write_series(samples: list[Sample], jobs: Jobs, folder: Path) -> None:
    """`series.csv`, a row for each sample with what ended since the row before, and `pools.csv`, one for each sample,
    pool and resource.
    """
    with (folder / "series.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        names = samples[-1].names if samples else ()  # only ever more of them
        amounts = [f"{name}_{what}" for name in names for what in ("used", "capacity")]
        since = ["ended_jobs", "mean_wait_s", "mean_bounded_slowdown", "preempted_runs"]
        rows.writerow(["time_s", "running_tasks", "waiting_tasks", "fragmentation", *since, *amounts])
        before = Totals(0, 0)
        for each in samples:
            pairs = [part.get(name, 0) for name in names for part in (each.used, each.capacity)]
            now = [each.at_ms / 1000, each.running, each.waiting, round(each.fragmentation, 4)]
            rows.writerow([*now, *_since(before, each.totals, jobs), *pairs])
            before = each.totals
    with (folder / "pools.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["time_s", "pool", "resource", "entitlement", "allocation", "demand"])
        for each in samples:
            for path, row in each.pools.items():
                for at, name in enumerate(each.names):
                    numbers = (row.entitlement[at], row.allocation[at], row.demand[at])
                    if any(numbers):
                        rows.writerow([each.at_ms / 1000, path, name, *numbers])


def _since(before: Totals, now: Totals, jobs: Jobs) -> list[Any]:
    ended = slice(before.jobs, now.jobs)
    wait, slowdown = jobs.wait_s[ended], jobs.slowdown[ended]
    means = [round(fmean(wait), 3), round(fmean(slowdown), 4)] if wait else [None, None]
    return [len(wait), *means, now.preempted - before.preempted]
