"""The main job: a cell with a real agent runs the jobs of examples/, then its log is verified."""

import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from paceline.cli.commands.log_verify import print_checked
from paceline.cli.progress import wait_for
from paceline.client import cell_file
from paceline.client.client import Client
from paceline.client.errors import PacelineError
from paceline.client.models import Job, Task
from paceline.history.open_log import open_log
from paceline.history.verify import root_difference, verify
from paceline.job_files import JobFile, read_jobs, read_pools
from paceline.output import Column, note, say, table
from paceline.services.data_folder import agent_folder
from paceline.services.settings import Settings, load
from processors.cell_machines import machines

INSTALLED = Path(__file__).parents[1] / "examples"
EXAMPLES = INSTALLED if INSTALLED.exists() else Path(__file__).parents[2] / "examples"
"""In a wheel they lie in the package, in a checkout beside it."""
BATCH = ("tiles", "routes")
SERVICE = "web"
START_S, BATCH_S, SERVICE_S, END_S = 60.0, 120.0, 60.0, 60.0
"""Seconds that each stage may take; all of it takes some seconds."""
POLL_S = 0.05


class DemoFailed(PacelineError):
    """Something is not as it should be."""


def run_demo(kafka: str = "") -> int:
    """Runs the main job; 1 where anything isn't as it should be, and then the folder is left for a look."""
    folder = Path(tempfile.mkdtemp(prefix="paceline-demo-"))
    settings = load(data=folder / "data", kafka=kafka)
    try:
        if kafka:
            _make_topics(kafka)
        with _cell(settings) as process, Client(data=settings.data) as client:
            use(client)
            _end(process)
        _verify(settings)
    except PacelineError as error:
        note(f"the demo failed: {error}\nwhat it left is in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


def _make_topics(kafka: str) -> None:
    from events.log.kafka import topics as kafka_topics

    kafka_topics.create(kafka, partitions=1)


@contextmanager
def _cell(settings: Settings) -> Iterator[subprocess.Popen[bytes]]:
    """A cell of its own process, which ends with the block, and its tasks too."""
    settings.data.mkdir(parents=True)
    command = [
        sys.executable,
        "-m",
        "paceline",
        "up",
        "--data",
        str(settings.data),
        "--listen",
        "127.0.0.1:0",
        "--agent",
    ]
    command += ["--kafka", settings.kafka] if settings.kafka else []
    output_file = settings.data.parent / "up.log"
    _stage(f"starting a cell on {f'Kafka at {settings.kafka}' if settings.kafka else 'the embedded log'}")
    with output_file.open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
    try:
        _until_ready(settings.data, process, output_file)
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        _stop_runs(settings.data)


def _until_ready(data: Path, process: subprocess.Popen[bytes], output_file: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise DemoFailed(f"the cell has ended with {process.returncode}:\n{output_file.read_text()}")
        if cell_file.read(data) is not None:
            with Client(data=data) as client:
                if client.ready() and any(host["state"] == "UP" for host in client.hosts()):
                    say(f"  up at {client.server}, one host: {next(client.hosts())['host_id']}")
                    return
        time.sleep(POLL_S)
    raise DemoFailed(f"the cell is not ready after {START_S:g} s:\n{output_file.read_text()}")


def use(client: Client, cell: int = 0) -> None:
    """Pools of a cell, batch jobs, the service; each checked. Raises `Wrong`."""
    for pool in read_pools([str(EXAMPLES / "pools.yaml")]):
        client.define_pool(pool.path, {**pool.body, "cell": cell}, wait=START_S)
    batch = [_submit(client, name) for name in BATCH]
    service = _submit(client, SERVICE)
    count = sum(job.spec.instances for job in batch)
    _stage(f"{count} processes in {len({job.spec.pool for job in batch})} pools, and a service")
    ended = wait_for(client, [job.job_id for job in batch], "ended", BATCH_S)
    wait_for(client, [service.job_id], "running", SERVICE_S)
    _stage("where each task ran")
    ran = [(job.job_id, task) for job in [*batch, service] for task in client.tasks(job.job_id)]
    _print_tasks(ran)
    _check_batch(ended, [task for job_id, task in ran if job_id in ended], count)
    output = client.output(batch[0].job_id, 0).data.decode().strip()
    _check(output.startswith("tile 0, run 1"), f"task 0 of {batch[0].job_id} printed {output!r}")
    say(f"  {batch[0].job_id} task 0 printed: {output}")
    _stage("stopping the service")
    client.stop_job(service.job_id, wait=START_S, reason="the demo is over")
    stopped = wait_for(client, [service.job_id], "ended", SERVICE_S)[service.job_id]
    _check(stopped["state"] == "KILLED", f"the service is {stopped['state']}, not KILLED")


def _submit(client: Client, name: str) -> JobFile:
    [job] = read_jobs([str(EXAMPLES / "jobs" / f"{name}.yaml")])
    client.submit_job(job.body, wait=START_S)
    return job


def _check_batch(jobs: dict[str, Job], tasks: list[Task], count: int) -> None:
    for job_id, job in jobs.items():
        _check(job["state"] == "SUCCEEDED", f"{job_id} is {job['state']}")
    _check(len(tasks) == count, f"{len(tasks)} tasks are there, not {count}")
    runs = Counter(task["run"] for task in tasks)
    _check(runs == {1: count - 1, 2: 1}, f"one task should have taken two runs, the others one; found {dict(runs)}")
    say(f"  {count} tasks have succeeded; one failed first and succeeded at its second run")


def _print_tasks(ran: list[tuple[str, Task]]) -> None:
    table(
        ran,
        [
            Column("JOB", lambda row: row[0]),
            Column("TASK", lambda row: row[1]["instance"], right=True),
            Column("RUN", lambda row: row[1]["run"], right=True),
            Column("HOST", lambda row: row[1]["host_id"]),
            Column("STATE", lambda row: row[1]["state"]),
            Column("EXIT", lambda row: row[1]["exit_code"], right=True),
        ],
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    _stage("ending the cell")
    process.terminate()
    code = process.wait(END_S)
    _check(code == 0, f"the cell has ended with {code}")


def _verify(settings: Settings) -> None:
    """Decides the whole log again."""
    _stage("verifying the log")
    log = open_log(settings)
    try:
        factories = machines()
        checked = verify(log, factories)
        differs = root_difference(log, checked)
    finally:
        log.close()
    print_checked(checked, differs, factories)
    _check(differs is None, "the log is not what its machines decide")
    _check(all(each.result.rounds for each in checked[:3]), "a machine has decided nothing")


def _stop_runs(data: Path) -> None:
    from hostagent.runs import stop_all

    if (folder := agent_folder(data, None)).is_dir():
        stop_all(folder, END_S)


def _check(good: bool, otherwise: str) -> None:
    if not good:
        raise DemoFailed(otherwise)


def _stage(text: str) -> None:
    say(f"== {text}")
