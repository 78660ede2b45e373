"""Plans of a real cell: on Kafka, with a process for each part, and on the embedded log of one process. A plan writes
nothing, and what is submitted then does what it said.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from events.codec import decode
from events.log.kafka.kafka_log import KafkaLog
from events.log.port import Log
from events.records.rounds import RoundCommitted
from events.rounds import decode_decisions
from events.topics import ALL
from paceline.cli.main import run
from paceline.client import cell_file
from paceline.services.cell_log import embedded
from tests.helpers.asking import ask
from tests.helpers.broker import Broker
from tests.helpers.real_cell import CellProcess
from tests.helpers.site import TOKEN, Site, empty

JOB = {"job_id": "tiles", "pool": "/p", "resources": {"cpu": 6}, "sim": {"duration": "1h"}}
FITS, TOO_MANY = {**JOB, "instances": 6}, {**JOB, "instances": 9}
HOSTS = 4
"""Of 16 CPUs: each takes two tasks."""
ASKED = ("paceline.jobs", "paceline.pools", "paceline.lifecycle", "paceline.sla")
"""Topics that get no record while a cell stands still. Beats, and rounds for their deadlines, come all the time."""
PLACED_S = 30.0
REST_S = 2.5
"""After so long entitlement has said what came of a submission."""


class Api:
    """The API of a cell."""

    def __init__(self, address: str, token: str) -> None:
        self._address, self._token = address, token

    def request(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self._token}"}
        answer = ask(f"http://{self._address}{path}", method, json=body, headers=headers)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def plan(self, job: Any) -> Any:
        return self.request("POST", "/v1/job-plans", job)

    def hosts_of(self, job_id: str) -> dict[str, int]:
        """How many tasks of a job are on each host, once all have one."""
        until_s = time.monotonic() + PLACED_S
        while time.monotonic() < until_s:
            tasks = self.request("GET", f"/v1/jobs/{job_id}/tasks")["tasks"]
            if all(task["host_id"] for task in tasks):
                hosts = [task["host_id"] for task in tasks]
                return {host: hosts.count(host) for host in hosts}
            time.sleep(0.1)
        raise AssertionError(f"{job_id} isn't placed after {PLACED_S:g} s")


def hosts_in(plan: Mapping[str, Any]) -> dict[str, int]:
    """How many tasks a plan puts on each host."""
    return {each["host_id"]: each["tasks"] for each in plan["hosts"]}


def ends(log: Log) -> dict[str, int]:
    return log.ends(ASKED)


def check(api: Api, log: Log) -> None:
    """Plans a job that fits in part, then one that fits, which is submitted and planned again."""
    before = ends(log)
    plan, again = api.plan(TOO_MANY), api.plan(TOO_MANY)
    assert (plan["outcome"], plan["placed"], plan["waiting"]) == ("PARTLY_PLACED", 8, 1)
    assert [each["code"] for each in plan["reasons"]] == ["NO_HOST_FITS"]
    assert plan["reasons"][0]["hosts_by_reason"] == {"cpu": HOSTS}
    assert (again["outcome"], hosts_in(again)) == (plan["outcome"], hosts_in(plan))
    fits = api.plan(FITS)
    assert (fits["outcome"], fits["looked_ahead_s"]) == ("PLACED", 0)
    assert ends(log) == before
    api.request("POST", "/v1/jobs?wait=20s", FITS)
    assert api.hosts_of("tiles") == hosts_in(fits)
    pools = api.request("POST", "/v1/pool-plans", {"pools": [{"path": "/p", "limit": {"cpu": 36}}, {"path": "/x/y"}]})
    [of_cell] = pools["cells"]
    assert [(each["change"], each["code"]) for each in of_cell["changes"]] == [
        ("change", "DONE"),
        ("refuse", "NO_SUCH_POOL"),
    ]
    placement = api.request("POST", "/v1/jobs/tiles/tasks/5/placements", {})
    assert (placement["why"], placement["candidates"][0]["chosen"]) == ("", True)
    assert (placement["hosts"], placement["feasible"]) == (HOSTS, 2), "two hosts are full before the sixth task"
    repeated = api.plan(FITS)
    assert (repeated["outcome"], repeated["code"], repeated["placed"]) == ("REPEATED", "REPEATED", 6)


def test_a_cell_of_processes_on_kafka_plans_from_its_stores(broker: Broker, tmp_path: Path) -> None:
    site = Site(tmp_path, empty(broker, 1), sim_hosts=HOSTS)
    log = KafkaLog(broker.address)
    try:
        site.begin()
        site.pool("/p")
        check(Api(site.address("api"), TOKEN), log)
        site.end()
    finally:
        site.processes.stop_all()
        log.close()


def test_a_cell_of_one_process_plans_beside_its_log(tmp_path: Path) -> None:
    cell = CellProcess(tmp_path / "cell", sim_hosts=HOSTS)
    try:
        cell.start()
        running = cell_file.read(cell.data)
        assert running is not None
        api, log = Api(running.listen, cell_file.token(cell.data) or ""), embedded(cell.data)
        api.request("PUT", "/v1/pools/p?wait=20s", {"reservation": {}})
        check(api, log)
        log.close()
    finally:
        cell.kill()


FILES = {
    "web.yaml": "job_id: web\npool: /p\nkind: stateless\ninstances: 3\nresources: {cpu: 2}\nsim: {duration: 1h}\n",
    "more.yaml": "job_id: web\npool: /p\nkind: stateless\ninstances: 5\nresources: {cpu: 3}\nsim: {duration: 1h}\n",
    "new.yaml": "job_id: new\npool: /p\ncommand: [x]\n---\n"
    "job_id: too-large\npool: /p\ncommand: [x]\nresources: {cpu: 99}\n",
    "many.json": '[{"job_id": "m1", "pool": "/p", "command": ["x"]}, {"pool": "/p", "command": ["y"]}]',
    "above.yaml": "job_id: good\npool: /p\ncommand: [x]\n---\njob_id: above\npool: /r\ncommand: [x]\n",
    "full.yaml": "---\n".join(f"job_id: f{number}\npool: /r/full\ncommand: [x]\n" for number in range(3)),
    "pools.yaml": "path: /p\nlimit: {cpu: 20}\n---\npath: /q\n",
    "first.yaml": "path: /p\n---\npath: /r\n---\npath: /r/full\nopen_jobs_max: 2\n",
}
NOT_A_LEAF = "above.yaml:6:1: /pool: pool /r has pools below it"
FULL = "full.yaml:9:1: pool /r/full has its 2 open jobs"
WRITTEN = "writes JobSubmitted: batch in /p, 1 task, cpu 0.1, memory 64MiB, x"
DRY_RUNS = (
    ("job submit new.yaml", 0, "job too-large would be submitted: 0 of 1 task would", "job too-large submitted to /p"),
    ("job submit many.json", 0, WRITTEN, "job m1 submitted"),
    ("job submit above.yaml", 1, NOT_A_LEAF, NOT_A_LEAF),
    ("job submit full.yaml", 1, FULL, FULL),
    ("job update more.yaml", 0, "5 instances would be updated to version 2", "2"),
    ("pool apply pools.yaml --reason more", 0, "pool /q would be created", "pool /q"),
)
"""Command, exit code, what is told with `--dry-run`, and without."""
PLANS = (("job plan new.yaml", 1), ("job plan more.yaml", 0), ("job placement web --task 1", 0))


def written(log: Log, before: Mapping[str, int]) -> set[str]:
    """The kinds of records and of decisions since some ends."""
    kinds = set()
    for topic, start in before.items():
        for record in log.scan(topic, start):
            event = decode(record.value)
            round_ = isinstance(event, RoundCommitted)
            kinds |= {type(each).__name__ for each in decode_decisions(event)} if round_ else {type(event).__name__}
    return kinds


def files_of(data: Path) -> set[str]:
    """The files of a data folder that aren't those of a database."""
    paths = (path.relative_to(data) for path in data.rglob("*") if path.is_file())
    return {str(path) for path in paths if path.parts[0] not in ("log", "store") and "sqlite" not in path.name}


def test_dry_runs_and_plans_write_nothing_and_what_they_say_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    cell = CellProcess(tmp_path / "cell", sim_hosts=HOSTS)

    def told(line: str, code: int) -> str:
        assert run(line.split()) == code, (line, capsys.readouterr())
        captured = capsys.readouterr()
        return captured.out + captured.err

    try:
        cell.start()
        monkeypatch.setenv("PACELINE_DATA", str(cell.data))
        told("pool apply first.yaml", 0)
        told("job submit web.yaml --wait=running --timeout 30s", 0)
        time.sleep(REST_S)
        log, kept = embedded(cell.data), files_of(cell.data)
        before = log.ends([topic.name for topic in ALL])
        for line, code, dry, _ in DRY_RUNS:
            assert dry in told(f"{line} --dry-run", code), line
        for line, code in PLANS:
            told(line, code)
        assert written(log, before) <= {"GatewayBeat", "TimerPassed"}
        assert files_of(cell.data) == kept
        log.close()
        for line, code, _, done in DRY_RUNS:
            assert done in told(line, code), line
        for job_id in ("good", "above", "f0"):
            told(f"job get {job_id}", 4)
    finally:
        cell.kill()
