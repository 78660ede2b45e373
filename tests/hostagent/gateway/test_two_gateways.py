"""Two gateways of one cell, with the real machines in virtual time: they freeze, die, return; agents change sides.

An agent here keeps the rules of the real one (`hostagent.agent`): sessions that grow, no order twice, reports until
they are acknowledged, the next gateway when one doesn't answer.
"""

import random
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from events.codec import decode
from events.codes import RunReport
from events.columns import ints
from events.records.base import Event
from events.records.hosts import HostConnected, HostSilent
from events.records.lifecycle import RunsOrdered
from events.records.placement import HostLost
from events.records.rounds import RoundCommitted
from hostagent.gateway import Gateway
from hostagent.gateway.connections import Attach, Connect, Detach, Report
from hostagent.gateway.facts import columns_of
from hostagent.messages import (
    HEARTBEAT_MS,
    Asked,
    Hello,
    OrderKind,
    Orders,
    RunState,
    SessionRefused,
    Welcome,
    line,
)
from tests.helpers import whole_cell as world
from tests.helpers.drawn import examples

PATIENCE_MS = 15_000
"""So long an agent waits for a sign of its gateway."""
CAPACITY = {"cpu": 4000, "memory": 16_384, "disk": 100_000}
NAMES = ("a", "b")
Key = tuple[str, int, int]


class Agent:
    """The agent of one host."""

    heard_ms = 0

    def __init__(self, site: "Site", host_id: str, at: int) -> None:
        self.site, self.host_id, self.at = site, host_id, at
        self.session = self.position = 0
        self.link: Stream | None = None
        self.heard = self.reported_at = site.clock.ms
        self.runs: dict[Key, RunState] = {}
        self.acknowledged: dict[Key, int] = {}
        self.ends: dict[Key, int] = {}
        self.started: list[Key] = []
        self.pending: int | None = None

    @property
    def gateway(self) -> Gateway | None:
        return self.site.gateways[NAMES[self.at]]

    def live(self) -> set[Key]:
        return {key for key, run in self.runs.items() if run.state == RunReport.STARTED}

    def step(self, now: int) -> None:
        for key, end in list(self.ends.items()):
            if end <= now:
                self.end(key, RunReport.EXITED, 0)
        if self.gateway is None or now - self.heard > PATIENCE_MS:
            self.lose()
        elif self.link is None and self.pending is None:
            self.connect(now)
        elif self.link is not None and (now - self.reported_at >= HEARTBEAT_MS or self.unreported()):
            self.report(now)

    def lose(self) -> None:
        """Goes to the next gateway."""
        self.link = self.pending = None
        self.at = (self.at + 1) % len(NAMES)
        self.heard = self.site.clock.ms

    def connect(self, now: int) -> None:
        self.session = self.pending = max(self.session + 1, now)
        session = self.session

        def done(answer: Welcome | SessionRefused) -> None:
            if self.pending != session:  # it has given up meanwhile
                return
            self.pending = None
            if isinstance(answer, SessionRefused):
                self.session = max(self.session, answer.session)
                self.lose()
                return
            self.heard = self.site.clock.ms
            self.link = Stream(self)
            assert self.gateway is not None
            self.gateway.post(Attach({self.host_id: session}, self.link))

        assert self.gateway is not None
        known = list(self.runs.values())
        hello = Hello(session, CAPACITY, runs=known, position=self.position)
        self.gateway.post(Connect(self.host_id, hello, done))

    def unreported(self) -> list[RunState]:
        return [run for key, run in self.runs.items() if self.acknowledged.get(key) != run.state]

    def report(self, now: int) -> None:
        self.reported_at = now
        link = self.link
        told = [(run, run.state) for run in self.unreported()]

        def done(current: bool) -> None:
            if self.link is not link:
                return
            if not current:
                self.lose()
                return
            self.heard = self.site.clock.ms
            for run, state in told:
                self.acknowledged[run.job_id, run.instance, run.run] = state

        assert self.gateway is not None
        states = [RunState(run.job_id, run.instance, run.run, state) for run, state in told]
        self.gateway.post(Report((self.session,), columns_of(self.host_id, states), done))

    def obey(self, orders: Orders) -> None:
        if orders.position < self.position or (orders.position == self.position and not orders.whole):
            return
        self.position = orders.position
        told = line(orders)
        items = [((told.jobs[item.job].job_id, item.instance, item.run), item.kind) for item in told.items]
        if orders.whole:
            for key in self.runs.keys() - {key for key, _ in items}:
                self.forget(key)
        for key, kind in items:
            if kind == OrderKind.FORGET:
                self.forget(key)
            elif kind == OrderKind.STOP:
                self.runs.setdefault(key, RunState(*key, state=RunReport.STARTED))
                self.end(key, RunReport.STOPPED, 143)
            elif key not in self.runs:
                self.runs[key] = RunState(*key, state=RunReport.STARTED)
                self.started.append(key)
                self.ends[key] = self.site.clock.ms + self.site.duration()

    def end(self, key: Key, state: RunReport, code: int) -> None:
        self.ends.pop(key, None)
        if self.runs[key].state == RunReport.STARTED:
            self.runs[key] = RunState(*key, state=state, exit_code=code)

    def forget(self, key: Key) -> None:
        self.ends.pop(key, None)
        self.runs.pop(key, None)


class Stream:
    """The `Link` of one session."""

    heard_ms = 0

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    def deliver(self, orders: Orders) -> None:
        if self.agent.link is self:
            self.agent.obey(orders)

    def ask(self, host_id: str, line: Asked) -> None:
        raise AssertionError("nobody asks for anything")

    def cut(self, host_id: str) -> None:
        if self.agent.link is self:
            self.agent.lose()


class Site(world.Cell):
    """A cell whose gateways are `a` and `b`; None: it is dead."""

    def __init__(self, hosts: int, seed: int = 0) -> None:
        super().__init__(hosts=0)
        self._draw = random.Random(seed)
        self.gateways: dict[str, Gateway | None] = {}
        for name in NAMES:
            self.start(name)
        self.frozen: set[str] = set()
        self.agents = [Agent(self, f"h{number}", number % len(NAMES)) for number in range(hosts)]
        self.pool("/p")
        self.run(1000)

    def start(self, name: str) -> None:
        """With nothing kept: it folds the log."""
        self.gateways[name] = Gateway(self.log, None, self.clock, name)

    def kill(self, name: str) -> None:
        """With it go its connections."""
        self.gateways[name] = None
        self.frozen.discard(name)
        for agent in self.agents:
            if NAMES[agent.at] == name:
                agent.lose()

    def duration(self) -> int:
        return self._draw.choice([100, 3000, 20_000])

    def quiet(self) -> None:
        for _ in range(10_000):
            busy = False
            for driver in self.drivers.values():
                busy = driver.run() or busy
            for name, gateway in getattr(self, "gateways", {}).items():
                if gateway is not None and name not in self.frozen:
                    busy = gateway.step() or busy
            if not busy:
                return
        raise AssertionError("the cell never comes to rest")

    def run(self, ms: int, step: int = 500) -> None:
        for _ in range(ms // step):
            self.clock.ms += step
            for agent in getattr(self, "agents", []):
                agent.step(self.clock.ms)
            self.quiet()

    def until(self, holds: Callable[[], bool], within_ms: int = 120_000) -> None:
        self.quiet()
        for _ in range(within_ms // 500):
            if holds():
                return
            self.run(500)
        raise AssertionError(f"not within {within_ms} ms")

    def facts(self, kind: type[Event]) -> list[Event]:
        found = (decode(record.value) for record in self.log.scan(kind.topic, 0))
        return [event for event in found if isinstance(event, kind)]

    def decided(self, machine: str, kind: type[Event]) -> list[Event]:
        rounds = (decode(record.value) for record in self.log.scan(f"paceline.{machine}", 0))
        values = [value for found in rounds if isinstance(found, RoundCommitted) for value in found.decisions]
        return [event for event in map(decode, values) if isinstance(event, kind)]

    def orders(self) -> list[Key]:
        """All runs that lifecycle ordered."""
        return [
            (order.job_ids[job], int(instance), int(run))
            for order in self.decided("lifecycle", RunsOrdered)
            if isinstance(order, RunsOrdered)
            for job, instance, run in zip(ints(order.job), ints(order.instance), ints(order.run), strict=True)
        ]

    def in_order(self, tasks: int) -> None:
        """Each task was run once and no host was lost."""
        assert self.decided("placement", HostLost) == []
        assert sorted(run for _, _, run in self.orders()) == [1] * tasks
        started = [key for agent in self.agents for key in agent.started]
        assert sorted(started) == sorted(self.orders())
        self.verify()


def test_a_host_whose_gateway_dies_goes_to_the_other_and_is_not_lost() -> None:
    site = Site(hosts=2)
    site.submit("before", instances=4)
    site.run(2000)
    site.kill("a")
    site.submit("while", instances=4)
    site.until(lambda: site.state("before") == site.state("while") == "SUCCEEDED")
    site.run(180_000)
    assert [agent.at for agent in site.agents] == [1, 1]
    assert site.facts(HostSilent) == []
    site.submit("after", instances=4)
    site.until(lambda: site.state("after") == "SUCCEEDED")
    site.in_order(12)


def test_both_know_the_hosts_of_each_other_and_see_who_went_with_its_gateway() -> None:
    site = Site(hosts=2)
    site.run(5000)
    for name in NAMES:
        gateway = site.gateways[name]
        assert gateway is not None
        assert {host_id: host.gateway for host_id, host in gateway._hosts.items()} == {"h0": "a", "h1": "b"}
    site.kill("a")
    gone = site.agents.pop(0)
    site.run(60_000)
    assert site.facts(HostSilent) == [HostSilent(host_id="h0", session=gone.session)]


def test_what_a_frozen_gateway_writes_late_changes_nothing() -> None:
    """It has a report and the hello of a session that its agent has given up in its hands when it freezes."""
    site = Site(hosts=1)
    agent = site.agents[0]
    site.submit("j")
    site.until(lambda: bool(agent.live()))
    agent.ends = dict.fromkeys(agent.live(), site.clock.ms + 60_000)
    site.frozen.add("a")
    a = site.gateways["a"]
    assert a is not None
    [key] = agent.live()
    late: list[object] = []
    states = [RunState(*key, state=RunReport.STARTED)]
    a.post(Report((agent.session,), columns_of("h0", states), late.append))
    given_up = Hello(agent.session + 1, CAPACITY, runs=[], position=0)
    site.until(lambda: agent.at == 1 and agent.link is not None, 30_000)
    a.post(Connect("h0", given_up, late.append))
    sessions = len(site.facts(HostConnected))
    site.frozen.discard("a")
    site.run(30_000)
    assert [type(each) for each in late] == [bool, Welcome], "it didn't know yet: both stand in the log"
    assert late[0]
    assert [event.session for event in site.facts(HostConnected)[sessions:]] == [given_up.session]  # type: ignore[attr-defined]
    assert a._hosts["h0"].gateway == "b"
    assert agent.live() == {key}, "an inventory without runs, but of an old session"
    site.until(lambda: site.state("j") == "SUCCEEDED")
    site.in_order(1)


def test_a_gateway_that_was_taken_for_dead_lets_its_hosts_connect_anew() -> None:
    site = Site(hosts=1)
    agent = site.agents[0]
    site.until(lambda: agent.link is not None)
    site.frozen.add("a")
    session = agent.session
    agent.heard = site.clock.ms + 60_000  # nothing is lost on its way: it waits, and hears nothing of a
    site.run(45_000)
    assert site.facts(HostSilent) == [HostSilent(host_id="h0", session=session)]
    site.frozen.discard("a")
    site.until(lambda: agent.session > session and agent.link is not None)
    site.submit("j")
    site.until(lambda: site.state("j") == "SUCCEEDED")
    site.in_order(1)


STEPS = st.one_of(
    st.tuples(st.sampled_from(["freeze", "thaw", "kill", "start"]), st.sampled_from(NAMES)),
    st.tuples(st.just("run"), st.sampled_from([500, 4000, 16_000])),
    st.tuples(st.just("move"), st.integers(0, 2)),
    st.tuples(st.just("submit"), st.integers(1, 5)),
)


@examples(30)
@given(st.lists(STEPS, min_size=5, max_size=25), st.integers(0, 2**16))
def test_no_order_is_lost_or_doubled_whatever_becomes_of_the_gateways(
    steps: list[tuple[str, str | int]], seed: int
) -> None:
    """One of the two goes on at any time, so that no host is without."""
    site = Site(3, seed)
    jobs: list[tuple[str, int]] = []
    for what, which in steps:
        if what == "run":
            site.run(int(which))
        elif what == "submit":
            jobs.append((f"j{len(jobs)}", int(which)))
            site.submit(jobs[-1][0], instances=int(which))
        elif what == "move":
            leave(site.agents[int(which)])
        else:
            trouble(site, what, str(which))
        started = [key for agent in site.agents for key in agent.started]
        assert len(started) == len(set(started))
    for name in NAMES:
        site.frozen.discard(name)
        if site.gateways[name] is None:
            site.start(name)
    site.until(lambda: all(site.state(job_id) == "SUCCEEDED" for job_id, _ in jobs))
    site.in_order(sum(instances for _, instances in jobs))


def leave(agent: Agent) -> None:
    """The connection of an agent breaks."""
    if agent.link is not None and agent.gateway is not None:
        agent.gateway.post(Detach(agent.link))
    agent.lose()


def trouble(site: Site, what: str, name: str) -> None:
    other = NAMES[1 - NAMES.index(name)]
    if what == "start" and site.gateways[name] is None:
        site.start(name)
    elif what == "thaw":
        site.frozen.discard(name)
    elif what in ("freeze", "kill") and site.gateways[other] is not None and other not in site.frozen:
        if what == "kill":
            site.kill(name)
        elif site.gateways[name] is not None:
            site.frozen.add(name)
