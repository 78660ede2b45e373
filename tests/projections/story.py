"""Random but lawful histories: jobs come, are held, run, fail, lose their hosts; some bytes are poison."""

import random

from events.records.entitlement import GangsHeld
from events.records.lifecycle import JobRejected
from events.records.parts import Amounts
from tests.projections.cell import CORE, Cell, ended


class Story:
    """One history; everything follows from the seed. `slow`: machines hear of each other late."""

    def __init__(self, seed: int, slow: bool = False) -> None:
        self.random = random.Random(seed)
        self.cell = Cell(self.random if slow else None)
        self.jobs: dict[str, int] = {}
        for step in range(60):
            self.cell.ms += self.random.choice([0, 0, 1, 7])
            self.random.choice([self.submit, self.submit, self.poison, self.host, self.hold, self.order, self.end])(
                step
            )

    def submit(self, step: int) -> None:
        job_id = f"j{self.random.randrange(12)}"
        size = self.random.choice([1, 3, 700])
        at = self.cell.submit(job_id, instances=size, retries={"max": 1})
        if self.random.random() < 0.2:
            return
        if job_id in self.jobs:
            self.cell.decide("lifecycle", JobRejected(job_id=job_id, jobs_offset=at, code="ID_TAKEN", message="m"))
        elif self.random.random() < 0.2:
            self.cell.decide("lifecycle", JobRejected(job_id=job_id, jobs_offset=at, code="TOO_LARGE", message="m"))
        else:
            self.jobs[job_id] = size
            self.cell.accept(job_id, at, instances=size, retries={"max": 1})

    def poison(self, step: int) -> None:
        self.cell.put(self.random.choice(["paceline.jobs", "paceline.hosts", "paceline.sla"]), b"poison")

    def host(self, step: int) -> None:
        self.cell.host(f"h{self.random.randrange(3)}", session=step + 1)

    def some(self) -> tuple[str, tuple[int, ...]]:
        job_id = self.random.choice(sorted(self.jobs))
        size = self.jobs[job_id]
        return job_id, tuple(sorted(self.random.sample(range(size), min(size, 5))))

    def hold(self, step: int) -> None:
        if self.jobs:
            code = self.random.choice(["LIMIT_REACHED", "BEHIND_IN_QUEUE"])
            self.cell.decide("entitlement", GangsHeld(job_id=self.some()[0], pool="/p", code=code, tasks=3, asked=CORE,
                                                      free=Amounts()))  # fmt: skip

    def order(self, step: int) -> None:
        if self.jobs:
            job_id, instances = self.some()
            self.cell.run(job_id, instances, run=step + 1, host_id=f"h{self.random.randrange(3)}")

    def end(self, step: int) -> None:
        if self.jobs:
            job_id, instances = self.some()
            self.cell.decide("lifecycle", ended(job_id, instances, self.random.randint(1, 6), run=step))
