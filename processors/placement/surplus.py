"""Hosts that offer less than their runs hold: which runs are preempted there (decision 081). So are the runs on devices
that an operator has set aside with their end.

Nothing is placed there (`Phase.SHRUNK`). Of the preemptible runs the newest of the lowest priority are to leave, gangs
whole, until the rest fits; those that hold nothing of what lacks stay, and so does all else. They are asked for by a
PreemptionAsked of no job, a host each, and leave by an order like any other. What is lent is `slack.py`'s.
"""

from collections.abc import Iterable, Iterator

import msgspec
import numpy as np

from events.codes import Way
from events.columns import I64, Names
from events.records.base import Event
from events.records.entitlement import PreemptionRefused, PreemptionsOrdered
from events.records.lifecycle import PreemptionAnswered
from events.records.placement import HostDeviceChanged, PreemptionAsked
from events.records.rounds import TimerPassed
from processors.placement.hosts import Hosts
from processors.placement.room.plans import Plans
from processors.placement.rows import JobRow
from processors.placement.runs import Runs
from processors.placement.states import Phase
from processors.state.budget import Budget
from processors.state.causes import CauseRow, CurrentInput, recorded
from processors.state.cell_settings import CellSettings
from processors.state.deadlines import Deadlines
from processors.state.displacements import Displacements
from processors.state.table import Table, struct_table

NEVER_MS = 1 << 62


class ShrunkRow(msgspec.Struct, frozen=True, array_like=True):
    """A host with victims. `victims`: those that have no answer; `again_ms`: when placement looks at it again, as some
    are spared until then; 0: once something changes.
    """

    victims: list[tuple[str, int, int]] = []
    again_ms: int = 0


class Surplus:
    """Decides which runs are preempted on hosts that offer less than these hold."""

    def __init__(
        self,
        hosts: Hosts,
        runs: Runs,
        plans: Plans,
        displaced: Displacements,
        settings: CellSettings,
        current: CurrentInput,
    ) -> None:
        self.table: Table[str, ShrunkRow] = struct_table("shrunk", ShrunkRow)
        self._hosts = hosts
        self._runs = runs
        self._plans = plans
        self._displaced = displaced
        self._settings = settings
        self._input = current
        self._in_vain: dict[int, tuple[bytes, int]] = {}
        """Hosts where nobody was to be asked: the amounts that were offered and in use then, and until when that is so.
        Only saves work.
        """
        self._again: Deadlines[str] = Deadlines()
        plans.asked_beside = self._asked_slots

    def restored(self) -> None:
        """Finds again what is derived."""
        self._in_vain.clear()
        self._again.restore((host_id, row.again_ms) for host_id, row in self.table.items() if row.again_ms)

    def next_ms(self) -> int | None:
        """When the next host is looked at again."""
        return self._again.first()

    # What is said.

    def asked(self, event: PreemptionAsked, now: int) -> None:
        """Placement asks for victims on a host."""
        if not event.job_id:
            self._put(event.host_ids[0], victims=_victims(event.job_ids, event, event.victim_run_array))

    def ordered(self, event: PreemptionsOrdered, now: int) -> None:
        """They must."""
        if not event.for_job:
            self._put(event.host_ids[0], victims=[])

    def refused(self, event: PreemptionRefused, now: int) -> None:
        """One of some runs need not leave; the others are asked without it."""
        self._in_vain.clear()
        victim = event.victim_job_id, event.victim_instance, event.victim_run
        for host_id in [host_id for host_id, row in self.table.items() if not event.job_id and victim in row.victims]:
            self._put(host_id, victims=[])

    def answered(self, event: PreemptionAnswered, now: int) -> None:
        """The runs of an order have left, or stay: those that sla spares are asked again later."""
        self._in_vain.clear()
        watched = self._hosts.shrunken.watched | dict.fromkeys(self._hosts.vacated)
        if not watched:
            return
        for job_id, instance, _ in _victims(event.job_ids, event, event.run_array):
            job = self._runs.jobs.get(job_id)
            number = int(self._runs.arena["host"][job.base + instance]) - 1 if job and instance < job.instances else -1
            if number in watched:
                self._put(self._hosts.ids[number], again_ms=now + self._settings.now.defer_for_ms)

    def passed(self, event: TimerPassed, now: int) -> None:
        """Time has passed by which some were spared."""
        self._in_vain.clear()
        for host_id in self._again.due(event.due_ms):
            self._put(host_id, again_ms=0)

    def device_changed(self, event: HostDeviceChanged, now: int) -> None:
        """Runs are to leave a device, or need not any more."""
        self._in_vain.clear()

    def gone(self, host_id: str) -> None:
        """A host is lost or removed."""
        if host_id in self.table:
            self.table.remove(host_id)
            self._again.clear(host_id)

    # What is decided.

    def decide(self, now: int, budget: Budget, last_by: CauseRow | None) -> list[Event]:
        """The asks, a host each; a unit is a run."""
        hosts = self._hosts
        shrunk = [
            number
            for number in sorted({*hosts.shrunken.watched, *hosts.vacated})
            if self._is_to_be_left(number)
            and not self._is_in_vain(number, now)
            and not self._row(hosts.ids[number]).victims
        ]
        out: list[Event] = []
        if not shrunk:
            return out
        leaving = {*self._plans.asked_slots()}
        for number, slots in self._slots_on(shrunk):
            if budget.left <= 0:
                break
            victims, again_ms = self._victims(number, slots, leaving, now)
            if not victims:
                self._in_vain[number] = self._amounts(number), again_ms
                continue
            leaving.update(victims)
            budget.spend(len(victims))
            out.append(self._ask(number, victims, last_by))
        return out

    # How.

    def _is_to_be_left(self, number: int) -> bool:
        """Whether some run may be to leave a host, which is heard."""
        phase = self._hosts.phase[number]
        return bool(phase == Phase.SHRUNK or (number in self._hosts.vacated and phase in (Phase.UP, Phase.SUSPECTED)))

    def _is_in_vain(self, number: int, now: int) -> bool:
        used, again_ms = self._in_vain.get(number, (b"", 0))
        return now < again_ms and used == self._amounts(number)

    def _amounts(self, number: int) -> bytes:
        return self._hosts.capacity[:, number].tobytes() + self._hosts.used[:, number].tobytes()

    def _row(self, host_id: str) -> ShrunkRow:
        return self.table.get(host_id) or ShrunkRow()

    def _put(
        self, host_id: str, *, victims: list[tuple[str, int, int]] | None = None, again_ms: int | None = None
    ) -> None:
        """Changes the row of a host, which is there only while it says something."""
        before = self._row(host_id)
        row = ShrunkRow(
            before.victims if victims is None else victims, before.again_ms if again_ms is None else again_ms
        )
        if row.again_ms:
            self._again.set(host_id, row.again_ms)
        else:
            self._again.clear(host_id)
        if row != ShrunkRow() and host_id in self._hosts.table:
            self.table.put(host_id, row)
        elif host_id in self.table:
            self.table.remove(host_id)

    def _asked_slots(self) -> Iterator[int]:
        """The victims that have no answer."""
        for row in self.table.values():
            for job_id, instance, _ in row.victims:
                job = self._runs.jobs.get(job_id)
                if job is not None and instance < job.instances:
                    yield job.base + instance

    def _slots_on(self, numbers: list[int]) -> Iterator[tuple[int, list[int]]]:
        """The tasks with a place on each of some hosts, by one look at all."""
        host = self._runs.arena["host"]
        slots = np.flatnonzero(np.isin(host, np.array(numbers) + 1))
        there = host[slots] - 1
        for number in numbers:
            yield number, slots[there == number].tolist()

    def _victims(self, number: int, slots: list[int], leaving: set[int], now: int) -> tuple[list[int], int]:
        """The tasks that are to leave a host, in the order in which they are chosen, gangs whole; and when there may be
        others, as some are spared until then.
        """
        arena, leaves, again_ms = self._runs.arena, set[int](), NEVER_MS
        lack = self._hosts.surplus(number).tolist()
        needs = {slot: self._runs.shapes[int(arena["shape"][slot])].need for slot in slots}
        for slot in slots:
            if slot in leaving or arena["leaving"][slot]:
                leaves.add(slot)
                lack = _less(lack, needs[slot])
        jobs = {slot: self._runs.jobs[self._runs.waits.job_of(slot)] for slot in slots}
        victims: dict[int, None] = {}
        on_devices = self._on_devices(number)
        for slot in sorted(slots, key=lambda slot: (jobs[slot].precedence, -int(arena["placed_s"][slot]), -slot)):
            helps = slot in on_devices or any(need and short > 0 for need, short in zip(needs[slot], lack, strict=True))
            if not helps or slot in leaves or slot in victims or not jobs[slot].preemptible:
                continue
            members = self._members(slot)
            if any(member in leaving or arena["leaving"][member] for member in members):
                continue
            if until_ms := max(self._spared_ms(jobs[slot], member, now) for member in members):
                again_ms = min(again_ms, until_ms)
                continue
            for member in members:
                victims[member] = None
                lack = _less(lack, needs.get(member, ()))
        return [*victims], again_ms

    def _on_devices(self, number: int) -> set[int]:
        """The tasks with a device of a host that its runs are to leave."""
        devices = self._hosts.vacated.get(number)
        if not devices:
            return set()
        holders = self._hosts.devices.of(number).items()
        return {slot for slot, has in holders if any(device in devices for device, _, _ in has)}

    def _members(self, slot: int) -> list[int]:
        unit = self._runs.unit(slot)
        members: list[int] = unit[self._runs.arena["placed"][unit] > 0].tolist()
        return members

    def _spared_ms(self, job: JobRow, slot: int, now: int) -> int:
        """Until when a task isn't asked, as sla or entitlement has refused it; 0: it may be."""
        task = self._runs.waits.job_of(slot), slot - job.base
        spared_ms = self._displaced.spared_ms(task[0], [task[1]], now) if task[0] in self._displaced else 0
        is_barred = self._plans.why_barred(task, int(self._runs.arena["placed"][slot]), now)
        return max(spared_ms, self._plans.barred[task].until_ms if is_barred else 0)

    def _ask(self, number: int, victims: list[int], last_by: CauseRow | None) -> PreemptionAsked:
        names = Names()
        job_ids = [self._runs.waits.job_of(slot) for slot in victims]
        slots: I64 = np.array(victims, dtype=np.int64)
        bases = [self._runs.jobs[job_id].base for job_id in job_ids]
        return PreemptionAsked.pack(
            job_id="",
            first=0,
            count=0,
            run=0,
            host_ids=(self._hosts.ids[number],),
            tasks=[0],
            job=[names[job_id] for job_id in job_ids],
            job_ids=names.all(),
            instance=slots - np.array(bases),
            victim_run=self._runs.arena["placed"][slots],
            way=[Way.SHRUNK] * len(victims),
            cause=recorded(last_by),
        )


def _less(lack: list[int], amounts: Iterable[int]) -> list[int]:
    """The amounts that still lack once a run gives its amounts back."""
    amounts = [*amounts]
    return [short - amount for short, amount in zip(lack, amounts, strict=True)] if amounts else lack


def _victims(
    job_ids: tuple[str, ...], event: PreemptionAsked | PreemptionAnswered, runs: np.ndarray
) -> list[tuple[str, int, int]]:
    """The runs that a record names."""
    columns = (event.job_array.tolist(), event.instance_array.tolist(), runs.tolist())
    return [(job_ids[job], instance, run) for job, instance, run in zip(*columns, strict=True)]
