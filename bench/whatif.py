"""The cost of one side of a what-if beside simulating the same stretch, its memory, and its likeness to history.

Recorded by the simulator: a day of KTH SP2 whose users are in four pools and may be preempted, and a stretch of a
million task events. Recorded of real cells by `bench/_record_cells.py`: one that is half full, and one that is full.
"""

import csv
import gzip
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from os import wait4
from pathlib import Path
from typing import Any, NamedTuple

from bench import Options, Result, sized
from paceline.history.history_file import read
from paceline.moments.log_cut import write_time
from paceline.simulate.scenario.scenario import DAY_MS, Scenario
from paceline.simulate.session import Observers, RunOptions, open_cell
from paceline.simulate.world.cell import START_MS
from paceline.simulate.world.expectation_watch import Watch
from paceline.simulate.world.run import Run
from paceline.simulate.world.scripted_actions import actions

HERE = Path(__file__).parent
KTH = HERE / "traces" / "kth_sp2_jobs.csv.gz"
RECORDINGS = HERE / "recordings"
DAY_S = 86_400
STRETCH_S = sized(DAY_S, 7200)
KTH_DAY = 141
"""One that is full, and on which preemption has work."""
LEAD_DAYS = sized(4, 0)
"""The days before it that are simulated too, so that the cell is as full as it was."""
POOLS, PROCESSORS = 4, 100
HOSTS, JOBS, TASKS, JOB_S = sized(400, 20), sized(85, 4), sized(4000, 50), 60
"""Tasks of a minute or two on hosts of 16 cores: three events each."""
JITTER_MS = 50
"""That of the command."""
OVER_SIMULATE, MEMORY_MIB, SAME, HALF, FULL = 1.3, 1536, 100, 90, 80


class Recording(NamedTuple):
    """A simulated cell that was recorded."""

    folder: Path
    from_ms: int
    to_ms: int
    cpu_s: float
    """The CPU of simulating from one time to the other."""


def run(log: str, options: Options) -> Result:
    """On data folders and exports, whichever log is asked for."""
    figures: dict[str, float] = {}
    references: dict[str, float] = {}
    for name, scenario, from_s, to_s in (
        ("kth_day", kth(), LEAD_DAYS * DAY_S, LEAD_DAYS * DAY_S + STRETCH_S),
        ("million", array_jobs(JOBS), 0, None),
    ):
        recording = record(scenario, options.folder / name, from_s, to_s)
        side = one_side(recording.folder, recording.from_ms, recording.to_ms)
        if name == "kth_day":
            jittered = one_side(recording.folder, recording.from_ms, recording.to_ms, JITTER_MS)
            references["kth_day_with_jitter_over_simulate"] = jittered["side_cpu_s"] / recording.cpu_s
        figures[f"{name}_what_if_over_simulate"] = side["side_cpu_s"] / recording.cpu_s
        figures[f"{name}_reproduced_percent"] = side["alike_percent"]
        references |= {
            f"{name}_simulate_cpu_s": recording.cpu_s,
            f"{name}_read_cpu_s": side["read_cpu_s"],
            f"{name}_orders": side["orders"],
            f"{name}_preempted": side["preempted"],
        }
        if name == "million":
            figures["million_memory_mib"] = memory_mib(recording)
    for name in ("half", "full"):
        path = RECORDINGS / f"{name}.avro"
        head = next(read(path)).fields
        side = one_side(path, head["from_ms"], head["to_ms"])
        figures[f"{name}_cell_reproduced_percent"] = side["within_60_s_percent"]
        references |= {
            f"{name}_cell_{figure}": side[figure]
            for figure in (
                *("within_1_s_percent", "within_10_s_percent", "same_host_percent"),
                *("orders", "preempted", "preempted_again"),
            )
        }
    targets = {
        "kth_day_what_if_over_simulate": OVER_SIMULATE,
        "million_what_if_over_simulate": OVER_SIMULATE,
        "million_memory_mib": MEMORY_MIB,
        "kth_day_reproduced_percent": SAME,
        "million_reproduced_percent": SAME,
        "half_cell_reproduced_percent": HALF,
        "full_cell_reproduced_percent": FULL,
    }
    return Result(figures, references, targets)


def record(scenario: Scenario, folder: Path, from_s: int, to_s: int | None) -> Recording:
    """Simulates a scenario to its end, as traces are: nobody watches for silent hosts each second."""
    cell = open_cell(folder, watches=False)
    observers = Observers(cell, RunOptions(data=folder), for_expectations=False)
    end_ms = scenario.end or scenario.last_ms() + DAY_MS
    is_at_rest = observers.log_summary.at_rest if scenario.end is None else None
    simulated = Run(
        cell, observers.log_summary, actions(scenario, cell), Watch([]), end_ms, is_at_rest, (observers.series,)
    )
    marks: dict[int, float] = {}
    ends = (from_s, to_s) if to_s is not None else (from_s,)

    def note(run: Run) -> None:
        for at_s in ends:
            if run.now_ms >= at_s * 1000:
                marks.setdefault(at_s, time.process_time())

    simulated.run_to_end(note)
    done = time.process_time()
    last_ms, until = (START_MS + to_s * 1000, marks[to_s]) if to_s is not None else (cell.clock.ms, done)
    cell.close()
    cell.log.close()
    return Recording(folder, START_MS + from_s * 1000, last_ms, until - marks[from_s])


def one_side(history: Path, from_ms: int, to_ms: int, jitter_ms: int = 0) -> dict[str, float]:
    """The output of `bench/_whatif_side.py`."""
    words = [sys.executable, "-m", "bench._whatif_side", str(history), str(from_ms), str(to_ms), str(jitter_ms)]
    side: dict[str, float] = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    return side


def memory_mib(recording: Recording) -> float:
    """The most that `paceline what-if` had at once, with one pair of runs that report at whole seconds, as is advised
    for so many.
    """
    words = [sys.executable, "-m", "paceline", "what-if", "--data", str(recording.folder), "--set", "/p:share=2"]
    words += [
        "--from",
        write_time(recording.from_ms),
        "--to",
        write_time(recording.to_ms),
        "--runs",
        "1",
        "--resolution",
        "1s",
    ]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = wait4(process.pid, 0)
    process.returncode = status
    if status:
        raise SystemExit(f"paceline what-if ended with {status}")
    return usage.ru_maxrss / 1024


def kth() -> Scenario:
    """Some days of the trace: jobs are gangs of tasks of one core, users are in four pools by their numbers."""
    return Scenario.model_validate(
        {
            "end": f"{LEAD_DAYS * DAY_S + STRETCH_S}s",
            "hosts": [{"name": "p", "count": PROCESSORS, "resources": {"cpu": 1}}],
            "pools": [{"path": f"/{number}"} for number in range(POOLS)],
            "jobs": list(_kth_jobs()),
        }
    )


def _kth_jobs() -> Iterator[dict[str, Any]]:
    first = (KTH_DAY - LEAD_DAYS) * DAY_S
    with gzip.open(KTH, "rt") as lines:
        for row in csv.DictReader(lines):
            at_s = int(row["submit_s"]) - first
            if 0 <= at_s < LEAD_DAYS * DAY_S + STRETCH_S:
                size = int(row["procs"])
                yield {
                    "job_id": f"j{row['job_id']}",
                    "pool": f"/{int(row['user_id']) % POOLS}",
                    "owner": f"u{row['user_id']}",
                    "at": f"{at_s}s",
                    "instances": size,
                    "resources": {"cpu": 1},
                    "preemptible": True,
                    "max_runtime": f"{max(1, int(row['req_s']))}s",
                    "sim": {"duration": f"{max(1, int(row['run_s']))}s"},
                    **({"gang": {"min": size}} if size > 1 else {}),
                }


def array_jobs(count: int) -> Scenario:
    """Array jobs, one after another in two pools."""
    jobs = [
        {
            "job_id": f"j{number}",
            "pool": ("/p", "/q")[number % 2],
            "at": f"{1 + number * JOB_S // 4}s",
            "instances": TASKS,
            "resources": {"cpu": 1},
            "sim": {"duration": f"{JOB_S + number % 7 * 10}s"},
        }
        for number in range(count)
    ]
    hosts = [{"name": "h", "count": HOSTS, "resources": {"cpu": 16}}]
    return Scenario.model_validate({"hosts": hosts, "pools": [{"path": "/p"}, {"path": "/q"}], "jobs": jobs})
