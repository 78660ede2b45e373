"""The processes of two cells are ended in every way under load, again and again; nothing may be lost or doubled.

A fault is followed by probes: a job in each cell that is submitted then and must succeed. The seconds until they have,
and the process that was ended says that it is ready, are the time back to full service: with its start, or, where it
stays away ("gone"), with the takeover by another, the session timeout of the group included. LIVE tasks run all the
time on simulated hosts of the first cell; each machine is taken over once before all else by a process that must fold
them from the log ("cold").
"""

import os
import random
import shutil
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from itertools import product
from pathlib import Path

from events.bounds import INSTANCES_MAX
from events.codec import encode
from events.log.port import NewRecord
from events.records.jobs import JobSubmitted
from events.records.parts import Constraint, Simulated
from events.topics import MACHINES
from paceline.services.settings import ServicePart
from tests.helpers.broker import Broker
from tests.helpers.drawn import ALL
from tests.helpers.site import SESSION_MS, Site
from tests.helpers.small_disk import SmallDisk, can_mount, small_disk
from tests.helpers.stormed import Stormed, stormed
from tests.storms.damage import FOREIGN, FULL, put_aside

POOLS = ("/p", "/q")
"""The pool of each cell."""
KINDS = (*MACHINES, "projector", "fanout", "gateway.0", "gateway.0.b", "gateway.1", "api", "agent.0")
STANDBYS = ("placement.b", "lifecycle.b", "gateway.0.b")
HOSTS = "gateway.0.hosts"
"""Simulates the hosts of the live tasks. Nothing happens to it: they would end with it, as real ones don't."""
DISK_OF, DISK = "fanout", "data/fanout"
"""Who writes to a small disk where there is one, and the folder that it is mounted at."""
DISK_MIB = 256
FREEZE_S = 1.5
"""So much longer than the session of the group: where there is a standby, it takes over."""
AWAY_S = 30.0 if ALL else 5.0
AGENT = "agent.0"
"""The one real host; all jobs of the first cell run there."""
PER_HOST = 100
"""Live tasks on a simulated host."""
DAY_MS = 86_400_000


def end(pid: int) -> None:
    """Kills a part of a host that may have ended since its pid was read."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class Storm:
    """Faults on two cells, with load beside them."""

    def __init__(self, site: Site, broker: Broker, seed: int, live: int = 0, disk: SmallDisk | None = None) -> None:
        """`disk`: what `DISK_OF` writes to."""
        self.site, self.broker = site, broker
        self._disk = disk
        self.draw = random.Random(seed)
        self.jobs: list[str] = []
        self.tasks = 0
        self.back_s: defaultdict[str, list[float]] = defaultdict(list)
        self._live = live
        self._stays_away: list[str] = []
        self._stands_in: list[str] = []
        self._ways: dict[str, Callable[[str], float]] = {
            "kill -9": self._killed,
            "kill -9 holder of": self._holder_killed,
            "kill -9 keepers of": self._keepers_killed,
            "SIGTERM": self._ended,
            "gone": self._gone,
            "cold": self._gone,
            "SIGSTOP": self._frozen,
            "rebalance": self._joined,
            "away": self._away,
            "foreign store": self._of_another,
            FULL: self._full,
        }

    def begin(self) -> None:
        """The pools, the tasks that run all the time, and takeovers by processes whose stores don't have them yet."""
        for cell, pool in enumerate(POOLS):
            self.site.pool(pool, cell)
        live = {f"live-{at}": min(INSTANCES_MAX, self._live - at) for at in range(0, self._live, INSTANCES_MAX)}
        for job_id, instances in live.items():
            self._submit(0, job_id, instances, 10, DAY_MS, (Constraint("os", "absent"),))
        for job_id, instances in live.items():
            self.site.until(
                lambda job_id=job_id, all_=instances: self.site.running(job_id) == all_, f"{job_id} to run", 180.0
            )
        for machine in MACHINES if live else ():
            self.fault("cold", machine)

    def load(self) -> None:
        """Some jobs, straight into the logs; the last are one in each cell."""
        for cell in (*self.draw.choices(range(len(POOLS)), k=self.draw.randrange(2)), *range(len(POOLS))):
            self.jobs.append(f"job-{len(self.jobs)}")
            self._submit(cell, self.jobs[-1], self.draw.choice([1, 20, 200]), 100, 500, ())

    def fault(self, way: str, name: str) -> None:
        """One fault under load, then the probes. Each way returns when a part was killed or left, or was back."""
        self.load()
        time.sleep(self.draw.uniform(0.0, 0.5))
        begin = self._ways[way](name)
        self.load()
        self.site.finish(*self.jobs[-len(POOLS) :])
        if self._ways[way] == self._gone:
            self.site.until(lambda: self._serves(f"{name}.b", len(POOLS)), f"{name}.b to serve all cells")
        elif name != "broker":
            self.site.until_ready(name)
        self.back_s[f"{way} {name}"].append(time.monotonic() - begin)
        self.site.start(*self._stays_away)
        self.site.until_ready(*self._stays_away)
        for other in self._stands_in:
            self.site.stop(other)
        self._stays_away.clear()
        self._stands_in.clear()
        self.site.note_hashes()

    def result(self) -> Stormed:
        """Waits for all jobs, ends all parts and counts. Raises where views or the fan-out aren't whole."""
        self.site.finish(*self.jobs)
        assert len(self.site.hashes.said) >= sum(map(len, self.back_s.values())), "states were noted after each fault"
        self.site.end()
        return stormed(self.site.count(), self.back_s, self.tasks, self._live)

    def _submit(
        self,
        cell: int,
        job_id: str,
        instances: int,
        cpu: int,
        duration_ms: int,
        constraints: tuple[Constraint, ...],
    ) -> None:
        job = JobSubmitted(
            job_id=job_id,
            pool=POOLS[cell],
            instances=instances,
            command=("sleep", str(duration_ms / 1000)),
            resources={"cpu": cpu, "memory": 16},
            retries_max=1,
            simulated=Simulated(duration_ms),
            constraints=constraints,
        )
        self.site.append(cell, NewRecord(job.topic, job_id.encode(), encode(job)))
        self.tasks += instances

    def _killed(self, name: str) -> float:
        begin = time.monotonic()
        if name == "broker":
            self.broker.kill()
            self.broker.start()
        else:
            self.site.kill(name)
            self.site.start(name)
        return begin

    def _holder_killed(self, name: str) -> float:
        """Who forks the keepers of a host is killed: its runs go on, and another one comes."""
        begin = time.monotonic()
        end(int((self.site.folder / name / "holder.lock").read_text().split()[0]))
        return begin

    def _keepers_killed(self, name: str) -> float:
        """Half of a host's keepers are killed, and their runs with them: each has vanished, and is run again."""
        begin = time.monotonic()
        for socket in sorted((self.site.folder / name / "keepers").glob("*.sock"))[::2]:
            end(int(socket.name.split(".")[1]))
        return begin

    def _gone(self, name: str) -> float:
        """It is killed, and comes back only when another has taken over: one that stands by, for this once where there
        is none.
        """
        other = f"{name}.b"
        if other not in STANDBYS:
            self.site.start(other)
            self._stands_in.append(other)
        self.site.until(lambda: self._serves(name) and self._serves(other), f"{name} and {other} to serve")
        begin = time.monotonic()
        self.site.kill(name)
        self._stays_away.append(name)
        return begin

    def _serves(self, name: str, cells: int = 1) -> bool:
        """Whether it does its work for so many cells at least; a gateway does for its own."""
        health = self.site.health(name) or {}
        return bool(health.get("ready")) and len(health.get("cells", POOLS)) >= cells

    def _ended(self, name: str) -> float:
        begin = time.monotonic()
        self.site.stop(name)
        self.site.start(name)
        return begin

    def _frozen(self, name: str) -> float:
        self.site.freeze(name)
        time.sleep(FREEZE_S + self.site.session_s)
        self.site.thaw(name)
        return time.monotonic()

    def _joined(self, name: str) -> float:
        """Another comes that the group prefers, and goes again: the first cell changes hands twice in the middle of
        its rounds.
        """
        other = f"{name}.c"
        self.site.start(other)
        self.site.until(lambda: self.site.owned(other), f"{other} to take the cell")
        epoch = self.site.owned(other)[0]
        self.load()
        begin = time.monotonic()
        self.site.stop(other)
        others = [each for each in self.site.names if each != other and each.partition(".")[0] == name]
        self.site.until(
            lambda: any(self.site.owned(each).get(0, 0) > epoch for each in others), f"another than {other} to take it"
        )
        return begin

    def _away(self, name: str) -> float:
        assert name == "broker"
        self.broker.stop()
        time.sleep(AWAY_S)
        assert not self.site.processes.ended(), "all parts wait for the broker"
        self.broker.start()
        return time.monotonic()

    def _of_another(self, name: str) -> float:
        """A machine's store of the first cell is that of the second, until its own is put back."""
        self.site.kill(name)
        own, other = (self.site.folder / "data" / f"cell-{cell}" / "store" / name for cell in range(len(POOLS)))
        with put_aside(own, self.site.folder / "aside"):
            shutil.copytree(other, own)
            self.site.start(name)
            self.site.until(
                lambda: any(said in self.site.status(name, 0).get("failed", "") for said in FOREIGN),
                f"{name} to say that a store isn't its own",
            )
            self.site.kill(name)
        begin = time.monotonic()
        self.site.start(name)
        return begin

    def _full(self, name: str) -> float:
        """A process finds no room on its disk for a while."""
        assert self._disk is not None
        assert name == DISK_OF
        said = len(self.site.said(name))
        self._disk.fill()
        self.load()
        self.site.until(lambda: "No space left on device" in self.site.said(name)[said:], f"{name} to find no room")
        self._disk.make_room()
        return time.monotonic()


def storm(folder: Path, broker: Broker, faults: Iterable[tuple[str, str]], seed: int, live: int = 0) -> Stormed:
    """Faults, each a way and the name of a part, one after the other; what was counted. In `make storm` the group waits
    as long for a member as it does by default.
    """
    session_ms = ServicePart().session_timeout_ms if ALL else SESSION_MS
    site = Site(folder, broker.address, len(POOLS), PACELINE_SERVICE__SESSION_TIMEOUT_MS=str(session_ms))
    site.sim_hosts |= {"gateway.0": 0, HOSTS: live // PER_HOST}  # what is gone with the first has an agent
    with ExitStack() as ends:
        disk = ends.enter_context(small_disk(folder / DISK, DISK_MIB)) if can_mount() else None
        ends.callback(site.processes.stop_all)
        site.begin(*STANDBYS, *([HOSTS] if live else []), AGENT)
        found = Storm(site, broker, seed, live, disk)
        found.begin()
        for way, name in faults:
            found.fault(way, name)
        return found.result()


def all_faults(seed: int) -> Iterator[tuple[str, str]]:
    """Each way at each part and those at the broker, in another order each time around, without end."""
    once = [
        *product(("kill -9", "SIGTERM", "kill -9", "SIGSTOP"), KINDS),
        *product(("gone",), ("placement", "lifecycle", *MACHINES, "fanout", "gateway.0")),
        *product(("kill -9 holder of", "kill -9 keepers of"), (AGENT, AGENT)),
        *product(("rebalance",), ("placement", "lifecycle", "entitlement", "sla")),
        ("kill -9", "broker"),
        ("away", "broker"),
        ("foreign store", "entitlement"),
        *([(FULL, DISK_OF)] if can_mount() else []),
    ]
    draw = random.Random(seed)
    while True:
        draw.shuffle(once)
        yield from once
