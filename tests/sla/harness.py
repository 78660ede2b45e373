"""Feeds sla with lifecycle's decisions, and lets it decide until it is quiet."""

from collections.abc import Sequence

from events.columns import ints, pack_ints
from events.records.base import Event
from events.records.lifecycle import (
    DisruptionAsked,
    DisruptionWithdrawn,
    JobAccepted,
    JobChanged,
    JobsForgotten,
    RunsAvailable,
    RunsEnded,
)
from events.records.parts import Amounts
from events.records.sla import DisruptionAllowed, DisruptionDeferred
from processors.machine import Decided, PeerRound
from processors.sla.machine import Sla
from processors.table import RowChange, State

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
    def __init__(self, budget: int = 1000) -> None:
        self.budget = budget
        self._start()
        self.stored: dict[tuple[str, bytes], bytes] = {}
        self.may: list[Run] = []
        """All disruptions ever allowed."""
        self.deferred: list[DisruptionDeferred] = []

    def _start(self) -> None:
        self.machine = Sla()
        self.state = State(self.machine.tables, self.machine.peers)

    def peer(self, *decisions: Event) -> list[Run]:
        """A round of lifecycle; returns the disruptions that are allowed in answer."""
        self.machine.apply(PeerRound("lifecycle", 1, 0, decisions))
        return self.quiet()

    def quiet(self) -> list[Run]:
        before = len(self.may)
        for _ in range(1000):
            self._store()
            start = self.state.rehash()
            assert start == self.state.hash, "a row changed and nobody said so"
            decisions = self.machine.decide(0, True, self.budget)
            assert self.machine.decide(0, True, self.budget) == decisions
            assert self.state.rehash() == start, "deciding changed the state"
            assert self.machine.next_wakeup() is None
            if not decisions:
                return self.may[before:]
            for decision in decisions:
                self.machine.apply(Decided(0, decision))
                if isinstance(decision, DisruptionAllowed):
                    rows = zip(ints(decision.job), ints(decision.instance), ints(decision.run), strict=True)
                    self.may += [(decision.job_ids[job], int(instance), int(run)) for job, instance, run in rows]
                elif isinstance(decision, DisruptionDeferred):
                    self.deferred.append(decision)
        raise AssertionError("sla never comes to rest")

    def _store(self) -> None:
        for change in self.state.take_changes():
            if change.row is None:
                self.stored.pop((change.table, change.key), None)
            else:
                self.stored[change.table, change.key] = change.row

    def restart(self) -> None:
        """Another process takes over from the rows."""
        self._start()
        self.state.load([RowChange(table, key, row) for (table, key), row in self.stored.items()])
        self.machine.restored()

    # In users' words.

    def service(self, job_id: str, instances: int, max_unavailable: int | None, running: bool = True) -> None:
        accepted = JobAccepted(
            job_id=job_id,
            jobs_offset=0,
            pool="/p",
            kind="stateless",
            instances=instances,
            need=Amounts(cpu_milli=1),
            max_unavailable=max_unavailable,
        )
        self.peer(accepted)
        if running:
            self.up(*((job_id, instance, 1) for instance in range(instances)))

    def up(self, *runs: Run) -> list[Run]:
        return self.peer(RunsAvailable(**columns(runs)))  # type: ignore[arg-type]

    def down(self, *runs: Run) -> list[Run]:
        filler = {name: pack_ints([0] * len(runs)) for name in ("outcome", "exit_code", "kept")}
        return self.peer(RunsEnded(**columns(runs), **filler))  # type: ignore[arg-type]

    def ask(self, *runs: Run) -> list[Run]:
        return self.peer(DisruptionAsked(**columns(runs)))  # type: ignore[arg-type]

    def withdraw(self, *runs: Run) -> list[Run]:
        return self.peer(DisruptionWithdrawn(**columns(runs)))  # type: ignore[arg-type]

    def over(self, job_id: str) -> list[Run]:
        return self.peer(JobChanged(job_id=job_id, state="KILLED"))

    def forget(self, *job_ids: str) -> list[Run]:
        return self.peer(JobsForgotten(job_ids=job_ids))
