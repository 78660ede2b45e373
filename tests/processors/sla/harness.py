"""Sla by itself: what lifecycle says to it."""

from collections.abc import Sequence
from typing import Any

from events.codes import Outcome
from events.columns import pack_ints, pack_longs
from events.records.base import Event
from events.records.lifecycle import (
    DisruptionAsked,
    DisruptionWithdrawn,
    InstancesWanted,
    JobAccepted,
    JobChanged,
    JobSlaChanged,
    RunsAvailable,
    RunsEnded,
    RunsOrdered,
    RunsStopping,
)
from events.records.parts import TaskShape
from events.records.sla import DisruptionAllowed, DisruptionDeferred
from processors.sla.machine import Sla
from tests.helpers.machines import Alone, Run, columns, of, runs_of


class World(Alone[Sla]):
    def __init__(self, budget: int = 1000) -> None:
        super().__init__(Sla, budget)

    @property
    def may(self) -> list[Run]:
        """All disruptions ever allowed."""
        return let_go(self.said)

    @property
    def deferred(self) -> list[DisruptionDeferred]:
        return of(self.said, DisruptionDeferred)

    def hear(self, *decisions: Event) -> list[Run]:
        """A round of lifecycle; returns the disruptions that are allowed in answer."""
        return let_go(self.peer("lifecycle", *decisions))

    def look(self, copy: Sla) -> None:
        for job_id, counts in self.machine.available.counts.items():
            assert counts == self.machine.available.recount(job_id) == copy.available.counts[job_id]

    def service(
        self, job_id: str, instances: int, max_unavailable: int | None, running: bool = True, **fields: Any
    ) -> None:
        accepted = JobAccepted(
            job_id=job_id,
            jobs_offset=0,
            pool="/p",
            kind=fields.pop("kind", "stateless"),
            instances=instances,
            shapes=(TaskShape({"cpu": 1}),),
            max_unavailable=max_unavailable,
            **fields,
        )
        self.hear(accepted)
        if running:
            self.up(*((job_id, instance, 1) for instance in range(instances)))

    def up(self, *runs: Run) -> list[Run]:
        return self.hear(RunsAvailable(**columns(runs)))

    def down(self, *runs: Run) -> list[Run]:
        filler = {name: pack_ints([0] * len(runs)) for name in ("outcome", "exit_code", "kept")}
        return self.hear(RunsEnded(**columns(runs), **filler))

    def stopping(self, *runs: Run) -> list[Run]:
        host, cause = pack_ints([0] * len(runs)), pack_ints([Outcome.STOPPED] * len(runs))
        return self.hear(RunsStopping(**columns(runs), host_ids=("h",), host=host, cause=cause))

    def stop(self, job_id: str, first: int = 0, count: int = 0) -> list[Run]:
        """Instances shall not run; without a count all of the job."""
        return self._want(job_id, first, count, wanted=False)

    def start(self, job_id: str, first: int = 0, count: int = 0) -> list[Run]:
        return self._want(job_id, first, count, wanted=True)

    def _want(self, job_id: str, first: int, count: int, wanted: bool) -> list[Run]:
        some = {"first": pack_ints([first]), "count": pack_ints([count])} if count else {}
        return self.hear(InstancesWanted(job_id=job_id, wanted=wanted, **some))

    def ask(
        self, *runs: Run, why: int = 0, ago_s: int | None = None, unit: int = 0, hosts: Sequence[str] = ()
    ) -> list[Run]:
        """Asks for disruptions, wanted for so long; `unit` as in DisruptionAsked."""
        fields = {"why": why, "unit": unit}
        packed: dict[str, Any] = {name: pack_ints([value] * len(runs)) for name, value in fields.items() if value}
        if ago_s is not None:
            packed["since"] = pack_longs([self.now // 1000 - ago_s] * len(runs))
        return self.hear(DisruptionAsked(**columns(runs), host_ids=tuple(hosts), **packed))

    def order(self, *runs: Run, host: str) -> list[Run]:
        """Runs are ordered on a host."""
        on = {"host": pack_ints([0] * len(runs)), "host_session": pack_longs([1])}
        return self.hear(RunsOrdered(**columns(runs), host_ids=(host,), **on))

    def withdraw(self, *runs: Run) -> list[Run]:
        return self.hear(DisruptionWithdrawn(**columns(runs)))

    def sla(self, job_id: str, max_unavailable: int | None, **fields: Any) -> list[Run]:
        """A job has another SLA; where it had none, the columns among `fields` say what there is of it."""
        count = sum(fields.get("count", ()))
        return self.hear(JobSlaChanged.pack(job_id=job_id, max_unavailable=max_unavailable, instances=count, **fields))

    def over(self, job_id: str) -> list[Run]:
        return self.hear(JobChanged(job_id=job_id, state="KILLED"))


def let_go(said: list[Event]) -> list[Run]:
    return [run for event in of(said, DisruptionAllowed) for run in runs_of(event)]
