"""Records two real cells for `bench whatif`: one that is half full, and one that is full.

`python -m bench._record_cells FOLDER [SECONDS]` starts each with four agents, whose runs are processes that sleep.
Three teams submit jobs as drawn by a seed; on the full cell those that borrow are preempted, and one agent is killed
twice and comes back. What `paceline log export` writes of it is `half.avro` and `full.avro`; those in
`bench/recordings/` were made so.
"""

import itertools
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

PACELINE = (sys.executable, "-m", "paceline")
AGENTS, CORES = 4, 4
TEAMS = {"/a": "ann", "/b": "bob", "/c": "cy"}
MEAN_S = 12.0
"""The mean of the lengths of runs, which are exponential, from half a second on."""
LONGEST_S = 60.0
SECONDS = 600
BEFORE_S = 5.0
"""The first job comes so long after the start of what is exported."""


@dataclass(frozen=True)
class Recorded:
    """A cell that is recorded: so much of its cores is asked, in percent, and whether an agent is killed."""

    name: str
    load: int
    kills: bool


CELLS = Recorded("half", 50, False), Recorded("full", 130, True)


class Arrival(NamedTuple):
    """A job that comes."""

    at_s: float
    spec: dict[str, Any]


def arrivals(recorded: Recorded, seconds: float) -> Iterator[Arrival]:
    """The jobs of a cell: tasks of one core, up to four a job; half of all work is that of /b."""
    draw = random.Random(recorded.name)
    mean_tasks = 2.5
    gap_s = mean_tasks * MEAN_S / (AGENTS * CORES * recorded.load / 100)
    at_s = 0.0
    for number in itertools.count(1):
        at_s += draw.expovariate(1 / gap_s)
        if at_s > seconds - LONGEST_S:
            return
        [pool] = draw.choices([*TEAMS], (3, 5, 2))
        length_s = min(LONGEST_S, max(0.5, draw.expovariate(1 / MEAN_S)))
        yield Arrival(
            at_s,
            {
                "job_id": f"job-{number:03}",
                "pool": pool,
                "owner": TEAMS[pool],
                "instances": draw.randint(1, 4),
                "resources": {"cpu": 1, "memory": "16MiB"},
                "preemptible": True,
                "command": ["sleep", f"{length_s:.2f}"],
            },
        )


class Cell:
    """A cell and its agents, processes of this one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._output = (folder / "output").open("ab")
        self.data = folder / "cell"
        self._up = self._start("up", "--data", str(self.data), "--listen", "127.0.0.1:0", "--no-agent")
        while not (self.data / "cell.json").exists() or not self._is_ready():
            if self._up.poll() is not None:
                raise SystemExit((folder / "output").read_text()[-2000:])
            time.sleep(0.1)
        self._agents = {number: self._agent(number) for number in range(1, AGENTS + 1)}

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Asks the API; ends this process where it refuses."""
        listen = json.loads((self.data / "cell.json").read_text())["listen"]
        headers = {
            "Authorization": f"Bearer {(self.data / 'token').read_text().strip()}",
            "Content-Type": "application/json",
        }
        request = Request(
            f"http://{listen}{path}", json.dumps(body).encode() if body is not None else None, headers, method=method
        )
        try:
            with urlopen(request, timeout=60) as answer:
                return json.loads(answer.read() or b"null")
        except HTTPError as error:
            raise SystemExit(f"{method} {path}: {error.read().decode()}") from error

    def kill_agent(self, number: int) -> None:
        """Kills an agent; its runs go on."""
        self._agents[number].send_signal(signal.SIGKILL)
        self._agents[number].wait()

    def start_agent(self, number: int) -> None:
        """Starts an agent that was killed."""
        self._agents[number] = self._agent(number)

    def end(self) -> None:
        """Ends all."""
        for process in (*self._agents.values(), self._up):
            process.terminate()
        for process in (*self._agents.values(), self._up):
            process.wait(60)
        self._output.close()

    def _is_ready(self) -> bool:
        try:
            self.ask("GET", "/v1/cell")
        except OSError:
            return False
        return True

    def _agent(self, number: int) -> subprocess.Popen[bytes]:
        words = ("--data", str(self.data), "--host-id", f"host-{number}", "--folder", str(self._folder / f"{number}"))
        return self._start("agent", *words, "--resource", f"cpu={CORES}", "--resource", "memory=4GiB")

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*PACELINE, *words], stdout=self._output, stderr=self._output)


def record(recorded: Recorded, folder: Path, seconds: float) -> None:
    """Records one cell to a file in a folder."""
    with TemporaryDirectory(prefix="paceline-record-") as place:
        cell = Cell(Path(place))
        try:
            for pool in TEAMS:
                cell.ask("PUT", f"/v1/pools{pool}?wait=30s", {"share": 1, "preemption_delay": "3s"})
            while sum(host["state"] == "UP" for host in cell.ask("GET", "/v1/hosts")["hosts"]) < AGENTS:
                time.sleep(0.1)
            time.sleep(BEFORE_S)
            start = time.time()
            _play(cell, recorded, start + BEFORE_S, seconds)
        finally:
            cell.end()
        words = ("log", "export", "--data", str(cell.data), "--from", _iso(start), "--to", _iso(time.time()))
        subprocess.run([*PACELINE, *words, str(folder / f"{recorded.name}.avro")], check=True)


def _play(cell: Cell, recorded: Recorded, begin: float, seconds: float) -> None:
    """Submits jobs at their times, and kills."""
    whats: list[tuple[float, Any]] = [*arrivals(recorded, seconds)]
    if recorded.kills:
        for part in (0.3, 0.6):
            whats += [(part * seconds, cell.kill_agent), (part * seconds + 20, cell.start_agent)]
    for at_s, what in sorted(whats, key=lambda each: each[0]):
        time.sleep(max(0.0, begin + at_s - time.time()))
        if callable(what):
            what(AGENTS)
        else:
            cell.ask("POST", "/v1/jobs", what)
    while any(job["state"] in ("PENDING", "RUNNING") for job in cell.ask("GET", "/v1/jobs?page_size=1000")["jobs"]):
        time.sleep(1)


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def main() -> None:
    """Records both."""
    folder, seconds = Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else SECONDS
    folder.mkdir(parents=True, exist_ok=True)
    for recorded in CELLS:
        record(recorded, folder, seconds)


if __name__ == "__main__":
    main()
