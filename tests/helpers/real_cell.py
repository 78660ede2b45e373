"""A real cell in a process of its own, to be killed: started, asked over HTTP, killed, verified from its log."""

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2

from events.acceptance import Chain
from events.codec import decode
from events.codes import Outcome
from events.columns import ints
from events.log.port import Log
from events.records.lifecycle import RunsEnded, RunsOrdered
from events.records.rounds import RoundCommitted
from events.rounds import accept
from events.topics import rounds_of
from hostagent.runs import stop_all
from paceline.services.data_folder import agent_folder
from paceline.simulate.checker import Checker, Violation
from paceline.simulate.checker.items import runs_of
from processors.cell_machines import machines
from processors.runtime.replay import replay
from processors.runtime.store import RocksStore
from tests.helpers import ROOT
from tests.helpers.asking import ask
from tests.helpers.forked import PACELINE, launched
from tests.helpers.hashes import Hashes, Said


class CellProcess:
    """`paceline up` on a data folder, on either log."""

    def __init__(
        self,
        data: Path,
        kafka: str = "",
        sim_hosts: int = 20,
        cell: int = 0,
        listen: str = "127.0.0.1:0",
        agent: bool = False,
        options: tuple[str, ...] = (),
    ) -> None:
        self.agent = agent
        self.options = options
        """More of the command line."""
        self.data = data
        self.kafka = kafka
        self.sim_hosts = sim_hosts
        self.cell = cell
        self.listen = listen
        self.process: subprocess.Popen[bytes] | None = None
        self.output = data.with_suffix(".out")
        self.hashes = Hashes()
        self.under: tuple[str, ...] = ()
        """A command that runs the cell's as its own."""

    def start(self, ready_s: float = 60.0) -> None:
        self.launch()
        self.until(self.answers, ready_s)

    def launch(self) -> None:
        command = ["up", "--data", str(self.data), "--listen", self.listen]
        command += ["--sim-hosts", str(self.sim_hosts)] if self.sim_hosts else []
        command += ["--agent"] if self.agent else []
        command += self.options
        command += ["--kafka", self.kafka, "--cell", str(self.cell)] if self.kafka else []
        (self.data / "cell.json").unlink(missing_ok=True)
        with self.output.open("ab") as out:
            if self.under:
                words = [*self.under, *PACELINE, *command]
                self.process = subprocess.Popen(words, stdout=out, stderr=out, cwd=ROOT)
            else:
                self.process = launched(command, out, os.environ, session=False)

    def answers(self) -> bool:
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
        return ask(f"http://{listen}{path}", method, json=body, headers=headers)

    def get(self, path: str) -> httpx2.Response:
        return self.request("GET", path)

    def pool(self, path: str) -> None:
        answer = self.request("PUT", f"/v1/pools{path}?wait=20s", {"reservation": {}})
        assert answer.status_code == 201, answer.text

    def submit(self, job_id: str, instances: int, duration: str = "500ms", **more: Any) -> None:
        spec = {"job_id": job_id, "pool": "/p", "instances": instances, "resources": {"cpu": "100m"}}
        answer = self.request("POST", "/v1/jobs", {**spec, "sim": {"duration": duration}, **more})
        assert answer.status_code < 300, answer.text

    def state(self, job_id: str) -> str:
        answer = self.get(f"/v1/jobs/{job_id}")
        return str(answer.json()["state"]) if answer.status_code == 200 else ""

    def note_hashes(self) -> None:
        """Keeps the state that each machine says it has now, to be compared with what its rounds say."""
        self.hashes.note(self._said_hashes)

    def _said_hashes(self) -> Said:
        standings = self.get("/v1/cell").json()["machines"].items()
        return {(self.cell, name, each["round"]): each["hash"] for name, each in standings if each["epoch"]}

    def kill(self, number: int = signal.SIGKILL) -> int:
        assert self.process is not None
        os.kill(self.process.pid, number)
        return self.process.wait(timeout=60)

    def until_ended(self) -> int:
        """Waits until it has ended by itself; returns its code."""
        process = self.process
        assert process is not None
        self.until(lambda: process.poll() is not None)
        return process.returncode

    def stop(self) -> None:
        assert self.kill(signal.SIGTERM) == 0, self.output.read_text()[-3000:]

    def end(self) -> None:
        """Stops it, and the runs that would go on on its host."""
        try:
            self.stop()
        finally:
            stop_all(agent_folder(self.data, None), 20.0)

    def open_log(self) -> Log:
        """The log of the stopped cell."""
        if self.kafka:
            from events.log.kafka.kafka_log import KafkaLog

            return KafkaLog(self.kafka, self.cell)
        from events.log.embedded import EmbeddedLog

        return EmbeddedLog(self.data / "log")


def verify(cell: CellProcess) -> dict[str, int]:
    """What must hold of a stopped cell: see `count`; no task doubled, no state that differs, no promise broken."""
    counted = count(cell)
    assert counted["doubled"] == counted["hash_mismatches"] == counted["violations"] == 0, counted
    return counted


def count(cell: CellProcess) -> dict[str, int]:
    """Counts of a stopped cell: rounds, epochs, runs (see `runs_in_sequence`), machines whose replay differs or comes
    to another state than their store, and states that were noted and are not those of the rounds (`hash_mismatches`),
    logs that break a promise (`violations`), `ignored: CAUSE`.
    """
    log = cell.open_log()
    counted = Counter({"rounds": 0, "epochs": 0, "hash_mismatches": 0})
    try:
        for name, make in machines(cell.cell).items():
            found = replay(make(), log)
            if found.difference is not None:
                print(found.difference)  # noqa: T201
            store = RocksStore(cell.data / "store" / name)
            progress = store.progress()
            store.close()
            live = progress.hash if progress else bytes(32)
            counted["hash_mismatches"] += found.difference is not None or live != found.hash
            counted["rounds"] += found.rounds
            counted["epochs"] += found.epochs
            after, ignored = rounds_in_sequence(log, name)
            after[found.begun + found.rounds] = found.hash
            counted["hash_mismatches"] += cell.hashes.differing(cell.cell, name, after)
            counted.update({f"ignored: {cause}": n for cause, n in ignored.items()})
        counted.update(runs_in_sequence(log))
        counted["violations"] = violations(log)
        return dict(counted)
    finally:
        log.close()


def runs_in_sequence(log: Log) -> dict[str, int]:
    """Counts runs: ordered, ended, still live; tasks that have succeeded; runs that were ordered while the last one of
    their task lived (`doubled`).
    """
    chain, live = Chain(), {}
    ordered = ended = doubled = 0
    succeeded = set()
    for record in log.scan(rounds_of("lifecycle"), 0):
        delivered = accept(record, chain, "lifecycle", log.cell)
        if not isinstance(delivered.event, RoundCommitted):
            continue
        for decision in map(decode, delivered.event.decisions):
            if not isinstance(decision, RunsOrdered | RunsEnded):
                continue
            runs = runs_of(decision)
            if isinstance(decision, RunsOrdered):
                for task, run in runs:
                    doubled += task in live
                    live[task] = run
                    ordered += 1
                continue
            for (task, run), outcome in zip(runs, ints(decision.outcome).tolist(), strict=True):
                if live.get(task) == run:
                    del live[task]
                    ended += 1
                    if outcome == Outcome.SUCCEEDED:
                        succeeded.add(task)
    return {"ordered": ordered, "ended": ended, "live": len(live), "succeeded": len(succeeded), "doubled": doubled}


def violations(log: Log) -> int:
    """1 where a checker that shares no code with the machines finds what must not be, which it prints; it looks no
    further then.
    """
    try:
        Checker(log).look()
    except Violation as violation:
        print(violation)  # noqa: T201
        return 1
    return 0


def rounds_in_sequence(log: Log, machine: str) -> tuple[dict[int, bytes], Counter[str]]:
    """The state after each accepted round, as the round after it says; what else the topic holds, by cause."""
    chain, after, ignored = Chain(), {}, Counter[str]()
    for record in log.scan(rounds_of(machine), 0):
        delivered = accept(record, chain, machine, log.cell)
        if delivered.event is None:
            ignored[delivered.verdict] += 1
        elif isinstance(delivered.event, RoundCommitted):
            after[delivered.event.round - 1] = delivered.event.start_hash
    return after, ignored
