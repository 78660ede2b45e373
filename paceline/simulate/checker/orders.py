"""Checks orders to preempt at entitlement's positions: for whom, of whom, by which right, how often.

Times are compared to the second: so machines keep them.
"""

from collections import Counter
from collections.abc import Container
from typing import NamedTuple

from events.columns import ints, longs
from events.records.base import Event
from events.records.entitlement import (
    AdmissionsRanked,
    EntitlementsSet,
    PreemptionRefused,
    PreemptionsOrdered,
)
from events.records.placement import PreemptionAsked
from paceline.simulate.checker.history import Round, Violation
from paceline.simulate.checker.items import Task, gangs_of, ranks_of, runs_of, upwards
from paceline.simulate.checker.pools import Pools
from paceline.simulate.checker.revocations import REVOCABLE
from paceline.simulate.checker.rules import CLEAR, GIVE, LIMIT, MOVE, OWN, Giver, Taker, slice_ms, why_not

SECOND_MS = 1000


class Unit(NamedTuple):
    """A gang or a task, as records name it."""

    job_id: str
    first: int
    size: int
    run: int

    def tasks(self) -> list[Task]:
        """Its tasks."""
        return [(self.job_id, instance) for instance in range(self.first, self.first + self.size)]


class _Ask(NamedTuple):
    """An ask of placement: when, and the victims."""

    at_ms: int
    victims: set[tuple[Task, int]]


class Orders:
    """Follows asks, orders and refusals. `pools` has taken the round before."""

    def __init__(self, pools: Pools) -> None:
        self._pools = pools
        self._units = pools.units
        self._asked: dict[Unit, list[_Ask]] = {}
        """Asks that have no answer."""
        self._leave: dict[str, set[tuple[Task, int]]] = {}
        """The same of hosts that offer less than their runs hold."""
        self.entitled: dict[str, dict[str, int]] = {}
        """The amounts that pools may use, as last published."""

    def round(self, round_: Round) -> None:
        """Takes a round of entitlement. Raises `Violation`."""
        for _, _, event, now in round_.inputs:
            if isinstance(event, PreemptionAsked):
                self._ask(event, now, round_)
        for event in round_.decisions:
            self._decided(event, round_)

    def settled(self) -> None:
        """For a cell that has nothing left to do. Raises `Violation`."""
        if self._asked or self._leave:
            raise Violation(f"the cell is at rest: {[*self._asked][:3]} asked for victims and have no answer")

    def _ask(self, event: PreemptionAsked, now: int, round_: Round) -> None:
        """Placement asks again where it has waited for an answer as long as room is held, by its clock."""
        unit = Unit(event.job_id, event.first, event.count, event.run)
        if not event.job_id:
            self._leave[event.host_ids[0]] = victims_of(event)
            return
        before = self._asked.setdefault(unit, [])
        if before and now - before[-1].at_ms < self._pools.settings.hold_for_ms:
            raise Violation(f"{round_} hears that {unit} asks for victims again, before it has an answer")
        before.append(_Ask(now, victims_of(event)))

    def _answer(self, unit: Unit) -> set[tuple[Task, int]] | None:
        """The victims of the first ask for a unit, which has an answer now; None: it hasn't asked."""
        if unit not in self._asked:
            return None
        first, *others = self._asked.pop(unit)
        if others:
            self._asked[unit] = others
        return first.victims

    def _decided(self, event: Event, round_: Round) -> None:
        match event:
            case EntitlementsSet():
                rows = longs(event.entitlement).reshape(len(event.pools), len(event.resources)).tolist()
                self.entitled |= {
                    path: dict(zip(event.resources, row, strict=True))
                    for path, row in zip(event.pools, rows, strict=True)
                }
            case PreemptionRefused() if not event.job_id:
                victim = ((event.victim_job_id, event.victim_instance), event.victim_run)
                hosts = [host_id for host_id, victims in self._leave.items() if victim in victims]
                if not hosts:
                    raise Violation(f"{round_} refuses that {victim} leaves its host, which wasn't asked to")
                del self._leave[hosts[0]]
            case PreemptionRefused():
                unit = Unit(event.job_id, event.first, event.count, event.run)
                if self._answer(unit) is None:
                    raise Violation(f"{round_} refuses victims for {unit}, which hasn't asked")
            case AdmissionsRanked():  # of the first ask it is the answer: its unit was parked, and has room
                units = {Unit(*gangs[:-1]) for gangs, rank in ranks_of(event) if rank == 1}
                first = next(iter(self._asked), None)
                if first in units:
                    self._answer(first)
            case PreemptionsOrdered():
                self._ordered(event, round_)

    def _ordered(self, event: PreemptionsOrdered, round_: Round) -> None:
        unit = Unit(event.for_job, event.for_first, event.for_count, event.for_run)
        ways = {*ints(event.way).tolist()}
        victims = runs_of(event)
        if not victims:
            raise Violation(f"{round_} orders nobody to leave for {unit}")
        for task, run in victims:
            admission = self._units.held.get(task)
            if admission is None or admission.run != run:
                raise Violation(f"{round_} preempts {task} run {run}, which holds nothing")
            if not self._units.jobs[task[0]].preemptible:
                raise Violation(f"{round_} preempts {task} run {run}, which isn't preemptible")
            if task in self._units.leaving:
                raise Violation(f"{round_} preempts {task} run {run}, which leaves already")
        self._units.order(event, round_.now_ms)
        for gang in gangs_of((task for task, _ in victims), self._units.gangs):
            held_by = self._units.held
            stays = [
                task for task in gang.tasks() if task in held_by and self._units.left.get(task) != held_by[task].run
            ]
            if stays:
                raise Violation(f"{round_} preempts a part of a gang: {gang}, not {stays[:3]}")
        if not event.for_job:
            if self._leave.pop(event.host_ids[0], None) != {*victims}:
                raise Violation(f"{round_} orders {victims[:3]} to leave {event.host_ids}, which weren't asked to")
            return
        planned = self._answer(unit) if event.host_ids else set()
        under_limits = {each for each, way in zip(victims, ints(event.way).tolist(), strict=True) if way == LIMIT}
        if planned != {*victims} - under_limits:
            raise Violation(f"{round_} orders {victims[:3]} to leave for {unit}, which hasn't asked for that")
        if event.code == "REBALANCED" and (why := self._pools.move(event.for_job, len(victims), round_.now_ms)):
            raise Violation(f"{round_} has {victims[:3]} moved for {unit}: {why}")
        self._check_unit(event, unit, ways, round_)
        if why := _Order(self._pools, event, unit, self.entitled, round_).why_not():
            raise Violation(f"{round_} orders {victims[0][0]} and others to leave for {unit}: {why}")

    def _check_unit(self, event: PreemptionsOrdered, unit: Unit, ways: Container[int], round_: Round) -> None:
        settings, now = self._pools.settings, round_.now_ms
        job = self._units.jobs[unit.job_id]
        what = f"{round_} orders others to leave for {unit}"
        if job.pool != event.for_pool:
            raise Violation(f"{what} of {job.pool}, it says {event.for_pool}")
        pool = self._pools.defined.get(job.pool)
        delay = pool.preemption_delay_ms if pool is not None else None
        delay = settings.preemption_delay_ms if delay is None else delay
        by_limit = LIMIT in ways
        if delay > 0 and not any(way in ways for way in (OWN, GIVE, CLEAR, LIMIT)):
            delay = 0 if self._pools.is_rebalanced(unit.job_id, now) else delay
        for task in [task for task in unit.tasks() if self._units.ended.get(task, 0) < unit.run]:
            admission = self._units.held.get(task)
            if by_limit and admission is None and self._units.queued.get(task) == unit.run:
                continue  # the limit keeps it from being admitted
            if admission is None or admission.run != unit.run or not admission.entitled or admission.placed_ms:
                raise Violation(f"{what}, of which {task} is no claim: {admission}")
            if by_limit and not asked_for(event):
                continue  # what was lent of what it would hold comes back at once
            if delay < 0 or now - admission.due_ms + SECOND_MS < delay:
                raise Violation(f"{what}, which is entitled for {now - admission.due_ms} ms, the delay is {delay}")
            lately = self._units.displaced(task, now)
            if lately and now - lately[-1] + SECOND_MS < settings.settle_ms:
                raise Violation(f"{what}, which was displaced {now - lately[-1]} ms ago itself")


def victims_of(event: PreemptionAsked) -> set[tuple[Task, int]]:
    """The victims of an ask."""
    jobs = [event.job_ids[at] for at in ints(event.job).tolist()]
    tasks = zip(jobs, ints(event.instance).tolist(), strict=True)
    return {*zip(tasks, ints(event.victim_run).tolist(), strict=True)}


def asked_for(event: PreemptionsOrdered) -> bool:
    """Whether placement asked for any victim of an order."""
    return any(way != LIMIT for way in ints(event.way).tolist())


class _Order:
    """One order, judged by given entitlements: those said last before it."""

    def __init__(
        self, pools: Pools, event: PreemptionsOrdered, unit: Unit, entitled: dict[str, dict[str, int]], round_: Round
    ) -> None:
        self._pools, self._units, self._settings = pools, pools.units, pools.settings
        self._event, self._unit, self._round = event, unit, round_
        self._entitled = entitled
        self._taken: Counter[str] = Counter()
        self._gone: set[Task] = set()
        self._below_reservation = event.code == "BELOW_RESERVATION"

    def why_not(self) -> str:
        """The first thing that is wrong with it; empty: nothing is."""
        event = self._event
        pools = [event.from_pools[at] for at in ints(event.from_pool).tolist()]
        columns = zip(runs_of(event), ints(event.way).tolist(), ints(event.slice).tolist(), pools, strict=True)
        if self._below_reservation and (code := self._isnt_below()):
            return code
        for (task, run), way, by_slice, pool in columns:
            if task in self._gone:
                continue  # it is of the gang of one before it
            members = tuple(each for each in self._units.unit(task) if self._units.left.get(each) == run)
            why = self._why_stays(task, members, way, by_slice, pool)
            if why:
                return f"{task} stays, {why}"
            self._gone.update(members)
        return ""

    def _isnt_below(self) -> str:
        need, reserved = self._units.needs(self._unit.tasks()), False
        for path in upwards(self._event.for_pool):
            placed, pool = self._placed(path), self._pools.defined.get(path)
            reserved |= pool is not None and any(
                placed[name] < pool.reservation.get(name, 0) for name in need if need[name]
            )
        return "" if reserved else f"{self._event.for_pool} isn't below its reservation"

    def _placed(self, pool: str) -> Counter[str]:
        """The amounts of a pool that have a place and aren't leaving for the orders before this one, less the victims
        before.
        """
        placed = self._units.placed(pool, self._round.now_ms)
        for task, order in self._units.leaving.items():
            same = order.order == self._event.order and task not in self._gone
            admission = self._units.held.get(task)
            if (
                same
                and admission is not None
                and admission.placed_ms
                and pool in ("/", *upwards(self._units.jobs[task[0]].pool))
            ):
                placed.update(self._units.need(task))
        return placed

    def _why_stays(self, task: Task, members: tuple[Task, ...], way: int, by_slice: int, pool: str) -> str:
        units, settings, now = self._units, self._settings, self._round.now_ms
        job, taker = units.jobs[task[0]], units.jobs[self._unit.job_id]
        if job.pool != pool:
            return f"it is of {job.pool}, not {pool}"
        if way != LIMIT and not all(units.held[each].placed_ms for each in members):
            return "it has no place"
        if any(units.spared_ms.get(each, 0) > now for each in members):
            return "sla has refused it a while ago"
        if taker.kind == "daemon":
            return self._why_not_for_daemon(task, members, way, by_slice)
        often = max((len(units.displaced(each, now)) for each in members), default=0)
        if often >= settings.preemptions_per_hour and self._isnt_below():  # its code may name a way instead
            return f"it was displaced {often} times in this hour"
        yields = units.priority[task[0]] < units.priority[taker.job_id] or not units.held[task].entitled
        on_slack, for_slack = (REVOCABLE in units.need(each) for each in (task, (taker.job_id, self._unit.first)))
        if for_slack and not on_slack:
            return "what runs on slack takes nothing from work that doesn't"
        yields |= on_slack and not for_slack
        if way == OWN:
            return "" if job.pool == taker.pool and yields else "it isn't below its pool's gang"
        slice_over = self._slice_over(members)
        if by_slice and not slice_over:
            return "its slice isn't over"
        waited = now - min((units.held[each].due_ms for each in self._unit.tasks() if each in units.held), default=now)
        if way in (MOVE, CLEAR):
            return self._why_not_moved(job.pool == taker.pool, way, slice_over, waited)
        if way == GIVE and job.pool == taker.pool:
            return "it is of the same pool"
        return self._gives(members, pool, bool(by_slice)) if way == GIVE else ""

    def _why_not_for_daemon(self, task: Task, members: tuple[Task, ...], way: int, by_slice: int) -> str:
        """Checks a victim for a daemon: any work of its own pool, of others what is above their entitlement first; then
        what has a place elsewhere, then any.
        """
        job, taker = self._units.jobs[task[0]], self._units.jobs[self._unit.job_id]
        if by_slice and not self._slice_over(members):
            return "its slice isn't over"
        if way == OWN:
            return "" if job.pool == taker.pool else "it is of another pool"
        if way != GIVE:
            return ""
        entitled = self._entitled.get(job.pool, {})
        need = self._units.needs(self._unit.tasks())
        giver = Giver(self._placed(job.pool), entitled, self._within(job.pool, entitled))
        why = why_not(
            self._units.needs(members), giver, Taker(need, Counter(), need, True), self._taken, bool(by_slice)
        )
        self._taken.update(self._units.needs(members))
        return why

    def _within(self, pool: str, entitled: dict[str, int]) -> dict[str, int]:
        """The part of its entitlement that is within its reservation."""
        defined = self._pools.defined.get(pool)
        reserved = defined.reservation if defined is not None else {}
        return {name: min(amount, entitled.get(name, 0)) for name, amount in reserved.items()}

    def _slice_over(self, members: tuple[Task, ...]) -> bool:
        used = max(self._units.slices[each] for each in members)
        protected = slice_ms(self._settings.turn_for_ms, used, self._settings.turn_doublings)
        since = max(self._units.held[each].placed_ms for each in members)
        return self._round.now_ms - since + SECOND_MS >= protected

    def _why_not_moved(self, own: bool, way: int, slice_over: bool, waited_ms: int) -> str:
        turn = self._pools.turns.get(self._event.for_pool)
        on_turn = turn is not None and (turn.job_id, turn.first) == (self._unit.job_id, self._unit.first)
        after, below = self._settings.move_after_ms, not self._isnt_below()
        if way == MOVE and self._pools.is_rebalanced(self._unit.job_id, self._round.now_ms):
            return ""
        if way == CLEAR:  # on its turn or below its reservation no later than runs are moved, and never later for that
            after = min([self._settings.clear_after_ms] + [after] * (on_turn or below))
        if waited_ms + SECOND_MS < after:
            return f"the gang waits for {waited_ms} ms"
        if way == CLEAR and (own or not (slice_over or below)):
            return "it is of the same pool" if own else "its slice isn't over"
        return ""

    def _gives(self, members: tuple[Task, ...], pool: str, by_slice: bool) -> str:
        entitled, mine = self._entitled.get(pool), self._entitled.get(self._event.for_pool)
        if entitled is None or mine is None:
            return "its pool, or that of the gang, was told nothing of what it may use"
        victim = self._units.needs(members)
        giver = Giver(self._placed(pool), entitled, self._within(pool, entitled))
        need = self._units.needs(self._unit.tasks())
        taker = Taker(need, self._placed(self._event.for_pool), mine, self._below_reservation)
        why = why_not(victim, giver, taker, self._taken, by_slice)
        self._taken.update(victim)
        return why
