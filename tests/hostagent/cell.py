"""A cell without processors: its lifecycle says what the test tells it to say."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from fastapi import FastAPI

from events.acceptance import Chain
from events.codec import decode, encode
from events.codes import RunReport
from events.columns import Names, ints, pack_ints, pack_longs
from events.log.memory import MemoryLog
from events.log.port import NewRecord
from events.process.clock import Clock, SystemClock
from events.records.base import Event
from events.records.jobs import JobSubmitted
from events.records.lifecycle import HostReconciled, JobAccepted, RunsEnded, RunsOrdered, RunsStopping
from events.records.parts import Seen, Segment, TaskShape
from events.records.rounds import EpochStarted, RoundCommitted
from events.records.tasks import HostInventory, RunsReported
from events.rounds import accept, sealed
from events.signing_keys import SigningKeys
from hostagent.gateway import Gateway
from hostagent.gateway.agents import Agents
from hostagent.gateway.http import output_routes, routes, usage_routes
from hostagent.gateway.secrets.routes import agent_routes
from hostagent.gateway.secrets.store import SecretStore
from hostagent.listen_address import bound
from hostagent.server import Server as HttpServer
from paceline.client.proof import Proving

TOKEN = "secret"
Task = tuple[str, int, int]
Said = tuple[str, int, int, str, int]


class TestClock:
    __test__ = False

    def __init__(self) -> None:
        self.ms = 1_000_000

    def monotonic_ms(self) -> int:
        return self.ms


class Cell:
    """The log of a cell, a gateway, and a scripted lifecycle that settles every inventory."""

    def __init__(self, clock: Clock | None = None, path: Path | None = None) -> None:
        self.clock = clock or SystemClock()
        self.log = MemoryLog(self.clock.monotonic_ms)
        self.path = path
        self.chain = Chain()
        self.settled = 0
        claim = EpochStarted(
            cell=0, machine="lifecycle", epoch=1, claimant="test", logic=1, state=1, round=0, start_hash=b""
        )
        self._append(claim)
        self.gateway = self.new_gateway()
        self.others: list[Gateway] = []
        """Gateways that are stepped too."""

    def new_gateway(self) -> Gateway:
        self.gateway = Gateway(self.log, self.path, self.clock, "gateway")
        return self.gateway

    def _append(self, record: EpochStarted | RoundCommitted) -> None:
        [offset] = self.log.append([sealed(record)])
        accept(next(self.log.scan("paceline.lifecycle", offset)), self.chain, "lifecycle", 0)

    def decide(self, *decisions: Event) -> int:
        """A round of lifecycle; returns the position after it."""
        inputs = tuple(
            Segment(topic, self.chain.inputs.get(topic, 0), end)
            for topic in ("paceline.jobs", "paceline.tasks")
            if (end := self.log.bounds(topic)[1]) > self.chain.inputs.get(topic, 0)
        )
        self._append(
            RoundCommitted(
                cell=0,
                machine="lifecycle",
                epoch=1,
                round=self.chain.round + 1,
                now=self.clock.monotonic_ms(),
                caught_up=True,
                budget=1,
                inputs=inputs,
                skipped=(),
                inputs_hash=b"",
                start_hash=b"",
                seen=tuple(Seen(segment.topic, segment.end) for segment in inputs),
                decisions=tuple(map(encode, decisions)),
                prev_hash=self.chain.hash,
                logic=1,
                state=1,
            )
        )
        return self.chain.position

    def submit(self, *jobs: JobSubmitted) -> None:
        """Jobs, submitted and accepted."""
        offsets = self.log.append([NewRecord("paceline.jobs", b"", encode(job)) for job in jobs])
        self.decide(
            *(
                JobAccepted(
                    job_id=job.job_id,
                    jobs_offset=offset,
                    pool=job.pool,
                    kind=job.kind,
                    instances=job.instances,
                    shapes=(TaskShape({}, len(job.ports)),),
                    gang_min=job.gang_min,
                )
                for job, offset in zip(jobs, offsets, strict=True)
            )
        )

    def settle(self) -> bool:
        """Answers inventories that lifecycle has not seen: all that is believed there is."""
        end = self.log.bounds("paceline.tasks")[1]
        found = [decode(record.value) for record in self.log.scan("paceline.tasks", self.settled)]
        self.settled = end
        inventories = [each for each in found if isinstance(each, HostInventory)]
        if inventories:
            self.decide(
                *(HostReconciled(host_id=i.host_id, session=i.session, kept=0, ended=0, stopped=0) for i in inventories)
            )
        return bool(inventories)

    def turn(self) -> bool:
        """One step of the gateway and of lifecycle."""
        busy = self.gateway.step()
        for other in self.others:
            busy |= other.step()
        return self.settle() | busy

    def until(self, condition: Callable[[], object], seconds: float = 20.0) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"waited in vain; reported: {list(self.said())}"
            if not self.turn():
                time.sleep(0.005)

    def facts(self, topic: str, kind: type[Event]) -> list[Event]:
        events = (decode(record.value) for record in self.log.scan(topic, 0))
        return [event for event in events if isinstance(event, kind)]

    def said(self) -> Iterator[Said]:
        """All that was reported, one by one, as (job, instance, run, state, exit code)."""
        for fact in self.facts("paceline.tasks", RunsReported):
            assert isinstance(fact, RunsReported)
            columns = (fact.job, fact.instance, fact.run, fact.state, fact.exit_code)
            for job, instance, run, state, code in zip(*(ints(column).tolist() for column in columns), strict=True):
                yield fact.job_ids[job], instance, run, RunReport(state).name, code

    def why(self) -> list[str]:
        """All reasons that were reported."""
        return [text for fact in self.facts("paceline.tasks", RunsReported) for text in fact.reasons]  # type: ignore[attr-defined]

    def inventories(self) -> list[list[Said]]:
        out = []
        for fact in self.facts("paceline.tasks", HostInventory):
            assert isinstance(fact, HostInventory)
            columns = (fact.job, fact.instance, fact.run, fact.state, fact.exit_code)
            rows = zip(*(ints(column).tolist() for column in columns), strict=True)
            out.append([(fact.job_ids[j], i, r, RunReport(s).name, c) for j, i, r, s, c in rows])
        return out


def ordered(
    tasks: Sequence[Task], hosts: Sequence[str], ports: Sequence[int] = (), counts: Sequence[int] = ()
) -> RunsOrdered:
    """Runs with ports, so many each as `counts` says, else as many for each."""
    jobs, names = Names(), Names()
    job = pack_ints(jobs[task[0]] for task in tasks)
    host = pack_ints(names[name] for name in hosts)
    return RunsOrdered(
        job_ids=jobs.all(),
        job=job,
        instance=pack_ints(task[1] for task in tasks),
        run=pack_ints(task[2] for task in tasks),
        host_ids=names.all(),
        host_session=pack_longs([1] * len(names)),
        host=host,
        ports=pack_ints(ports),
        port_count=pack_ints(counts or [len(ports) // len(tasks)] * len(tasks)) if ports else b"",
    )


def stopping(tasks: Sequence[Task], hosts: Sequence[str], kill: Sequence[int] = ()) -> RunsStopping:
    """`kill`: 1 for each run that has not obeyed, 0 for the others."""
    order = ordered(tasks, hosts)
    return RunsStopping(
        job_ids=order.job_ids,
        job=order.job,
        instance=order.instance,
        run=order.run,
        host_ids=order.host_ids,
        host=order.host,
        cause=pack_ints([3] * len(tasks)),
        kill=pack_ints(kill),
    )


def ended(tasks: Sequence[Task]) -> RunsEnded:
    order = ordered(tasks, ["none"] * len(tasks))
    zero = pack_ints([0] * len(tasks))
    return RunsEnded(
        job_ids=order.job_ids,
        job=order.job,
        instance=order.instance,
        run=order.run,
        outcome=pack_ints([1] * len(tasks)),
        exit_code=zero,
        kept=zero,
    )


class Server:
    """The gateway's routes on a port of this machine."""

    def __init__(self, gateway: Gateway, secrets: SecretStore | None = None, keys: SigningKeys | None = None) -> None:
        app = FastAPI()
        agents = Agents(gateway, TOKEN)
        if secrets is not None:
            app.include_router(agent_routes(agents, secrets, keys))
        app.include_router(routes(agents))
        app.include_router(output_routes(gateway, TOKEN))
        app.include_router(usage_routes(gateway, TOKEN))
        app.add_middleware(Proving, token=TOKEN)
        held = bound("127.0.0.1:0")
        self._server = HttpServer(app, grace_s=1)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [held]}, daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.005)
        self.url = f"http://127.0.0.1:{held.getsockname()[1]}"

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()
