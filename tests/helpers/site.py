"""Cells whose parts are processes of their own, on a real Kafka: started, asked, killed, verified from the log.

Names of parts: `placement`, or `placement.b` for a second one on another "machine", with a data folder of its own;
`gateway.1` is the one of cell 1, `gateway.1.b` a second one; `agent.1` is a host of cell 1.
"""

import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx2

from events.log.kafka.kafka_log import KafkaLog
from events.log.port import NewRecord
from events.topics import EVERY, MACHINES, SETTINGS
from processors.cell_machines import machines
from processors.runtime.replay import replay
from processors.runtime.store import Progress, RocksStore
from projections.views import tables
from projections.views.comparison import rows_of
from projections.views.projector import rebuild
from tests.helpers.asking import ask
from tests.helpers.broker import Broker
from tests.helpers.forked import ForkedProcesses
from tests.helpers.hashes import Hashes, Said
from tests.helpers.ports import kept_address
from tests.helpers.real_cell import rounds_in_sequence, runs_in_sequence, violations
from tests.projections.fanout.complete import caught_up, whole

TOKEN = "secret"
SESSION_MS = 1500
READY_S = 120.0
POLL_S = 0.05
NOWHERE = "127.0.0.1:9"
PAGE_S = 5.0
"""A page that doesn't answer for so long is taken for one of a process that is frozen, or gone."""


class Site:
    """Everything on one broker; `cells` partitions."""

    def __init__(self, folder: Path, bootstrap: str, cells: int = 1, sim_hosts: int = 4, **settings: str) -> None:
        self.folder, self.bootstrap, self.cells = folder, bootstrap, cells
        self.sim_hosts = defaultdict(lambda: sim_hosts)
        """Hosts that a gateway simulates, by its name."""
        self.names: dict[str, None] = {}
        """Of all parts that were started once, in that order."""
        self._gateways: dict[str, str] = {}
        """Their addresses, which agents and APIs are told before they start."""
        self.hashes = Hashes()
        environment = {
            "PACELINE_KAFKA": bootstrap,
            "PACELINE_TOKEN": TOKEN,
            "PACELINE_SERVICE__SESSION_TIMEOUT_MS": str(SESSION_MS),
            **settings,
        }
        self.session_s = int(environment["PACELINE_SERVICE__SESSION_TIMEOUT_MS"]) / 1000
        self.processes = ForkedProcesses(folder / "logs", environment)

    def start(self, *names: str) -> None:
        """Starts parts, each after those it is to know. A gateway keeps its address over restarts."""
        for name in names:
            self.names[name] = None
            self._address_file(name).unlink(missing_ok=True)
            self.processes.start(name, self._command(name))

    def gateway(self, name: str) -> str:
        """The address of a gateway, which may start later."""
        if name not in self._gateways:
            self._gateways[name] = kept_address()
        return self._gateways[name]

    def address(self, name: str) -> str:
        """Where a part listens; an address where nobody answers while it hasn't said."""
        file = self._address_file(name)
        return file.read_text().strip() if file.exists() and name in self.processes.names() else NOWHERE

    def begin(self, *more: str) -> None:
        """Starts one of each kind and waits until all are ready."""
        names = [*MACHINES, "projector", "fanout", *(f"gateway.{cell}" for cell in range(self.cells)), "api", *more]
        self.start(*names)
        self.until_ready(*names)

    def until_ready(self, *names: str) -> None:
        """Waits until parts do their work; agents have no pages."""
        for name in names:
            if not name.startswith("agent"):
                self.until(lambda name=name: self.ready(name), f"{name} to be ready")

    def ready(self, name: str) -> bool:
        """Whether a part says that it does its work."""
        return bool((self.health(name) or {}).get("ready"))

    def health(self, name: str) -> dict[str, Any] | None:
        """What /readyz of a part says; None where it doesn't answer."""
        with suppress(httpx2.TransportError, ValueError):
            return dict(ask(f"http://{self.address(name)}/readyz", timeout=PAGE_S).json())
        return None

    def status(self, name: str, cell: int) -> dict[str, Any]:
        """What /readyz of a part says of a cell; empty where it doesn't answer, or hasn't the cell."""
        return dict((self.health(name) or {}).get("cells", {}).get(str(cell), {}))

    def owned(self, name: str) -> dict[int, int]:
        """The cells that a processor decides for, with the epoch of each."""
        cells = (self.health(name) or {}).get("cells", {})
        return {int(cell): progress["epoch"] for cell, progress in cells.items() if progress.get("epoch")}

    def until(self, holds: Callable[[], Any], what: str = "", timeout_s: float = READY_S) -> Any:
        """Waits for a condition and returns what it came to; raises with what all parts have said."""
        deadline = time.monotonic() + timeout_s
        while not (found := holds()):
            if time.monotonic() > deadline or self.processes.ended():
                said = {name: self.processes.output(name).read_text()[-1500:] for name in self.names}
                raise AssertionError(
                    f"waited for {what or holds}:\n" + "\n".join(f"{n}:\n{t}" for n, t in said.items())
                )
            time.sleep(POLL_S)
        return found

    def until_ended(self, name: str) -> int:
        """Waits until a part has ended by itself; returns its code."""
        deadline = time.monotonic() + READY_S
        while name not in self.processes.ended():
            assert time.monotonic() < deadline, f"{name} goes on: {self.said(name)}"
            time.sleep(POLL_S)
        return self.processes.stop(name)

    def request(self, method: str, path: str, body: Any = None, api: str = "api") -> httpx2.Response:
        """Asks an API server."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        url = f"http://{self.address(api)}{path}"
        return ask(url, method, json=body, headers=headers)

    def pool(self, path: str, cell: int = 0) -> None:
        """Defines a pool in a cell and waits for the answer."""
        answer = self.request("PUT", f"/v1/pools{path}?wait=20s", {"reservation": {}, "cell": cell})
        assert answer.status_code == 201, answer.text

    def submit(self, job_id: str, instances: int = 1, duration: str = "300ms", pool: str = "/p", **more: Any) -> None:
        """Submits a job of simulated tasks."""
        spec = {"job_id": job_id, "pool": pool, "instances": instances, "resources": {"cpu": "100m"}}
        answer = self.request("POST", "/v1/jobs", {**spec, "sim": {"duration": duration}, **more})
        assert answer.status_code < 300, answer.text

    def state(self, job_id: str) -> str:
        """The state of a job in the views; empty where there is none."""
        with suppress(httpx2.TransportError):
            answer = self.request("GET", f"/v1/jobs/{job_id}")
            return str(answer.json()["state"]) if answer.status_code == 200 else ""
        return ""

    def running(self, job_id: str) -> int:
        """How many tasks of a job run, in the views."""
        with suppress(httpx2.TransportError):
            answer = self.request("GET", f"/v1/jobs/{job_id}")
            return int(answer.json()["tasks"]["running"]) if answer.status_code == 200 else 0
        return 0

    def finish(self, *job_ids: str) -> None:
        """Waits until jobs have succeeded."""
        for job_id in job_ids:
            self.until(lambda job_id=job_id: self.state(job_id) == "SUCCEEDED", f"{job_id} to succeed")

    def kill(self, name: str) -> None:
        """SIGKILL."""
        self.processes.kill(name)

    def stop(self, name: str) -> None:
        """SIGTERM; it must end by itself, with 0."""
        code = self.processes.stop(name)
        assert code == 0, f"{name} has ended with {code}: {self.processes.output(name).read_text()[-2000:]}"

    def freeze(self, name: str) -> None:
        """SIGSTOP."""
        self.processes.send(name, signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """SIGCONT."""
        self.processes.send(name, signal.SIGCONT)

    def said(self, name: str) -> str:
        """What a part has said."""
        return self.processes.output(name).read_text()

    def append(self, cell: int, *records: NewRecord) -> list[int]:
        """Writes to the log of a cell, as a stranger may."""
        with closing(KafkaLog(self.bootstrap, cell)) as log:
            return log.append(records)

    def remove(self, cell: int, topic: str, before: int) -> None:
        """The records of a topic before an offset are gone."""
        with closing(KafkaLog(self.bootstrap, cell)) as log:
            log.truncate(topic, before)

    def end(self) -> None:
        """Ends everything; each part must end by itself, with 0."""
        codes = self.processes.stop_all()
        wrong = {name: self.said(name)[-1500:] for name, code in codes.items() if code}
        assert not wrong, (codes, wrong)

    def note_hashes(self) -> None:
        """Keeps the state that each machine says it has now, to be compared with what its rounds say."""
        self.hashes.note(self._said_hashes)

    def note_hash(self, machine: str, round_: int, hash_: str, cell: int = 0) -> None:
        """The same for the state that a machine had after a round."""
        self.hashes.said[cell, machine, round_] = hash_

    def _said_hashes(self) -> Said:
        said = {}
        for name in self.names:
            machine = name.partition(".")[0]
            for cell, progress in ((self.health(name) or {}).get("cells", {}) if machine in MACHINES else {}).items():
                if progress.get("epoch"):
                    said[int(cell), machine, progress["round"]] = progress["hash"]
        return said

    def verify(self) -> dict[str, int]:
        """What must hold of stopped cells: see `count`; no task doubled, no state that differs, no promise broken."""
        counted = self.count()
        assert counted["doubled"] == counted["hash_mismatches"] == counted["violations"] == 0, counted
        return counted

    def count(self) -> dict[str, int]:
        """Counts of stopped cells: runs, see `runs_in_sequence`; machines whose replay differs, and states that were
        noted or stand in a store and are not those of the rounds (`hash_mismatches`); logs that break a promise
        (`violations`); `ignored: CAUSE`. Rebuilt views must agree with what is there, and the fan-out, which is given
        time to end its work, must have published it all.
        """
        counted = Counter({"hash_mismatches": 0})
        for cell in range(self.cells):
            log = KafkaLog(self.bootstrap, cell)
            try:
                for name, make in machines(cell).items():
                    found = replay(make(), log)
                    if found.difference is not None:
                        print(found.difference)  # noqa: T201
                    after, ignored = rounds_in_sequence(log, name)
                    after[found.begun + found.rounds] = found.hash
                    counted["hash_mismatches"] += found.difference is not None
                    counted["hash_mismatches"] += self.hashes.differing(cell, name, after)
                    counted["hash_mismatches"] += sum(
                        after.get(progress.own.round) != progress.hash for progress in self._stores(cell, name)
                    )
                    counted.update({f"ignored: {cause}": count for cause, count in ignored.items()})
                counted.update(runs_in_sequence(log))
                counted["violations"] += violations(log)
                self._views_agree(log, cell)
            finally:
                log.close()
        if "fanout" in self.names:
            self._fan_out_whole()
        return dict(counted)

    def _stores(self, cell: int, machine: str) -> Iterable[Progress]:
        """Where the stores of a machine stand, in all data folders."""
        for folder in self.folder.glob(f"data*/cell-{cell}/store/{machine}"):
            store = RocksStore(folder)
            progress = store.progress()
            store.close()
            if progress is not None:
                yield progress

    def _fan_out_whole(self) -> None:
        self.start("fanout")
        self.until(lambda: caught_up(self.health("fanout"), self.cells), "the fan-out to catch up")
        self.stop("fanout")
        for cell in range(self.cells):
            whole(self.bootstrap, cell)

    def _views_agree(self, log: KafkaLog, cell: int) -> None:
        """The views that were kept, brought to the end of the log, against views made anew."""
        kept = rebuild(log, self.folder / "data" / f"cell-{cell}")
        folder = self.folder / "anew" / f"cell-{cell}"
        folder.mkdir(parents=True, exist_ok=True)
        anew = rebuild(log, folder)
        for table in tables.metadata.sorted_tables:
            with kept.connect() as left, anew.connect() as right:
                rows = [sorted(map(repr, rows_of(each, table))) for each in (left, right)]
            assert rows[0] == rows[1], (
                f"views of cell {cell} differ in {table.name}: {[set(a) - set(b) for a, b in (rows, rows[::-1])]}"
            )
        kept.dispose()
        anew.dispose()

    def _command(self, name: str) -> list[str]:
        kind, *rest = name.split(".")
        data = self.folder / (f"data-{rest[-1]}" if rest[-1:] in (["b"], ["c"]) else "data")
        member = f"0.{kind}" if rest[-1:] == ["c"] else name  # the first by name is given the first cell
        listen = self.gateway(name) if kind == "gateway" else "127.0.0.1:0"
        common = ["--data", str(data), "--listen", listen, "--address-file", str(self._address_file(name))]
        common += ["--name", member]
        if kind in MACHINES:
            return ["paceline", "processor", kind, *common]
        if kind == "gateway":
            return ["paceline", kind, "--cell", rest[0], "--sim-hosts", str(self.sim_hosts[name]), *common]
        if kind == "agent":
            gateways = self._flags("--server", f"gateway.{rest[0]}")
            return ["paceline", kind, *gateways, "--folder", str(self.folder / name), "--host-id", name]
        return ["paceline", kind, *common, *(self._flags("--gateway", "gateway") if kind == "api" else ())]

    def _flags(self, flag: str, kind: str) -> Iterable[str]:
        for name, listen in self._gateways.items():
            if name.startswith(kind):
                yield from (flag, f"http://{listen}")

    def _address_file(self, name: str) -> Path:
        return self.folder / "logs" / f"{name}.address"


def empty(broker: Broker, cells: int) -> str:
    """Makes the topics anew and returns the broker's address."""
    broker.make_topics([topic.name for topic in EVERY], cells, SETTINGS)
    return broker.address
