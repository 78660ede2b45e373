"""`python -m bench cell --hosts 50000 --log kafka`: a whole cell at size, each part a process of its own.

The hosts are simulated by the gateway; each gets 20 tasks that last longer than the bench. They are started in stages,
the next when the last runs, so that the figures tell how the cell does as it fills. Then it is held: each second 100
tasks end and 100 others are submitted, and no host may be taken for silent meanwhile. At last the newest rounds are
replayed and compared byte for byte.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import psutil
from sqlalchemy import Engine, text

from bench import Options, Result, sized
from bench._processes import cell, pids
from bench._shapes import Meter, append
from events.codec import decode
from events.log.kafka.kafka_log import KafkaLog
from events.records.hosts import HostSilent
from events.records.jobs import JobSubmitted
from events.records.parts import Simulated
from events.topics import HOSTS as HOSTS_TOPIC
from events.topics import MACHINES, rounds_of
from projections.views.tables import attach

TASKS_OF_A_HOST = 20
STAGES = sized(20, 2)
JOB_TASKS = 5_000
LASTS_MS = 30 * 24 * 3_600_000
SHORT_MS = sized(30_000, 2_000)
ENDS_PER_S = 100
HOLD_S = sized(600, 8)
VERIFIED_ROUNDS = 1_000
STAGE_S = 1_800.0
"""So long a stage may take."""
MEMORY_MIB = 24 * 1024
LOOK_S = 0.2


def run(options: Options) -> Result:
    """Raises `TimeoutError` where a stage doesn't come to run, `SystemExit` where the replay differs."""
    figures: dict[str, float] = {}
    live = options.hosts * TASKS_OF_A_HOST
    began = time.monotonic()
    with cell(options.folder, options.hosts) as (log, processes, broker, _):
        figures["at_size_hosts_up_s"] = time.monotonic() - began
        parts = pids(processes, broker)
        views = attach(options.folder / "data" / "cell-0" / "views.sqlite")
        assert views is not None
        stages = ramp(log, views, live)
        figures |= {
            "at_size_live_tasks": running(views),
            "at_size_ramp_s": sum(stages),
            "at_size_first_stage_s": stages[0],
            "at_size_last_stage_s": stages[-1],
            "at_size_ramp_tasks_per_s": live / sum(stages),
        }
        meter, start = Meter(parts), log.bounds(HOSTS_TOPIC.name)[1]
        figures |= hold(log, views, live)
        figures["at_size_silent_hosts"] = sum(1 for event in facts(log, start) if isinstance(event, HostSilent))
        figures |= {f"at_size_{name}_cpu_percent": 100 * spent / HOLD_S for name, spent in meter.spent_s().items()}
        memory = {name: psutil.Process(pid).memory_full_info().pss / 2**20 for name, pid in parts.items()}
        figures |= {f"at_size_{name}_memory_mib": each for name, each in memory.items()}
        figures["at_size_memory_mib"] = sum(memory.values())
        views.dispose()
        processes.stop_all()
        figures["at_size_verified_rounds"] = verified(broker.address, log)
    targets = {"at_size_silent_hosts": 0.0, "at_size_memory_mib": float(MEMORY_MIB)}
    return Result(figures, {"at_size_wanted_live_tasks": live, "at_size_wanted_ends_per_s": ENDS_PER_S}, targets)


def ramp(log: KafkaLog, views: Engine, live: int) -> list[float]:
    """Starts so many tasks in stages; the seconds of each until all of it runs."""
    stages = []
    for stage in range(STAGES):
        began, target = time.monotonic(), live * (stage + 1) // STAGES
        first = live * stage // STAGES
        append(
            log,
            *(job(f"live-{at}", min(JOB_TASKS, target - at), LASTS_MS) for at in range(first, target, JOB_TASKS)),
        )
        until_running(views, target)
        stages.append(time.monotonic() - began)
        print(f"stage {stage + 1} of {STAGES}: {target} tasks run after {stages[-1]:.1f} s", file=sys.stderr)
    return stages


def hold(log: KafkaLog, views: Engine, live: int) -> dict[str, float]:
    """Each second a job whose tasks end 30 s later, while all others go on: tasks that ran least, and ends a second."""
    least, stop = live, threading.Event()

    def submit() -> None:
        for second in range(HOLD_S):
            append(log, job(f"short-{second}", ENDS_PER_S, SHORT_MS))
            if stop.wait(max(0.0, began + second + 1 - time.monotonic())):
                return

    began = time.monotonic()
    submitting = threading.Thread(target=submit, daemon=True)
    submitting.start()
    try:
        while submitting.is_alive():
            time.sleep(LOOK_S)
            least = min(least, running(views))
    finally:
        stop.set()
        submitting.join()
    with views.connect() as connection:
        ends = connection.execute(text("select sum(succeeded) from jobs where job_id like 'short-%'")).scalar() or 0
    passed_s = time.monotonic() - began - SHORT_MS / 1000
    return {"at_size_least_live_tasks": least, "at_size_ends_per_s": float(ends) / passed_s}


def until_running(views: Engine, tasks: int) -> None:
    """Waits until so many tasks run."""
    deadline = time.monotonic() + STAGE_S
    while running(views) < tasks:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{running(views)} of {tasks} tasks run after {STAGE_S:.0f} s")
        time.sleep(LOOK_S)


def running(views: Engine) -> int:
    """Tasks that run as the views know them."""
    with views.connect() as connection:
        return int(connection.execute(text("select coalesce(sum(running), 0) from jobs")).scalar() or 0)


def facts(log: KafkaLog, start: int) -> Iterator[object]:
    """The facts of hosts from an offset on."""
    return (decode(record.value) for record in log.scan(HOSTS_TOPIC.name, start))


def verified(address: str, log: KafkaLog) -> int:
    """Replays the newest rounds of each machine; so many."""
    count = 0
    for machine in MACHINES:
        last = last_round(log, machine)
        begin = max(1, last - VERIFIED_ROUNDS + 1)
        command = ["log", "verify", "--kafka", address, "--machine", machine, "--from", str(begin), "-o", "json"]
        done = subprocess.run(
            [sys.executable, "-m", "paceline", *command], capture_output=True, text=True, timeout=3_600, check=False
        )
        if done.returncode:
            raise SystemExit(f"{machine} differs: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        count += last - begin + 1
    return count


def last_round(log: KafkaLog, machine: str) -> int:
    """The number of the newest round of a machine."""
    topic = rounds_of(machine)
    _, end = log.bounds(topic)
    numbers = [getattr(decode(record.value), "round", 0) for record in log.scan(topic, max(0, end - 10))]
    return max(numbers, default=0)


def job(job_id: str, instances: int, lasts_ms: int) -> JobSubmitted:
    """A job of tasks of 0.1 CPU."""
    return JobSubmitted(
        job_id=job_id,
        pool="/bench",
        instances=instances,
        resources={"cpu": 100, "memory": 64},
        simulated=Simulated(lasts_ms),
    )
