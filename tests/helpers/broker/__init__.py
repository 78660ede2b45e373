"""A real Kafka for tests and benchmarks: one KRaft node on 127.0.0.1, its data in a folder that the caller gives.

    with Broker(folder) as broker:
        KafkaLog(broker.address, cell=0)

Three of them as one cluster: `tests.helpers.broker.cluster`; with SASL and TLS: `tests.helpers.broker.security`.

Jars come from Maven Central once, by `pom.xml`, into `.kafka/` at the top of the checkout. Needs Java 17 and Maven.
"""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from uuid import uuid4

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.helpers import ROOT
from tests.helpers.broker.security import PASSWORD, USER, Security
from tests.helpers.ports import kept_port

HERE = Path(__file__).parent
CACHE = ROOT / ".kafka"
READY_SECONDS = 120
SETTINGS = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "broker.session.timeout.ms": "4000",  # so long a killed broker's name stays taken; a busy machine needs time too
    "broker.heartbeat.interval.ms": "200",
    "metadata.max.idle.interval.ms": "0",  # half of what an idle broker does is to write that nothing has happened
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "log.cleaner.dedupe.buffer.size": "4194304",  # its own is half the heap of a node of a cluster
}
JAVA = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
HEAP = "512m"
CLUSTER_ID = "cGFjZWxpbmUtdGVzdHMtMQ"


class BrokerFailed(Exception):
    """The broker did not start; the message holds the end of what it said."""


class Broker:
    """One broker. Its address stays the same through `stop`, `kill` and `start`. `security` adds listeners that ask
    for it; `controllers` are the ports of all nodes' controllers by number, where this is a node of a cluster; `java`:
    options in place of those that start it fast.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        security: Security | None = None,
        node: int = 1,
        controllers: Mapping[int, int] | None = None,
        heap: str = HEAP,
        java: Sequence[str] = (),
    ) -> None:
        install()
        self.node = node
        self.security = security
        self._folder = folder
        self._port = kept_port()
        self._controllers = controllers or {node: kept_port()}
        self._settings = {**SETTINGS, **(settings or {})}
        self._java = [*JAVA, f"-Xmx{heap}", *(java or (f"-XX:SharedArchiveFile={classes()}",))]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """What clients take as `bootstrap.servers`."""
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """The process that runs."""
        assert self._process is not None, "the broker isn't running"
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether its process is there, frozen or not."""
        return self._process is not None

    def ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def start(self) -> "Broker":
        """Starts it and waits until it answers. Raises `BrokerFailed`."""
        self.launch()
        try:
            self.wait_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def launch(self) -> None:
        """Starts its process and doesn't wait."""
        self._folder.mkdir(parents=True, exist_ok=True)
        if not (self._folder / "data").exists():
            self._format()
        properties = self._folder / "server.properties"
        write_properties(properties, self._all_settings())
        with (self._folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [*self._java, "-cp", f"{CACHE}/lib/*", "kafka.Kafka", str(properties)],
                stdout=output,
                stderr=output,
                start_new_session=True,  # a Ctrl-C in the terminal is for who started it
            )

    def wait_ready(self, brokers: int = 1) -> None:
        """Waits until it answers and knows so many brokers, itself included. Raises `BrokerFailed`."""
        end = monotonic() + READY_SECONDS
        while monotonic() < end:
            if self._process is None or self._process.poll() is not None:
                said = (self._folder / "output").read_text(errors="replace")[-2000:]
                raise BrokerFailed(f"the broker has ended: {said}")
            if listens(self._port) and brokers_at(self.address) >= brokers:
                return
            sleep(0.05)
        raise BrokerFailed(f"the broker did not answer within {READY_SECONDS} s")

    def lose_data(self) -> None:
        """Its disk is lost; it must not run."""
        assert self._process is None, "the broker runs"
        shutil.rmtree(self._folder / "data")

    def controller(self) -> tuple[int, int]:
        """The newest epoch of the cluster's controllers that this node knows, and the number of the active one."""
        known = self._folder / "data" / "__cluster_metadata-0" / "quorum-state"
        state = json.loads(known.read_text()) if known.exists() else {}
        return state.get("leaderEpoch", -1), state.get("leaderId", -1)

    def stop(self) -> None:
        """Lets it shut down by itself."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it at once, as a lost machine."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Freezes it: connections stay, nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)
        threads = Path(f"/proc/{self.pid}/task")
        while any(state(thread) != "T" for thread in threads.iterdir()):  # one that still runs may answer once more
            sleep(0.001)

    def resume(self) -> None:
        """Lets a frozen one go on."""
        os.kill(self.pid, signal.SIGCONT)

    def make_topics(self, names: Sequence[str], partitions: int, settings: Mapping[str, str]) -> None:
        """Makes topics anew, empty, and waits until the broker has them ready; a partition takes it about 10 ms."""
        self.remove_topics(names)
        admin = AdminClient({"bootstrap.servers": self.address})
        for made in admin.create_topics(
            [NewTopic(name, partitions, 1, config=dict(settings)) for name in names]
        ).values():
            made.result()
        self._wait_for_topics(admin, lambda there: set(names) <= there)

    def remove_topics(self, names: Sequence[str]) -> None:
        """Removes those of the topics that are there and waits until they are gone."""
        admin = AdminClient({"bootstrap.servers": self.address})
        there = [name for name in names if name in admin.list_topics(timeout=READY_SECONDS).topics]
        for removed in admin.delete_topics(there).values() if there else ():
            removed.result()
        self._wait_for_topics(admin, lambda there: not there & set(names))

    def __enter__(self) -> "Broker":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _wait_for_topics(self, admin: AdminClient, come: Callable[[Set[str]], bool]) -> None:
        end = monotonic() + READY_SECONDS
        while not come(admin.list_topics(timeout=READY_SECONDS).topics.keys()):
            if monotonic() > end:
                raise BrokerFailed(f"the topics were not ready within {READY_SECONDS} s")
            sleep(0.01)

    def _all_settings(self) -> dict[str, str]:
        listeners = [f"PLAINTEXT://{self.address}", f"CONTROLLER://127.0.0.1:{self._controllers[self.node]}"]
        voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in self._controllers.items())
        own = {
            **self._settings,
            "node.id": str(self.node),
            "controller.quorum.voters": voters,
            "log.dirs": str(self._folder / "data"),
        }
        if self.security:
            listeners += self.security.listeners()
            own |= self.security.settings()
        return {**own, "listeners": ",".join(listeners)}

    def _format(self) -> None:
        """A formatted data folder: a copy of the template under this node's own number and name."""
        data = self._folder / "data"
        shutil.copytree(formatted(), data)
        name = urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
        meta = {"version": "1", "cluster.id": CLUSTER_ID, "node.id": str(self.node), "directory.id": name}
        write_properties(data / "meta.properties", meta)

    def _end(self, number: int) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        self._process.wait(READY_SECONDS)
        self._process = None


def state(thread: Path) -> str:
    """The letter for the state of a thread, by its folder in /proc; T: stopped, or gone meanwhile."""
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "T"


def listens(port: int) -> bool:
    """Whether something takes connections on a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def answers(address: str) -> bool:
    """Whether a broker answers there."""
    return brokers_at(address) > 0


def brokers_at(address: str) -> int:
    """How many brokers the one that answers there knows; 0: nobody answers."""
    client = AdminClient({"bootstrap.servers": address, "log_level": 0})
    try:
        return len(client.list_topics(timeout=2).brokers)
    except KafkaException:
        return 0


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """Writes a broker's settings file."""
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))


def install() -> None:
    """Fetches the jars if they aren't there."""
    with _alone():
        if not any((CACHE / "lib").glob("kafka_*.jar")):
            subprocess.run(["mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), "process-resources"], check=True)


def formatted() -> Path:
    """A freshly formatted data folder to copy, made once: formatting takes as long as starting."""
    template = CACHE / "formatted-with-user"
    with _alone():
        if template.exists():
            return template
        draft = CACHE / "formatting"
        shutil.rmtree(draft, ignore_errors=True)
        properties = CACHE / "format.properties"
        listeners = "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"
        node = {"node.id": "1", "controller.quorum.voters": "1@127.0.0.1:9093", "log.dirs": str(draft)}
        write_properties(properties, {**SETTINGS, **node, "listeners": listeners})
        command = [*JAVA, "-cp", f"{CACHE}/lib/*", "kafka.tools.StorageTool", "format"]
        user = f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]"
        words = [*command, "-t", CLUSTER_ID, "-c", str(properties), "--add-scram", user]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the data folder of a broker could not be formatted: {done.stderr}")
        draft.rename(template)
    return template


def classes() -> Path:
    """What a broker has loaded when it is ready, made once: with it the next one needs half the CPU until then."""
    archive = CACHE / "classes.jsa"
    with _alone("classes.lock"):
        if not archive.exists():
            draft, folder = CACHE / "draft.jsa", CACHE / "first"
            shutil.rmtree(folder, ignore_errors=True)
            Broker(folder, java=[f"-XX:ArchiveClassesAtExit={draft}"]).start().stop()
            shutil.rmtree(folder)
            draft.rename(archive)
    return archive


@contextmanager
def _alone(name: str = "lock") -> Iterator[None]:
    """Keeps other test processes out of the cache folder meanwhile."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / name).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
