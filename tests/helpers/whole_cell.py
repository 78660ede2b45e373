"""A whole cell on the memory log in virtual time: the four machines, the gateway and simulated hosts, one thread."""

from events.codec import encode
from events.log.memory import MemoryLog
from events.log.port import NewRecord
from events.records.base import Event
from events.records.jobs import JobActionRequested, JobStopRequested, JobSubmitted
from events.records.parts import Simulated
from events.records.pools import PoolDefined
from events.resources import Amounts
from hostagent.fleet import Fleet, SimHost
from hostagent.gateway.component import Gateway
from processors.cell_machines import machines
from processors.lifecycle.machine import Lifecycle
from processors.runtime.deciding import Limits
from processors.runtime.driver import Driver
from processors.runtime.replay import Replayed, replay
from processors.runtime.store import MemoryStore

HOST = {"cpu": 4000, "memory": 16_384, "disk": 100_000}


class VirtualClock:
    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def monotonic_ms(self) -> int:
        return self.ms


class Cell:
    """`hosts` simulated hosts; machines may be killed and recovered at any time. `seed`: see `MemoryLog`."""

    def __init__(
        self,
        hosts: int = 3,
        capacity: Amounts = HOST,
        limits: Limits | None = None,
        number: int = 0,
        seed: int | None = None,
    ) -> None:
        self.clock = VirtualClock()
        self.log = MemoryLog(self.clock.monotonic_ms, number, seed)
        self.limits = limits
        self.stores = {name: MemoryStore() for name in machines()}
        self.drivers: dict[str, Driver] = {}
        for name in machines():
            self.recover(name)
        self.gateway = Gateway(self.log, None, self.clock, "g")
        self.fleet = Fleet(self.gateway, [SimHost(hosts, capacity)] if hosts else [], self.clock, session=1)

    def recover(self, name: str) -> None:
        """A new process takes a machine, from its store and the log."""
        make = machines(self.log.cell)[name]
        driver = Driver(make(), self.log, self.stores[name], self.clock, f"{name}-x", self.limits)
        for _ in driver.recover():
            pass
        self.drivers[name] = driver

    def quiet(self) -> None:
        """Steps everything until nothing has anything to do at this moment."""
        for _ in range(10_000):
            busy = False
            for driver in self.drivers.values():
                busy = driver.run() or not driver.idle() or busy
            busy = self.gateway.step() or busy
            busy = self.fleet.step() or busy
            if not busy and self.fleet.wait_ms() != 0:
                return
        raise AssertionError("the cell never comes to rest")

    def run(self, ms: int, step: int = 100) -> None:
        """Lets time pass."""
        self.quiet()
        for _ in range(ms // step):
            self.clock.ms += step
            self.quiet()

    def append(self, event: Event) -> None:
        self.log.append([NewRecord(event.topic, b"k", encode(event))])

    def pool(self, path: str, reservation: Amounts | None = None, **more: object) -> None:
        self.append(PoolDefined(path=path, command_id=path, reservation=reservation or {}, **more))  # type: ignore[arg-type]

    def submit(self, job_id: str, pool: str = "/p", duration_ms: int = 1000, **spec: object) -> None:
        simulated = spec.pop("simulated", None) or Simulated(duration_ms=duration_ms)
        self.append(JobSubmitted(job_id=job_id, pool=pool, simulated=simulated, **spec))  # type: ignore[arg-type]

    def stop(self, job_id: str) -> None:
        self.append(JobStopRequested(job_id=job_id, command_id=f"stop-{job_id}"))

    def delete(self, job_id: str) -> None:
        """Stops a job that runs first."""
        self.append(JobActionRequested(job_id=job_id, command_id=f"delete-{job_id}", action="delete", force=True))

    @property
    def lifecycle(self) -> Lifecycle:
        machine = self.drivers["lifecycle"].machine
        assert isinstance(machine, Lifecycle)
        return machine

    def state(self, job_id: str) -> str:
        return self.lifecycle.state_of(job_id) or "ABSENT"

    def verify(self) -> dict[str, Replayed]:
        """Replays every machine and checks that it comes to the same decisions and the same state."""
        found = {name: replay(make(), self.log) for name, make in machines(self.log.cell).items()}
        for name, result in found.items():
            assert result.difference is None, result.difference
            assert result.hash == self.drivers[name].fold.state.hash, name
        return found
