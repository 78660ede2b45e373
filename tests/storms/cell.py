"""A real cell in a process of its own, to be killed: started, asked over HTTP, killed, verified from its log."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2

from events.acceptance import Chain
from events.codec import decode
from events.columns import ints
from events.delivery import judge, read
from events.log import Log
from events.records.lifecycle import RunsEnded, RunsOrdered
from events.records.rounds import RoundCommitted
from events.topics import rounds_of
from paceline.machines import machines
from processors.replay import replay
from processors.store import RocksStore

ROOT = Path(__file__).parents[2]


class CellProcess:
    """`paceline up` on a data folder, on either log."""

    def __init__(self, data: Path, kafka: str = "", sim_hosts: int = 20, cell: int = 0) -> None:
        self.data = data
        self.kafka = kafka
        self.sim_hosts = sim_hosts
        self.cell = cell
        self.process: subprocess.Popen[bytes] | None = None
        self.output = data.with_suffix(".out")

    def start(self, ready_s: float = 60.0) -> None:
        command = [sys.executable, "-m", "paceline", "up", "--data", str(self.data), "--listen", "127.0.0.1:0"]
        command += ["--sim-hosts", str(self.sim_hosts)] if self.sim_hosts else []
        command += ["--kafka", self.kafka, "--cell", str(self.cell)] if self.kafka else []
        (self.data / "cell.json").unlink(missing_ok=True)
        with self.output.open("ab") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, cwd=ROOT)
        self.until(self._answers, ready_s)

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.output.read_text()
        if not (self.data / "cell.json").exists():
            return False
        try:
            return self.get("/livez").status_code == 200
        except httpx2.TransportError:
            return False

    def until(self, holds: Callable[[], bool], timeout_s: float = 60.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not holds():
            assert time.monotonic() < deadline, f"{holds}: {self.output.read_text()[-3000:]}"
            time.sleep(0.02)

    def request(self, method: str, path: str, body: Any = None) -> httpx2.Response:
        listen = json.loads((self.data / "cell.json").read_text())["listen"]
        token = (self.data / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        return httpx2.request(
            method, f"http://{listen}{path}", json=body, headers=headers, timeout=30.0, trust_env=False
        )

    def get(self, path: str) -> httpx2.Response:
        return self.request("GET", path)

    def pool(self, path: str) -> None:
        answer = self.request("PUT", f"/v1/pools{path}?wait=20s", {"reservation": {}})
        assert answer.status_code < 300, answer.text

    def submit(self, job_id: str, instances: int, duration: str = "500ms", **more: Any) -> None:
        spec = {"job_id": job_id, "pool": "/p", "instances": instances, "resources": {"cpu": "100m"}}
        answer = self.request("POST", "/v1/jobs", {**spec, "sim": {"duration": duration}, **more})
        assert answer.status_code < 300, answer.text

    def state(self, job_id: str) -> str:
        answer = self.get(f"/v1/jobs/{job_id}")
        return str(answer.json()["state"]) if answer.status_code == 200 else ""

    def kill(self, number: int = signal.SIGKILL) -> int:
        assert self.process is not None
        os.kill(self.process.pid, number)
        return self.process.wait(timeout=60)

    def stop(self) -> None:
        assert self.kill(signal.SIGTERM) == 0, self.output.read_text()[-3000:]

    def open_log(self) -> Log:
        """The log of the stopped cell."""
        if self.kafka:
            from events.kafka import KafkaLog

            return KafkaLog(self.kafka, self.cell)
        from events.embedded import EmbeddedLog

        return EmbeddedLog(self.data / "log")


def verify(cell: CellProcess) -> dict[str, int]:
    """What must hold of a stopped cell: live hash = replay hash, no task doubled; returns what was counted."""
    log = cell.open_log()
    counted = {"rounds": 0, "epochs": 0}
    try:
        for name, make in machines(cell.cell).items():
            found = replay(make(), log)
            assert found.difference is None, found.difference
            store = RocksStore(cell.data / "store" / name)
            standing = store.standing()
            store.close()
            live = standing.hash if standing else bytes(32)
            assert live == found.hash, f"{name}: live and replayed state differ"
            counted["rounds"] += found.rounds
            counted["epochs"] += found.epochs
        return {**counted, **runs_in_sequence(log)}
    finally:
        log.close()


def runs_in_sequence(log: Log) -> dict[str, int]:
    """Checks that a task's run is ordered only when its last one is over, and ends once; counts runs."""
    chain, live, ended = Chain(), {}, 0
    ordered = 0
    for record in log.scan(rounds_of("lifecycle"), 0):
        delivered = judge(read(record, "lifecycle"), chain, "lifecycle", log.cell)
        if delivered.verdict != "ACCEPTED" or not isinstance(delivered.event, RoundCommitted):
            continue
        for decision in map(decode, delivered.event.decisions):
            if not isinstance(decision, RunsOrdered | RunsEnded):
                continue
            for job, instance, run in zip(ints(decision.job), ints(decision.instance), ints(decision.run), strict=True):
                task = (decision.job_ids[job], int(instance))
                if isinstance(decision, RunsOrdered):
                    assert task not in live, f"{task} run {run} is ordered while run {live[task]} lives"
                    live[task] = int(run)
                    ordered += 1
                elif live.get(task) == run:
                    del live[task]
                    ended += 1
    return {"ordered": ordered, "ended": ended, "live": len(live)}
