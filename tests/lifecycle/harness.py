"""Feeds lifecycle with facts and other machines' decisions, and lets it decide until it is quiet."""

from collections.abc import Sequence

from events.columns import ints, pack_ints, pack_longs
from events.records.base import Event
from events.records.entitlement import PoolAnswered
from events.records.jobs import JobStopRequested, JobSubmitted
from events.records.placement import TasksPlaced
from events.records.pools import PoolDefined
from events.records.tasks import HostInventory, RunsReported
from processors.lifecycle.machine import Lifecycle
from processors.machine import Decided, Fact, PeerRound
from processors.table import State

Run = tuple[str, int, int]


def columns(runs: Sequence[Run]) -> dict[str, object]:
    names = sorted({job for job, _, _ in runs})
    return {
        "job_ids": tuple(names),
        "job": pack_ints([names.index(job) for job, _, _ in runs]),
        "instance": pack_ints([instance for _, instance, _ in runs]),
        "run": pack_ints([run for _, _, run in runs]),
    }


class World:
    def __init__(self) -> None:
        self.machine = Lifecycle()
        self.state = State(self.machine.tables, self.machine.peers)
        self.now = 1_700_000_000_000
        self.offsets: dict[str, int] = {}
        self.said: list[Event] = []
        self.fact("paceline.pools", PoolDefined(path="/p", command_id="1", open_jobs_max=3, open_tasks_max=1000))
        self.peer("entitlement", PoolAnswered(path="/p", pools_offset=0, command_id="1", code="DONE"))

    def fact(self, topic: str, event: Event) -> list[Event]:
        self.caught(event, topic)
        return self.quiet()

    def caught(self, event: Event, topic: str) -> None:
        """A fact that is applied and not decided on yet."""
        offset = self.offsets.get(topic, -1) + 1
        self.offsets[topic] = offset
        self.machine.apply(Fact(topic, offset, self.now, event))

    def peer(self, machine: str, *decisions: Event) -> list[Event]:
        self.machine.apply(PeerRound(machine, 1, self.now, decisions))
        return self.quiet()

    def quiet(self) -> list[Event]:
        """Decides until nothing is left; checks that deciding changes nothing that is hashed."""
        said: list[Event] = []
        while True:
            self.state.take_changes()
            before = self.state.rehash()
            assert before == self.state.hash, "a row changed and nobody said so"
            decisions = self.machine.decide(self.now, True, 1000)
            assert self.machine.decide(self.now, True, 1000) == decisions
            assert self.state.rehash() == before, "deciding changed the state"
            if not decisions:
                self.said += said
                wakeup = self.machine.next_wakeup()
                assert wakeup is None or wakeup > self.now, "a due timer decided nothing"
                return said
            for decision in decisions:
                self.machine.apply(Decided(self.now, decision))
            said += decisions

    def later(self, ms: int) -> list[Event]:
        self.now += ms
        return self.quiet()

    def restart(self) -> None:
        """Another process takes over from the rows."""
        rows = [(t.name, *pair) for t in self.state._tables.values() for pair in _packed(t)]
        self.machine = Lifecycle()
        self.state = State(self.machine.tables, self.machine.peers)
        self.state.load(rows)  # type: ignore[arg-type]
        self.machine.restored()

    # In users' words.

    def submit(self, job_id: str, **spec: object) -> list[Event]:
        spec = {"pool": "/p", "command": ("true",), **spec}
        return self.fact("paceline.jobs", JobSubmitted(job_id=job_id, **spec))  # type: ignore[arg-type]

    def stop(self, job_id: str) -> list[Event]:
        return self.fact("paceline.jobs", JobStopRequested(job_id=job_id, command_id=f"stop-{job_id}"))

    def place(self, *runs: Run, host: str = "h1") -> list[Event]:
        placed = TasksPlaced(
            **columns(runs),  # type: ignore[arg-type]
            host_ids=(host,),
            host_session=pack_longs([1]),
            host=pack_ints([0] * len(runs)),
        )
        return self.peer("placement", placed)

    def report(self, state: int, *runs: Run, exit_code: int = 0) -> list[Event]:
        event = RunsReported(
            gateway="g",
            host_ids=("h1",),
            **columns(runs),  # type: ignore[arg-type]
            host=pack_ints([0] * len(runs)),
            state=pack_ints([state] * len(runs)),
            exit_code=pack_ints([exit_code] * len(runs)),
        )
        return self.fact("paceline.tasks", event)

    def inventory(self, session: int, *runs: Run, state: int = 1, host: str = "h1") -> list[Event]:
        event = HostInventory(
            host_id=host,
            session=session,
            **columns(runs),  # type: ignore[arg-type]
            state=pack_ints([state] * len(runs)),
            exit_code=pack_ints([0] * len(runs)),
        )
        return self.fact("paceline.tasks", event)


def _packed(table: object) -> list[tuple[bytes, bytes]]:
    from processors.table import _pack_key

    return [(_pack_key(key), table._pack(row)) for key, row in table.items()]  # type: ignore[attr-defined]


def runs_of(event: Event) -> list[Run]:
    """The runs that a decision names."""
    rows = zip(ints(event.job), ints(event.instance), ints(event.run), strict=True)  # type: ignore[attr-defined]
    return [(event.job_ids[job], int(instance), int(run)) for job, instance, run in rows]  # type: ignore[attr-defined]


def kinds(said: Sequence[Event]) -> list[str]:
    return [type(event).__name__ for event in said]


def one(said: Sequence[Event], kind: type[Event]) -> Event:
    found = [event for event in said if isinstance(event, kind)]
    assert len(found) == 1, kinds(said)
    return found[0]
