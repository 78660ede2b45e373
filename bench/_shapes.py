"""One shape of work through a whole cell, as `python -m bench cell` starts it: a process of its own for each.

    python -m bench._shapes SHAPE FOLDER embedded          prints one JSON object
    python -m bench._shapes SHAPE FOLDER HOST:PORT PID     on Kafka, whose broker is that process

The cell is `paceline up` with 1,000 simulated hosts in this process; jobs are appended straight to the log, from a
thread beside it, on Kafka by clients of its own.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from httpx2 import Client
from msgspec.structs import replace
from sqlalchemy import Engine, text

from bench import peak_memory_mib, sized
from bench._http import SECONDS, answers_per_s, ratio, request
from events.codec import encode
from events.log.kafka.kafka_log import KafkaLog
from events.log.port import Log, NewRecord
from events.records.base import Event
from events.records.jobs import JobSubmitted
from events.records.parts import Simulated
from events.records.pools import CellConfigured, PoolDefined, RoleBound, TokenIssued
from events.topics import ALL, BY_NAME, JOBS, rounds_of
from events.yaml_documents import parse
from paceline.services.settings import UpSettings
from paceline.services.up import Up

HOSTS = sized(1000, 50)
DEADLINE_S = 300.0
STEADY_RATE = 100
RAW = "bench.raw"
STEADY_S = sized(60, 1)
IDLE_S = sized(60, 2)
HTTP_SUBMITS_MAX = sized(20_000, 100)
HTTP_BATCH, HTTP_BATCHES_MAX = 100, sized(400, 2)
YAML_JOBS = sized(500, 20)
LISTED = sized(5_000, 200)
WAYS = 300
"""So many ways from submission to order are appended for comparison."""


def job(job_id: str, instances: int) -> JobSubmitted:
    """A job of tasks of 0.1 CPU that run a second."""
    return JobSubmitted(
        job_id=job_id,
        pool="/bench",
        instances=instances,
        resources={"cpu": 100, "memory": 64},
        simulated=Simulated(1000),
    )


BATCHES: dict[str, list[JobSubmitted]] = {
    "one_job": [job("one", sized(50_000, 1_000))],
    "many_jobs": [job(f"many-{number}", 100) for number in range(sized(500, 10))],
    "single_jobs": [job(f"single-{number}", 1) for number in range(sized(10_000, 100))],
}


class Probe:
    """Sees orders as the simulated agents get them."""

    def __init__(self) -> None:
        self.ordered = 0
        self.last = 0.0
        self.at: dict[str, float] = {}

    def on_order(self, job_ids: tuple[str, ...], count: int, at_ms: int) -> None:
        """Implements `hostagent.fleet.OnOrder`."""
        self.last = time.perf_counter()
        self.ordered += count
        for job_id in job_ids:
            self.at.setdefault(job_id, self.last)


class Meter:
    """CPU of processes since it was made; the cell's own has no name."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self.pids = pids
        self._before = self._now()

    def spent_s(self) -> dict[str, float]:
        """Seconds by process."""
        return {name: now - self._before[name] for name, now in self._now().items()}

    def _now(self) -> dict[str, float]:
        times = {name: psutil.Process(pid).cpu_times() for name, pid in self.pids.items()}
        return {name: each.user + each.system for name, each in times.items()}


def append(log: Log, *events: Event) -> None:
    """Appends facts, a thousand at a time."""
    records = [NewRecord(event.topic, getattr(event, "job_id", "/bench").encode(), encode(event)) for event in events]
    for at in range(0, len(records), 1000):
        log.append(records[at : at + 1000])


def until(holds: Callable[[], bool], pause: float = 0.005) -> None:
    """Waits for a condition; raises where it doesn't come."""
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError("the cell did not get there in time")
        time.sleep(pause)


def hosts_up(up: Up) -> int:
    """Counts the hosts that the views know to be up."""
    with up.projector.views.engine.connect() as connection:
        return int(connection.execute(text("select count(*) from hosts where reconciled_session > 0")).scalar() or 0)


def jobs_done(views: Engine) -> int:
    """Counts the jobs that the views show as ended."""
    with views.connect() as connection:
        return int(connection.execute(text("select count(*) from jobs where state = 'SUCCEEDED'")).scalar() or 0)


def body(job_id: str) -> dict[str, Any]:
    """A job of one task as `job` has it, as users write it."""
    resources = {"cpu": "100m", "memory": "64MiB"}
    return {"job_id": job_id, "pool": "/bench", "sim": {"duration": "1s"}, "resources": resources}


def bytes_by_topic(log: Log) -> dict[str, int]:
    """Size of all values per topic."""
    return {topic.name: sum(len(record.value) for record in log.scan(topic.name, 0)) for topic in ALL}


def raw(log: Log, tasks: int) -> dict[str, float]:
    """The same bytes appended again and read, with nothing else: facts by the thousand, rounds one by one."""
    records = [record for topic in ALL for record in log.scan(topic.name, 0)]
    begin, facts = time.perf_counter(), []
    for record in records:
        copy = NewRecord(RAW, record.key, record.value)
        if BY_NAME[record.topic].machine:
            log.append([copy])
        else:
            facts.append(copy)
    for at in range(0, len(facts), 1000):
        log.append(facts[at : at + 1000])
    assert sum(1 for _ in log.scan(RAW, 0)) == len(records)
    return {"raw_append_and_read_tasks_per_s": tasks / (time.perf_counter() - begin)}


def five_appends(log: Log) -> dict[str, float]:
    """A submission and the four rounds to its order, appended and read back one after the other with nothing else: the
    bytes of the last jobs of this run.
    """
    topics = (JOBS.name, *map(rounds_of, ("lifecycle", "entitlement", "placement", "lifecycle")))
    ways = [list(log.scan(topic, max(0, log.bounds(topic)[1] - WAYS))) for topic in topics]
    reader = log.reader({RAW: log.bounds(RAW)[1]})
    times = []
    for way in zip(*ways, strict=False):
        begin = time.perf_counter()
        for record in way:
            log.append([NewRecord(RAW, record.key, record.value)])
            while not reader.poll(1, 1.0):
                pass
        times.append((time.perf_counter() - begin) * 1000)
    reader.close()
    return {"raw_five_appends_and_reads_p99_ms": float(np.percentile(times, 99))}


def batch(up: Up, log: Log, probe: Probe, shape: str, pids: Mapping[str, int]) -> dict[str, float]:
    """All jobs of a shape at once."""
    jobs = BATCHES[shape]
    tasks = sum(each.instances for each in jobs)
    before, meter = bytes_by_topic(log), Meter(pids)
    begin = time.perf_counter()
    append(log, *jobs)
    until(lambda: probe.ordered >= tasks)
    ordered = probe.last - begin
    until(lambda: jobs_done(up.projector.views.engine) >= len(jobs), 0.02)
    done = time.perf_counter() - begin
    spent_s = meter.spent_s()
    after = bytes_by_topic(log)
    unit = "jobs" if shape == "single_jobs" else "tasks"
    name = "single_jobs" if shape == "single_jobs" else f"{shape}_tasks"
    return {
        f"{name}_per_s": tasks / ordered,
        f"{name}_to_done_in_views_per_s": tasks / done,
        **{f"{shape}_{name}cpu_us_per_{unit[:-1]}": spent / tasks * 1e6 for name, spent in spent_s.items()},
        **{
            f"{shape}_{topic.removeprefix('paceline.')}_bytes_per_task": (after[topic] - before[topic]) / tasks
            for topic in after
        },
    }


def file(up: Up, folder: Path, pids: Mapping[str, int]) -> dict[str, float]:
    """As many jobs as `single_jobs` has, in one JSON file that `paceline job submit` sends; beside that what reading a
    job in YAML takes.
    """
    count = len(BATCHES["single_jobs"])
    path = folder / "jobs.json"
    path.write_text(json.dumps([body(f"filed-{number}") for number in range(count)]))
    meter = Meter(pids)
    words = ["-m", "paceline", "job", "submit", "--data", str(folder), str(path)]
    client = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(client.pid, 0)
    client.returncode = os.waitstatus_to_exitcode(status)
    if client.returncode:
        raise RuntimeError(f"the jobs weren't submitted: {client.returncode}")
    until(lambda: jobs_done(up.projector.views.engine) >= count, 0.02)
    cell_s, client_s = meter.spent_s(), used.ru_utime + used.ru_stime
    written = "---\n".join(
        f"pool: /bench\njob_id: y-{number}\nresources: {{cpu: 100m}}\n" for number in range(YAML_JOBS)
    )
    begin = time.process_time()
    assert len(list(parse("jobs.yaml", written, print))) == YAML_JOBS
    yaml_s = time.process_time() - begin
    return {
        "file_jobs_cpu_us_per_job": (sum(cell_s.values()) + client_s) / count * 1e6,
        "file_jobs_client_cpu_us_per_job": client_s / count * 1e6,
        "file_yaml_read_cpu_us_per_job": yaml_s / YAML_JOBS * 1e6,
    }


def steady(log: Log, probe: Probe, pids: Mapping[str, int]) -> dict[str, float]:
    """Single-task jobs at a steady rate: latency from the append to the order's receipt by the agent."""
    submit_times: dict[str, float] = {}
    meter = Meter(pids)
    begin = time.perf_counter()
    for number in range(STEADY_RATE * STEADY_S):
        due = begin + number / STEADY_RATE
        time.sleep(max(0.0, due - time.perf_counter()))
        job_id = f"steady-{number}"
        submit_times[job_id] = time.perf_counter()
        append(log, job(job_id, 1))
    until(lambda: len(probe.at) >= len(submit_times))
    spent_s = meter.spent_s()
    latencies = np.array([probe.at[job_id] - at for job_id, at in submit_times.items()]) * 1000
    return {
        "submit_to_order_p50_ms": float(np.percentile(latencies, 50)),
        "submit_to_order_p99_ms": float(np.percentile(latencies, 99)),
        "submit_to_order_max_ms": float(latencies.max()),
        **{f"steady_{name}cpu_s": spent for name, spent in spent_s.items()},
    }


def idle(pids: Mapping[str, int]) -> dict[str, float]:
    """Measures an idle cell: the share of a core, and how often a thread of it is woken."""
    meter, wakes, begin = Meter(pids), _wakes(), time.monotonic()
    time.sleep(IDLE_S)
    seconds = time.monotonic() - begin
    spent_s = meter.spent_s()
    return {
        **{f"idle_{name}cpu_percent": 100 * spent / seconds for name, spent in spent_s.items()},
        "idle_wakes_per_s": (_wakes() - wakes) / seconds,
    }


def _wakes() -> int:
    """Counts how often a thread of this process has waited for something, as Linux counts it."""
    tasks = Path("/proc/self/task").glob("*/status")
    lines = (line for task in tasks for line in task.read_text().splitlines())
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches:"))


def http(listen: str, folder: Path, log: Log) -> dict[str, float]:
    """Answers over HTTP while the views change ten times a second; `folder`: of the token."""
    token = (folder / "token").read_text().strip()
    posts = [request("POST", "/v1/jobs", token, body(f"http-{number}")) for number in range(HTTP_SUBMITS_MAX)]
    figures = {"http_submits_per_s": answers_per_s(listen, posts)}
    append(
        log, *(replace(job(f"listed-{number}", 1), labels={"team": "maps"}, owner="ann") for number in range(LISTED))
    )
    with Client(base_url=f"http://{listen}", trust_env=False) as client:
        until(lambda: client.get("/v1/jobs/listed-0").is_success, 0.1)
        until(lambda: client.get("/v1/jobs?state=PENDING,SUBMITTED&page_size=1").json()["jobs"] == [], 0.5)
        pages, size = paths_of_pages(client)
        livez = len(client.get("/livez").content)
    stop = threading.Event()

    def change() -> None:
        number = 0
        while not stop.wait(0.1):
            append(log, job(f"change-{number}", 1))
            number += 1

    changing = threading.Thread(target=change)
    changing.start()
    for name, requests, length in (
        ("livez", [request("GET", "/livez")], livez),
        ("jobs_list", [request("GET", path) for path in pages], size),
    ):
        own, bare = ratio(listen, requests, length)
        figures |= {f"http_{name}_per_s": own, f"http_{name}_bare_per_s": bare, f"http_{name}_ratio": own / bare}
    figures["http_limited_list_ratio"] = limited_ratio(listen, log, token, pages)
    stop.set()
    changing.join()
    # The last: what it submits keeps the cell busy for a while.
    batches = [
        request("POST", "/v1/job-batches", token, {"jobs": [body(f"batch-{at}-{each}") for each in range(HTTP_BATCH)]})
        for at in range(HTTP_BATCHES_MAX)
    ]
    figures["http_batch_submits_per_s"] = HTTP_BATCH * answers_per_s(listen, batches)
    return {**figures, "http_jobs_list_bytes": float(size)}


def limited_ratio(listen: str, log: Log, token: str, pages: list[str]) -> float:
    """Lists a second of who may read one pool, where all of the jobs are, beside those of who may read everything."""
    viewer = f"pct_viewer_{'x' * 43}"
    digest = sha256(viewer.encode()).digest()
    append(
        log,
        RoleBound(command_id="viewer", binding_id="viewer", subject="viewer", role="viewer", pool="/bench"),
        TokenIssued(command_id="token", token_id="viewer", subject="viewer", token_hash=digest),
        CellConfigured(command_id="roles", access="roles"),
    )
    with Client(base_url=f"http://{listen}", trust_env=False, headers={"Authorization": f"Bearer {viewer}"}) as client:
        until(lambda: "Paceline-Limited" in client.get("/v1/jobs/listed-0").headers, 0.1)
    whole = [request("GET", path, token) for path in pages]
    limited = [request("GET", path, viewer) for path in pages]
    turns = [[answers_per_s(listen, requests, SECONDS / 4) for requests in (limited, whole)] for _ in range(4)]
    return sum(own for own, _ in turns) / sum(of_all for _, of_all in turns)


def paths_of_pages(client: Client) -> tuple[list[str], int]:
    """Where each page of the list of jobs is, 100 a page, and how many bytes one has on average."""
    paths, sizes, token = [], [], ""
    while not paths or token:
        paths.append(f"/v1/jobs?page_size=100&page_token={token}")
        answer = client.get(paths[-1])
        sizes.append(len(answer.content))
        token = answer.json()["next_page_token"]
    return paths, sum(sizes) // len(sizes)


def measure(up: Up, log: Log, probe: Probe, shape: str, folder: Path, pids: Mapping[str, int]) -> dict[str, float]:
    """Waits until the hosts are up, then measures the shape."""
    append(log, PoolDefined(path="/bench", command_id="bench"))
    until(lambda: hosts_up(up) >= HOSTS)
    time.sleep(1.0)
    if shape == "steady":
        return steady(log, probe, pids)
    if shape == "idle":
        return idle(pids)
    if shape == "file":
        return file(up, folder, pids)
    if shape == "http":
        return http(up.listen(), folder, log)
    return batch(up, log, probe, shape, pids)


def references(up: Up, shape: str) -> dict[str, float]:
    """Measures the references of a shape's figures."""
    log = up.log
    if shape == "steady":
        return five_appends(log)
    tasks = sum(each.instances for each in BATCHES.get(shape, []))
    return {f"{shape}_{name}": value for name, value in raw(log, tasks).items()} if tasks else {}


def main(shape: str, folder: Path, log: str, broker: int | None = None) -> None:
    """Runs a cell and one shape through it; `broker`: process id."""
    pids = {"": os.getpid()} | ({"broker_": broker} if broker else {})
    probe, failed = Probe(), []
    all_figures: dict[str, float] = {}
    beside: dict[str, float] = {}
    kafka = "" if log == "embedded" else log
    settings = UpSettings(data=folder, listen="127.0.0.1:0", sim_hosts=HOSTS, kafka=kafka, agent=False, cell=0)
    up = Up(settings, on_order=probe.on_order)

    def drive() -> None:
        try:
            users = KafkaLog(kafka) if kafka else up.log  # on Kafka a user is another client
            figures: dict[str, Any] = measure(up, users, probe, shape, folder, pids)
            figures |= {f"{shape}_{name}peak_memory_mib": peak_memory_mib(pid) for name, pid in pids.items()}
            all_figures.update(figures)
            beside.update(references(up, shape))
        except Exception as error:  # said in the result; the cell must still be stopped
            failed.append(repr(error))
        finally:
            up.stop()

    threading.Thread(target=drive, daemon=True).start()
    up.run()
    print(json.dumps({"figures": all_figures, "references": beside, "failed": failed}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], *map(int, sys.argv[4:]))
