"""Random but lawful histories: jobs come, are held, run, fail, lose their hosts; some bytes are poison."""

import random
from collections.abc import Iterable

import msgspec

from events.codec import decode, encode
from events.codes import Outcome
from events.columns import pack_ints, pack_longs
from events.records.entitlement import EntitlementsSet, PoolAnswered
from events.records.hosts import HostBack, HostSilent
from events.records.jobs import JobActionRequested, JobStopRequested, JobUpdateRequested
from events.records.lifecycle import (
    CommandAnswered,
    InstancesReturned,
    InstancesTaken,
    JobRejected,
    UpdateEnded,
    UpdatePaused,
    UpdateProgressed,
    UpdateStarted,
)
from events.records.parts import Cause, UpdatePolicy
from events.records.placement import CapacityChanged, GangsReturned, HostLost, HostRemoved
from events.records.pools import PoolDefined, PoolRemoved
from events.records.tasks import RunsReported
from tests.helpers.machines import instances_changed
from tests.helpers.written_cell import (
    Cell,
    admitted,
    ended,
    gangs,
    held,
    job,
    placed,
    preempted,
    queued,
    ranked,
    runs,
    unplaced,
)


class LogSummary:
    """One history; everything follows from the seed. `slow`: machines hear of each other late."""

    def __init__(self, seed: int, slow: bool = False) -> None:
        self.random = random.Random(seed)
        self.cell = Cell(self.random if slow else None)
        self.jobs: dict[str, list[int]] = {}
        """Their instances."""
        self.ended: list[str] = []
        self.asked: list[tuple[str, int]] = []
        """Updates that users have asked for, and where."""
        self.updates: dict[str, int] = {}
        """The newest update of each job."""
        self.queued: dict[tuple[str, int], tuple[int, int]] = {}
        """Of tasks that wait, their run, and where lifecycle said so."""
        for step in range(60):
            self.cell.ms += self.random.choice([0, 0, 1, 7, 6_000, 500_000])
            self.random.choice(
                [
                    self.submit,
                    self.submit,
                    self.poison,
                    self.host,
                    self.hold,
                    self.order,
                    self.change,
                    self.end,
                    self.over,
                    self.forget,
                    self.stop,
                    self.reason,
                    self.ask_update,
                    self.update,
                    self.update,
                    self.define,
                    self.share,
                    self.share,
                    self.look_for_hosts,
                    self.lose_host,
                ]
            )(step)

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
            self.jobs[job_id] = list(range(size))
            said = self.cell.accept(job_id, at, first_run=step + 1, instances=size, retries={"max": 1})
            self.queued |= {(job_id, instance): (step + 1, said) for instance in range(size)}

    def define(self, step: int) -> None:
        """A pool comes, or goes; the machine may say so later."""
        path = self.random.choice(["/p", "/q", "/q/r"])
        kind = PoolRemoved if self.random.random() < 0.2 else PoolDefined
        at = self.cell.fact(kind(path=path, command_id="c"))
        if self.random.random() < 0.8:
            self.cell.decide("entitlement", PoolAnswered(path=path, pools_offset=at, command_id="c", code="DONE"))

    def share(self, step: int) -> None:
        """Entitlement says what pools may use, placement what there is."""
        paths = self.random.sample(["/", "/p", "/q", "/q/r", "/never"], 2)
        amounts = {
            kind: pack_longs([self.random.randrange(100_000) for _ in range(4)])
            for kind in ("entitlement", "demand", "allocation", "placed")
        }
        names = self.random.choice([("cpu", "memory"), ("cpu", "gpu")])
        self.cell.decide("entitlement", EntitlementsSet(pools=tuple(paths), resources=names, **amounts))
        self.cell.decide("placement", CapacityChanged(capacity={names[1]: step}, hosts=step, version=step))

    def poison(self, step: int) -> None:
        self.cell.put(self.random.choice(["paceline.jobs", "paceline.hosts", "paceline.sla"]), b"poison")

    def host(self, step: int) -> None:
        self.cell.host(f"h{self.random.randrange(3)}", session=step + 1)

    def lose_host(self, step: int) -> None:
        """A host falls silent, is heard again, or is given up."""
        of = {"host_id": f"h{self.random.randrange(3)}", "session": self.random.randint(1, step + 1)}
        self.cell.fact(self.random.choice([HostSilent, HostSilent, HostBack])(**of))
        if self.random.random() < 0.5:
            lost = HostLost(**of, code="SILENT", silent_ms=1), HostRemoved(**of, code="ASKED", left_ms=0)
            self.cell.decide("placement", self.random.choice(lost))

    def look_for_hosts(self, step: int) -> None:
        """Placement says something of tasks that wait for a place."""
        if not self.jobs:
            return
        job_id, instances = self.some()
        gang = self.random.randint(0, 1)
        said = [
            unplaced(job_id, self.random.choice(["NO_HOST_FITS", "NO_HOSTS"]), len(instances), size=1 + gang),
            GangsReturned(**gangs(job_id, instances, 1, gang), code="NO_HOST_FITS"),
            placed(job_id, instances, 1, "h1"),
        ]
        self.cell.decide("placement", self.random.choice(said))

    def some(self) -> tuple[str, tuple[int, ...]]:
        job_id = self.random.choice(sorted(self.jobs))
        have = self.jobs[job_id]
        return job_id, tuple(sorted(self.random.sample(have, min(len(have), 5))))

    def hold(self, step: int) -> None:
        """Entitlement says something of waiting tasks. It may not have heard what became of them since they wait."""
        waiting = sorted(key for key in self.queued if key[0] not in self.ended)
        if not waiting:
            return
        job_id, instance = self.random.choice(waiting)
        run, at = self.queued[job_id, instance]
        same = [key[1] for key in waiting if key[0] == job_id and self.queued[key][0] == run]
        instances = tuple(sorted(self.random.sample(same, min(len(same), 5))))
        entitled = self.random.randint(0, 1)
        code = self.random.choice(["LIMIT_REACHED", "BEHIND_IN_QUEUE"])
        said = self.random.choice(
            [
                held(job_id, instances, code, run),
                held(job_id, instances, code, run),
                admitted(job_id, instances, run, entitled),
                ranked(job_id, instances, run, entitled),
                preempted(step + 1, {job_id: instances}, job_id, run),
            ]
        )
        slow = self.cell.slow
        if self.cell.writers["entitlement"].positions["paceline.lifecycle"] <= at:
            self.cell.slow = None
        self.cell.decide("entitlement", said)
        self.cell.slow = slow

    def order(self, step: int) -> None:
        if self.jobs:
            job_id, instances = self.some()
            self.cell.run(job_id, instances, run=step + 1, host_id=f"h{self.random.randrange(3)}")
            self.leave(job_id, instances)

    def change(self, step: int) -> None:
        """A job gets instances, some of them far behind, and loses some that have no run."""
        going = [job_id for job_id in sorted(self.jobs) if job_id not in self.ended]
        if not going:
            return
        job_id = self.random.choice(going)
        have, far = self.jobs[job_id], self.random.choice([3, 900])
        lacking = sorted({*range(max(have, default=-1) + far)} - {*have})
        added = self.random.sample(lacking, min(len(lacking), 4))
        removed = self.random.sample(have, min(len(have), self.random.choice([0, 2])))
        decisions = [ended(job_id, tuple(removed), 5, run=step)] if removed else []
        changed = instances_changed(job_id, have, added, removed, step + 1)
        said = self.cell.decide("lifecycle", *decisions, changed, queued(job_id, tuple(added), step + 1))
        self.leave(job_id, removed)
        self.queued |= {(job_id, instance): (step + 1, said) for instance in added}
        self.jobs[job_id] = sorted({*have, *added} - {*removed})

    def end(self, step: int) -> None:
        if self.jobs:
            job_id, instances = self.some()
            outcome = self.random.randint(1, 6)
            self.cell.decide("lifecycle", ended(job_id, instances, outcome, run=step))
            self.leave(job_id, instances)
            if outcome == Outcome.PREEMPTED and job_id not in self.ended:
                again = queued(job_id, instances, step + 1, admitted=self.random.randint(0, 1))
                said = self.cell.decide("lifecycle", again)
                self.queued |= {(job_id, instance): (step + 1, said) for instance in instances}

    def leave(self, job_id: str, instances: Iterable[int]) -> None:
        """Tasks don't wait any more."""
        for instance in instances:
            self.queued.pop((job_id, instance), None)

    def over(self, step: int) -> None:
        going = [job_id for job_id in sorted(self.jobs) if job_id not in self.ended]
        if going:
            self.ended.append(self.random.choice(going))
            self.cell.changed("KILLED", self.ended[-1])

    def forget(self, step: int) -> None:
        """Ended jobs are forgotten; what others have said of them since may be read before or after."""
        gone, self.ended = self.ended[:3], self.ended[3:]
        if gone:
            self.cell.forget(*gone, "unknown")
        for job_id in gone:
            self.leave(job_id, self.jobs.pop(job_id))
            self.updates.pop(job_id, None)

    def stop(self, step: int) -> None:
        """Of a job that there may be, has been, or never was."""
        job_id = f"j{self.random.randrange(14)}"
        at = self.cell.fact(JobStopRequested(job_id=job_id, command_id=f"stop-{step}"))
        if self.random.random() < 0.8:
            going = job_id in self.jobs and job_id not in self.ended
            code = "DONE" if going else "ALREADY_ENDED" if job_id in self.jobs else "NOT_FOUND"
            answer = CommandAnswered(job_id=job_id, jobs_offset=at, command_id=f"stop-{step}", code=code)
            self.cell.decide("lifecycle", answer)

    def ask_update(self, step: int) -> None:
        """Of a job that there may be, has been, or never was; or a restart."""
        job_id = f"j{self.random.randrange(14)}"
        spec = encode(job(job_id, resources={"cpu": self.random.randint(1, 3), "memory": "512MiB"}, ports=["a"]))
        asked = JobUpdateRequested(job_id=job_id, command_id=f"u{step}", spec=spec, reason=f"reason {step}")
        restart = JobActionRequested(job_id=job_id, command_id=f"u{step}", action="restart")
        self.asked.append((job_id, self.cell.fact(self.random.choice([asked, restart, asked]))))

    def update(self, step: int) -> None:
        """A command is answered, and its update starts; or one goes on."""
        if self.asked and self.random.random() < 0.5:
            self.begin(*self.asked.pop(0))
        elif self.updates:
            job_id = self.random.choice(sorted(self.updates))
            self.go_on(job_id, self.updates[job_id])

    def begin(self, job_id: str, at: int) -> None:
        answer = CommandAnswered(job_id=job_id, jobs_offset=at, command_id="", code="NOT_FOUND")
        command = decode(next(iter(self.cell.log.scan("paceline.jobs", at))).value)
        if job_id not in self.jobs or job_id in self.ended:
            self.cell.decide("lifecycle", answer)
            return
        number = self.updates.get(job_id, 0) + 1
        restart = isinstance(command, JobActionRequested)
        started = UpdateStarted(
            job_id=job_id, number=number, kind="restart" if restart else "update", from_version=number,
            version=number + 1, like=number if restart else 0, jobs_offset=-1 if restart else at,
            policy=UpdatePolicy(), updated=1, cause=Cause(topic="paceline.jobs", offset=at),
            forgotten=pack_ints([number - 1] if number > 1 and self.random.random() < 0.3 else []),
        )  # fmt: skip
        done = msgspec.structs.replace(answer, code="DONE", version=number + 1, update=number)
        decisions = self.random.choice([(done, started), (started, done)])
        if self.random.random() < 0.5:
            self.cell.decide("lifecycle", *decisions)
        else:
            for each in decisions:
                self.cell.decide("lifecycle", each)
        self.updates[job_id] = number

    def go_on(self, job_id: str, number: int) -> None:
        columns = {"first": pack_ints([0]), "count": pack_ints([1])}
        about = {"job_id": job_id, "number": number}
        step = pack_ints([self.random.randint(1, 4)])
        counts = {"pending": 1, "flight": 1, "done": 1, "bad": 1}
        said = [
            InstancesTaken(**about, **columns),
            InstancesReturned(**about, **columns),
            UpdateProgressed(**about, **columns, step=step, **counts),
            UpdatePaused(**about, paused=True),
            UpdateEnded(**about, state="FAILED"),
        ]
        self.cell.decide("lifecycle", self.random.choice(said))

    def reason(self, step: int) -> None:
        """A host gives a reason for runs, old ones too."""
        job_id, run = f"j{self.random.randrange(12)}", self.random.randint(1, step + 1)
        one = pack_ints([1])
        reported = RunsReported(
            gateway="g", host_ids=("h0",), **runs(job_id, (0,), run), host=pack_ints([0]), state=one, exit_code=one,
            reason=one, reasons=(f"reason {step}",),
        )  # fmt: skip
        self.cell.fact(reported)
