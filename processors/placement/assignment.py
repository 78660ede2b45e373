"""One decision about waiting tasks: in order onto the view; who finds no place is explained and, in time, returned."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from events.codes import Code
from events.columns import I64, indexed, pack_ints, pack_longs
from events.records.base import Event
from events.records.placement import GangsReturned, GangsUnplaced, TasksPlaced
from events.resources import UNBOUNDED
from processors.placement.cluster_view import ClusterView, ShapeView
from processors.placement.explain import LASTING, code, explanation
from processors.placement.hosts import Hosts
from processors.placement.rows import GANG, JobRow
from processors.placement.runs import Runs
from processors.placement.waits import BORROWED
from processors.state.causes import CauseRow, recorded
from processors.state.shapes import MIXED


class Unplaced(NamedTuple):
    """Tasks of a job that found no place: a gang, of which `size` tasks of this shape are too many, or each alone."""

    job_id: str
    row: JobRow
    rank: int
    shape: ShapeView
    size: int
    slots: I64
    gang: bool

    @property
    def reported_as(self) -> int:
        """What their code is reported by."""
        return GANG if self.gang else self.shape.number


class Assignment:
    """One decision. Reads runs and hosts, changes neither."""

    def __init__(self, runs: Runs, hosts: Hosts, budget: int, last_by: CauseRow | None) -> None:
        self.cut = False
        """Whether the budget ended it."""
        self._runs = runs
        self._hosts = hosts
        self._view = ClusterView(hosts, runs.shapes)
        self._budget = budget
        self._last_by = last_by
        self._waiting = runs.arena["waiting"]
        self._placements: list[tuple[str, I64, I64, int]] = []
        """Of jobs, slots that have places, the host of each, and how many ports each has."""
        self._unplaced: list[Unplaced] = []
        self._codes: dict[tuple[ShapeView, int], Code] = {}
        self._explained: dict[tuple[ShapeView, int], GangsUnplaced] = {}

    def decide(self, now: int) -> list[Event]:
        """`TasksPlaced`, what is to be said of tasks without a place, and returns."""
        waits, jobs = self._runs.waits, self._runs.jobs
        for rank, known in waits.in_order():
            if self._budget <= 0:
                self.cut = True
            if self.cut:
                break
            self._range(known.job_id, jobs[known.job_id], rank, waits.slots(rank, known))
        out: list[Event] = [self._placed()] if self._placements else []
        due = self._runs.patience_over(now)
        returns: dict[Code, list[Unplaced]] = {}
        for (job_id, reported_as), parts in self._by_job().items():
            reason = self._code(parts[0])
            if reason != parts[0].row.reported.get(reported_as):
                if self._budget <= 0:
                    self.cut = True
                    break
                self._budget -= 1
                out.append(self._explain(job_id, parts))
            for part in parts:
                self._return(part, due, returns)
            if self.cut:
                break
        return out + [self._returned(why, parts) for why, parts in returns.items()]

    def _range(self, job_id: str, row: JobRow, rank: int, slots: I64) -> None:
        """Puts tasks admitted together on the view: a gang, or one by one, shape by shape."""
        level = self._level(row) if row.shape == MIXED or self._view.shape(row.shape).spread else None
        if row.gang and row.gang_first <= slots[0] - row.base < row.gang_first + row.gang:
            if len(slots) > self._budget and self._placements:
                self.cut = True  # a gang over the whole budget is placed by itself: it can't be divided
                return
            self._gang(job_id, row, rank, slots, level)
            return
        for shape, part in self._by_shape(row, slots):
            if not self.cut:
                self._each(job_id, row, rank, shape, part, level)

    def _by_shape(self, row: JobRow, slots: I64) -> list[tuple[ShapeView, I64]]:
        """Slots of a job by their shapes, in the order of the first of each."""
        if row.shape != MIXED:
            return [(self._view.shape(row.shape), slots)]
        shapes = self._runs.arena["shape"][slots]
        numbers, first = np.unique(shapes, return_index=True)
        order: list[int] = numbers[np.argsort(first)].tolist()
        return [(self._view.shape(number), slots[shapes == number]) for number in order]

    def _gang(self, job_id: str, row: JobRow, rank: int, slots: I64, level: I64 | None) -> None:
        """Puts a gang on the view, whole or not at all."""
        parts = self._by_shape(row, slots)
        shape = parts[0][0]
        if len(parts) == 1:
            chosen = self._view.gang(shape, len(slots), level)
            self._record_places(job_id, row, rank, shape, len(slots), slots, chosen)
            return
        assert level is not None
        found = self._view.mixed_gang([(shape, len(part)) for shape, part in parts], level)
        if isinstance(found, int):
            self._unplaced.append(Unplaced(job_id, row, rank, parts[found][0], len(parts[found][1]), slots, True))
            return
        for (shape, part), chosen in zip(parts, found, strict=True):
            self._record_places(job_id, row, rank, shape, len(slots), part, chosen)

    def _each(self, job_id: str, row: JobRow, rank: int, shape: ShapeView, slots: I64, level: I64 | None) -> None:
        """Puts tasks on the view one by one, as far as the budget goes."""
        wanted = min(len(slots), self._budget)
        view = self._view
        if shape.spread and level is not None:
            chosen = view.spread(shape, wanted, level)
        else:
            chosen = view.pack(shape, wanted)
            if level is not None:  # other shapes of the job are spread
                np.add.at(level, chosen, 1)
        if len(chosen) == wanted < len(slots):
            self.cut = True
            slots = slots[:wanted]
        self._record_places(job_id, row, rank, shape, 1, slots, chosen)

    def _record_places(
        self, job_id: str, row: JobRow, rank: int, shape: ShapeView, size: int, slots: I64, chosen: I64
    ) -> None:
        if len(chosen):
            self._placements.append((job_id, slots[: len(chosen)], chosen, shape.ports))
            self._budget -= len(chosen)
        if len(chosen) < len(slots):
            self._unplaced.append(Unplaced(job_id, row, rank, shape, size, slots[len(chosen) :], size > 1))

    def _level(self, row: JobRow) -> I64:
        """How many tasks of a job each host holds."""
        host = self._runs.arena["host"][row.base : row.base + row.instances]
        return np.bincount(host[host > 0] - 1, minlength=len(self._hosts.ids))

    def _placed(self) -> TasksPlaced:
        job_ids = dict.fromkeys(job_id for job_id, *_ in self._placements)
        index = {job_id: at for at, job_id in enumerate(job_ids)}
        counts = [len(slots) for _, slots, *_ in self._placements]
        job = np.repeat(np.array([index[job_id] for job_id, *_ in self._placements]), counts)
        slots = np.concatenate([slots for _, slots, *_ in self._placements])
        base = np.array([self._runs.jobs[job_id].base for job_id in job_ids])
        numbers, host = indexed(np.concatenate([chosen for _, _, chosen, _ in self._placements]))
        host_ids = tuple(self._hosts.ids[number] for number in numbers.tolist())
        ports = self._ports()
        return TasksPlaced(
            job_ids=tuple(job_ids),
            job=pack_ints(job),
            instance=pack_ints(slots - base[job]),
            run=pack_ints(self._waiting[slots]),
            host_ids=host_ids,
            host_session=pack_longs([self._hosts.table[host_id].session for host_id in host_ids]),
            host=pack_ints(host),
            ports=pack_ints(ports),
            port_count=pack_ints(np.repeat([each for *_, each in self._placements], counts)) if ports else b"",
        )

    def _ports(self) -> list[int]:
        """Port numbers for all that was put, per host the lowest that are free."""
        free: dict[int, Iterator[int]] = {}
        out: list[int] = []
        for _, _, chosen, each in self._placements:
            for number in chosen.tolist() if each else ():
                if number not in free:
                    free[number] = self._free_ports(number)
                out += (next(free[number]) for _ in range(each))
        return out

    def _free_ports(self, number: int) -> Iterator[int]:
        row, taken = self._hosts.table[self._hosts.ids[number]], self._hosts.taken[number]
        return (port for port in range(row.port_first, row.port_last + 1) if port not in taken)

    def _by_job(self) -> dict[tuple[str, int], list[Unplaced]]:
        parts: dict[tuple[str, int], list[Unplaced]] = {}
        for unplaced in self._unplaced:
            parts.setdefault((unplaced.job_id, unplaced.reported_as), []).append(unplaced)
        return parts

    def _code(self, unplaced: Unplaced) -> Code:
        key = (unplaced.shape, unplaced.size)
        found = self._codes.get(key)
        if found is None:
            found = self._codes[key] = code(self._view, unplaced.shape, unplaced.size)
        return found

    def _explain(self, job_id: str, parts: list[Unplaced]) -> GangsUnplaced:
        tasks = sum(len(part.slots) for part in parts)
        first = parts[0]
        divided = first.gang and len(first.slots) > first.size  # hosts have room for this shape, not for the whole gang
        key = (first.shape, UNBOUNDED if divided else first.size)
        found = self._explained.get(key)
        if found is None:
            found = self._explained[key] = explanation(self._view, *key, self._code(first))
        row, slot = first.row, int(first.slots[0])
        return replace(
            found,
            job_id=job_id,
            tasks=tasks,
            instance=slot - row.base,
            run=int(self._waiting[slot]),
            size=len(first.slots) if first.gang else 1,
            cause=recorded(self._last_by) if first.reported_as in row.reported else None,
        )

    def _return(self, unplaced: Unplaced, due: I64, returns: dict[Code, list[Unplaced]]) -> None:
        """Returns what can't be placed before hosts change, and borrowed work that has lost patience, as far as the
        budget goes.
        """
        why = self._code(unplaced)
        if why in LASTING:
            slots = unplaced.slots
        elif unplaced.rank == BORROWED:
            slots = np.intersect1d(unplaced.slots, due, assume_unique=True)
        else:
            return
        alone = not unplaced.gang
        most = max(0, self._budget)
        if (len(slots) if alone else min(1, len(slots))) > most:
            self.cut = True
            slots = slots[: most if alone else 0]
        if not len(slots):
            return
        self._budget -= len(slots) if alone else 1  # a gang is one range
        returns.setdefault(why, []).append(unplaced._replace(slots=slots))

    def _returned(self, why: Code, parts: list[Unplaced]) -> GangsReturned:
        """The parts as ranges of neighbouring instances at one run; a gang is a range by itself."""
        counts = [len(part.slots) for part in parts]
        slots = np.concatenate([part.slots for part in parts])
        part = np.repeat(np.arange(len(parts)), counts)
        run = self._waiting[slots]
        breaks = np.ones(len(slots), dtype=np.bool_)
        breaks[1:] = (np.diff(slots) != 1) | (np.diff(part) != 0) | (np.diff(run) != 0)
        first = np.flatnonzero(breaks)
        job_ids = tuple(dict.fromkeys(one.job_id for one in parts))
        index = {job_id: at for at, job_id in enumerate(job_ids)}
        job = np.array([index[one.job_id] for one in parts])
        base = np.array([one.row.base for one in parts])
        gang = np.array([int(one.gang) for one in parts])
        at = part[first]
        return GangsReturned(
            job_ids=job_ids,
            job=pack_ints(job[at]),
            first=pack_ints(slots[first] - base[at]),
            count=pack_ints(np.diff(np.append(first, len(slots)))),
            run=pack_ints(run[first]),
            gang=pack_ints(gang[at]),
            code=why,
        )
