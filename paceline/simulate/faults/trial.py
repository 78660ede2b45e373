"""One trial: a scenario under faults that follow from its seed, and what must hold all the way and at the end.

    found = Trial(scenario, Faults(scenario.seed)).run()

Each machine has two processes with a disk each, of which one serves; the gateway and the hosts come and go. Once the
scenario has ended nothing goes wrong any more, all jobs are stopped, and the cell must come to rest with one outcome
for each job. Then, on every fifth seed, all machines decide their history again.
"""

import os
import random
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from events.codec import encode
from events.log.memory import MemoryLog
from events.log.port import AppendUnknown, LogUnavailable, NewRecord
from events.records.base import Event
from events.records.hosts import HostLossConfirmed
from events.records.jobs import JobStopRequested
from events.topics import MACHINES
from hostagent.fleet import Fleet
from hostagent.gateway import Gateway
from paceline.simulate.checker import Checker, Violation
from paceline.simulate.faults.crashing_process import RETRY_MS, Process
from paceline.simulate.faults.injection import HOUR_MS, Clock, Crashed, Faults, FaultyGateway, FaultyLog, InjectedFault
from paceline.simulate.faults.views_under_trial import Views
from paceline.simulate.scenario.parts import ScenarioJob
from paceline.simulate.scenario.scenario import Scenario
from paceline.simulate.world.cell import START_MS, USER, SimulatedComponent
from paceline.simulate.world.scripted_actions import Action, actions
from processors.cell_machines import machines
from processors.runtime.replay import replay

REST_MS = 1_800_000
"""So long a cell may take to come to rest once nothing goes wrong and no run comes to its end any more."""
REST_STEP_MS = 2000
"""Longer, and the gateway takes it for a pause of its own, in which nobody falls silent."""
IDLE_MS = 120_000
"""Longer than any wait for another try: whoever waits after that waits for good."""
LOOK_STEPS = 20
REPLAY_EACH = 5
"""Every so many seeds all machines decide their history again, which takes as long as the trial itself. Odd: so
cells of all kinds that a soak draws are among them."""
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where gateways keep their files, if it is there: no computer goes down in a trial, and a disk takes a tenth of it."""


class TrialResult(NamedTuple):
    """The result of a trial: facts and decisions, rounds, ignored ones, faults by kind; faults that the scenario names
    and that didn't happen.
    """

    events: int
    rounds: int
    ignored: int
    faults: dict[str, int]
    unmet: set[InjectedFault]


class Trial:
    """A cell, its users and its faults. The scenario says when it ends.

    `views`: a folder, for projections that live through it and are compared with rebuilt ones.
    """

    def __init__(
        self,
        scenario: Scenario,
        faults: Faults,
        views: Path | None = None,
    ) -> None:
        self.scenario = scenario
        self.faults = faults
        self.clock = Clock(at_ms=START_MS)
        self.log = MemoryLog(self.clock.monotonic_ms)
        self.faulty = FaultyLog(self.log, faults)
        self.factories = machines()
        self.checker = Checker(self.log)
        self.processes = [
            Process(
                machine, f"{machine}-{one}", self.factories[machine], self.faulty, faults, self.clock, scenario.seed
            )
            for machine in MACHINES
            for one in "ab"
        ]
        self.fleets: list[SimulatedComponent] = []
        self._views = None if views is None else Views(self.faulty, views, faults)
        self._order = random.Random(f"{scenario.seed}/order")
        self._silent_until: dict[str, int] = {}
        self._back_at = 0
        self._lost_hosts: set[str] = set()
        self._actions: Iterator[Action] = actions(scenario, self)
        self._action = next(self._actions, None)
        self._disk = TemporaryDirectory(prefix="paceline-trial-", dir=MEMORY)
        self._gateway_clock = Clock(self.clock, START_MS)
        self._gateway_asleep_until = 0
        self._gateway = self._new_gateway()
        self._facts: list[NewRecord] = []
        self._next_fact_at = 0

    def run(self) -> TrialResult:
        """Lets the scenario happen and everything go wrong, then lets the cell come to rest. Raises `Violation`."""
        try:
            with self._disk:
                return self._run()
        finally:
            if self._views is not None:
                self._views.close()

    def _run(self) -> TrialResult:
        for process in self.processes[::2]:
            process.start()
        assert self.scenario.end is not None, "a trial doesn't know when nothing more is to happen"
        end = START_MS + self.scenario.end
        steps = 0
        while self.clock.ms < end:
            self._step()
            steps += 1
            if steps % LOOK_STEPS == 0:
                self.checker.look()
        self._settle()
        self.checker.look()
        self.checker.settled()
        if self.scenario.seed % REPLAY_EACH == 0:
            self._replay()
        if self._views is not None and (differs := self._views.difference()):
            raise Violation(f"the views differ from rebuilt ones: {differs}")
        faults = self.faults
        return TrialResult(
            self.checker.events, self.checker.rounds, self.checker.history.ignored, faults.count(), faults.unmet()
        )

    def add(self, more: Iterable[Action]) -> None:
        """Has more happen, by time, after what happens then anyway."""
        self._actions = merge(self._actions, more, key=lambda action: action.at_ms)

    # What users and hosts need of a cell

    @property
    def gateway(self) -> Gateway:
        """The gateway that serves now."""
        return self._gateway

    def append(self, event: Event, key: bytes = USER) -> None:
        """A user's or an operator's fact, after those before: a client sends it until the log has acknowledged it."""
        self._facts.append(NewRecord(event.topic, key, encode(event)))

    def add_fleet(self, name: str, factories: Callable[[Gateway], Fleet]) -> SimulatedComponent:
        """Simulated hosts that connect to the gateway."""
        part = SimulatedComponent(name, factories(self._gateway))
        self.fleets.append(part)
        return part

    def lose(self, name: str) -> None:
        """The processes of a machine, or the gateway, are gone until they are healed."""
        self._lost_hosts.add(name)
        for process in self.processes:
            if process.machine == name:
                process.crash()

    def heal(self, name: str) -> None:
        """A new process takes the place of those that are gone."""
        self._lost_hosts.discard(name)
        if name == "gateway":
            self._gateway = self._new_gateway()

    # One step

    def _step(self) -> None:
        self.clock.ms += self._order.choice([0, 1, 10, 100, 1000])
        while self._action is not None and START_MS + self._action.at_ms <= self.clock.ms:
            self._action.do()
            self._action = next(self._actions, None)
        self._go_wrong()
        self._parts(self._order.choice([1, 5, 40]))

    def _parts(self, turns: int) -> bool:
        """Steps all parts that aren't paused, in a drawn order; returns whether any was busy."""
        busy = False
        order = list(self.processes)
        self._order.shuffle(order)
        for process in order:
            for _ in range(turns):
                if not process.step():
                    break
            busy |= not process.idle
        busy |= self._clients_step()
        busy |= self._gateway_steps()
        heard_ms = self._gateway_clock.monotonic_ms()
        for part in self.fleets:
            if isinstance(part.component, Fleet) and self.clock.ms >= self._silent_until.get(part.name, 0):
                part.component.heard_ms = heard_ms
                busy |= part.component.step()
        if self._views is not None:
            busy |= self._views.step()
            if silent := self._views.unexplained():
                raise Violation(f"nothing is said of why tasks of job {silent} neither run nor are over")
        return busy

    def _clients_step(self) -> bool:
        """Sends the facts of users and operators that aren't acknowledged."""
        busy = False
        while self._facts and self.clock.ms >= self._next_fact_at:
            busy, self.faulty.held_ms = True, 0
            try:
                self.faulty.append([self._facts[0]])
                del self._facts[0]
                self._next_fact_at = self.clock.ms + self.faulty.held_ms
            except (AppendUnknown, LogUnavailable):
                self._next_fact_at = self.clock.ms + 1 + self._order.randrange(RETRY_MS)
        return busy

    def _gateway_steps(self) -> bool:
        if "gateway" in self._lost_hosts or self.clock.ms < self._gateway_asleep_until:
            return False
        self.faulty.held_ms = 0
        try:
            busy = self._gateway.step()
        except Crashed:
            self._gateway, busy = self._new_gateway(), True
        if self.faulty.held_ms:
            self._gateway_asleep_until = self.clock.ms + self.faulty.held_ms
        return busy

    # What goes wrong

    def _go_wrong(self) -> None:
        hit = self.faults.hit
        if draw := hit("crash"):
            process = draw.choice(self.processes)
            if process.driver is None:
                self.faults.missed()
            process.crash()
        if draw := hit("pause"):
            draw.choice(self.processes).asleep_until = self.clock.ms + draw.randrange(60_000)
        if (draw := hit("takeover")) and not self._start(draw.choice(self.processes)):
            self.faults.missed()
        if draw := hit("clock jump"):
            draw.choice(self._clocks()).turn(jump_ms=draw.choice([-HOUR_MS, HOUR_MS]))
        if draw := hit("clock stands"):
            draw.choice(self._clocks()).turn(rate=0)
        if draw := hit("clock twice as fast"):
            draw.choice(self._clocks()).turn(rate=2)
        if hit("gateway lost"):
            self._gateway = self._new_gateway()
        if (draw := hit("host silent")) and self.fleets:
            self._silent_until[draw.choice(self.fleets).name] = self.clock.ms + draw.randrange(600_000)
        elif draw:
            self.faults.missed()
        if draw := hit("log away"):
            self.faulty.away, self._back_at = True, self.clock.ms + draw.randrange(30_000)
        if self.faulty.away and self.clock.ms >= self._back_at:
            self.faulty.away = False
        if self._order.random() < 0.02:
            self.faulty.write_late()
        machine = self._order.choice(MACHINES)  # somebody notices that nobody serves it
        ours = [process for process in self.processes if process.machine == machine]
        if not any(process.driver for process in ours):
            self._start(self._order.choice(ours))

    def _clocks(self) -> list[Clock]:
        return [*(process.clock for process in self.processes), self._gateway_clock]

    def _start(self, process: Process) -> bool:
        """Starts a process, unless its machine is lost; returns whether it did."""
        starts = process.machine not in self._lost_hosts
        if starts:
            process.start()
        return starts

    def _new_gateway(self) -> Gateway:
        """On what its disk holds: the fold as it was a while ago."""
        folder = Path(self._disk.name) / "gateway"
        gateway = FaultyGateway(self.faulty, folder, self._gateway_clock, "gateway").spoil(self.faults)
        for part in self.fleets:
            if isinstance(part.component, Fleet):
                part.component.move(gateway)
        return gateway

    # The end

    def _settle(self) -> None:
        """Nothing goes wrong any more: the cell must come to rest."""
        self.faults.calm = True
        self.faulty.away = False
        while self.faulty.late:
            self.faulty.write_late()
        self._silent_until, self._lost_hosts, self._gateway_asleep_until, self._next_fact_at = {}, set(), 0, 0
        self._gateway_clock.turn(rate=1)
        self._gateway = self._new_gateway()
        for process in self.processes:
            process.crash()
            process.asleep_until = 0
            process.clock.turn(rate=1)
        for process in self.processes[::2]:
            process.start()
        self._stop([job_id for job_id, kind in self._jobs().items() if kind != "batch"], "service")
        if self._until_idle():
            self.checker.stalled()
        elif self._longest_ms() < REST_MS // 2:
            raise Violation(f"runs go on, and for {REST_MS // 1000} s none has come to its end")
        self._stop([*self._jobs()], "end")
        if not self._until_idle(for_ms=0):
            raise Violation("the cell doesn't come to rest: all jobs are stopped, and some have no outcome")

    def _stop(self, job_ids: list[str], why: str) -> None:
        for job_id in job_ids:
            self.append(JobStopRequested(job_id=job_id, command_id=f"{why}-{job_id}"), job_id.encode())

    def _until_idle(self, for_ms: int = IDLE_MS) -> bool:
        """Goes on until no job is open, or nothing has run for so long; False: that doesn't come, though no run comes
        to its end any more. An operator gives up the hosts that don't come back.
        """
        end, idle_since, confirmed = self.clock.ms + REST_MS, self.clock.ms, set[str]()
        ended_unasked = self.checker.ended_unasked
        submitted = self._jobs()
        put_off = HOUR_MS * sum(hit.kind == "clock jump" for hit in self.faults.hits)
        """So long may be put off what a clock has timed that jumped each time."""
        while self.clock.ms < end:
            while self._parts(200):
                pass
            self.checker.look()
            if not self.checker.open_jobs(submitted):
                return True
            if self.checker.ended_unasked != ended_unasked:
                ended_unasked, end = self.checker.ended_unasked, max(end, self.clock.ms + REST_MS)
            if self.checker.live():
                idle_since = self.clock.ms
            elif 0 < for_ms <= self.clock.ms - idle_since:
                if not put_off:
                    return True
                self.clock.ms += put_off
                idle_since, end, put_off = self.clock.ms, end + put_off, 0
            for host_id in self.checker.silent_hosts():
                if host_id not in confirmed:
                    confirmed.add(host_id)
                    self.append(HostLossConfirmed(host_id=host_id, command_id=f"lost-{host_id}"), host_id.encode())
            self.clock.ms += REST_STEP_MS
        return False

    def _submitted(self) -> list[ScenarioJob]:
        return [*self.scenario.jobs, *(event.submit for event in self.scenario.events if event.submit)]

    def _jobs(self) -> dict[str, str]:
        """The jobs that were submitted, and of what kind they are."""
        return {str(job.job_id): job.kind for job in self._submitted()}

    def _longest_ms(self) -> int:
        """The most milliseconds that a run of a batch job takes."""
        plays = [job.fact(self.scenario.seed).simulated for job in self._submitted() if job.kind == "batch"]
        return max((max((play.duration_ms, *play.durations_ms)) for play in plays if play), default=0)

    def _replay(self) -> None:
        """Each machine decides its history again, to the same state."""
        for process in self.processes[::2]:
            result = replay(self.factories[process.machine](), self.log)
            if result.difference is not None:
                raise Violation(str(result.difference))
            if process.driver is None or result.hash != process.driver.fold.state.hash:
                raise Violation(f"live and replayed state of {process.machine} differ")
