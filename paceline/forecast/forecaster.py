"""Forecasts of waiting jobs by what a cell is at present, and what came of earlier ones (decision 128)."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple

import msgspec

from events.codes import ForecastMethod as Method
from events.forecasts import LEVELS
from paceline.forecast.conformal import Quantiles, Window, mean, missed, quantiles, widened
from paceline.forecast.lengths import Like, Past
from paceline.forecast.queue_model import Amounts, Busy, Queue, Unit, World, fits, path

PATHS = 20
SCORES = (3000, 10_000, 30_000)
"""An interval is widened by the mean of what the last so many scores of its method ask for (decision 136)."""
WORTHS = 300
"""Limits are scaled by what the last so many were worth."""
CLASS_WAITS = 300
LONGER_MIN = 5
"""So many waits of jobs of its size make a forecast."""
SCORES_MIN = 30
WIDE = 4.0
"""An interval is widened so many times before anything was scored, and less with each score up to `SCORES_MIN`."""
WAITED_MS = 60_000
"""A job that waits for less has no forecast yet."""
WORK_MAX = 200_000
"""More units than this, times the paths, aren't simulated: limits alone are, or fewer paths while none scales them."""


class RunningWork(NamedTuple):
    """Runs that go on, of one job and begun together. `need`: of all of them."""

    like: Like
    need: Mapping[str, int]
    since_ms: int


class WaitingJob(NamedTuple):
    """A job that waits, or a part of it does."""

    job_id: str
    like: Like
    needs: Sequence[Mapping[str, int]]
    """The need of each unit that waits."""
    size: int
    """The number of its tasks."""
    submitted_ms: int
    fixed: bool = False
    """Whether it is never preempted: it stays within the reservation of its pool."""
    begun: bool = False
    """Whether a part has begun: then it has no forecast, though what waits of it stands before others."""
    is_queued: bool = True
    """Whether it waits for its turn; else for something else, such as to be released."""


class PoolLine(NamedTuple):
    """A pool: its weight, its limits and its reservation; a resource that isn't in `limit` has none."""

    weight: float
    limit: Mapping[str, int]
    reservation: Mapping[str, int]


class Present(NamedTuple):
    """The state of a cell at a time. `waiting`: in the order in which each pool serves them."""

    now_ms: int
    capacity: Mapping[str, int]
    pools: Mapping[str, PoolLine]
    running: Sequence[RunningWork]
    waiting: Sequence[WaitingJob]


class Raw(NamedTuple):
    """A forecast before it is widened: waits in milliseconds. `by_limits`: with limits as lengths; 0: unknown."""

    method: Method
    quantiles: Quantiles
    by_limits: float


class Forecast(NamedTuple):
    """A forecast as it is shown. Its quantiles are waits from `made_ms` on, in milliseconds."""

    job_id: str
    pool: str
    made_ms: int
    interval: Quantiles
    raw: Raw
    size: int
    waited_ms: int


class ForecasterState(msgspec.Struct):
    """The experience of a forecaster: lengths of runs by group, and what came of its forecasts."""

    past: list[tuple[tuple[str | int, ...], list[float]]]
    missed: dict[int, list[list[float]]]
    worth: list[float]
    waits: list[tuple[str, int, list[int]]]


class Forecaster:
    """Makes forecasts, and learns from what comes of them."""

    def __init__(self, paths: int = PATHS) -> None:
        self.past = Past()
        self._paths = paths
        self._random = Random(0)
        self._missed = {method: [Window(size) for size in SCORES] for method in Method}
        self._worth = Window(WORTHS)
        self._waits: dict[tuple[str, int], deque[int]] = {}

    def make(self, present: Present) -> list[Forecast]:
        """A forecast of each job that has waited long enough, where there is anything to tell it by. It follows from
        what is known at that time, whatever was forecast before.
        """
        self._random.seed(present.now_ms)
        plan = _Plan(present, self.past)
        raws = self._ahead(plan) if plan.jobs else {}
        out = []
        for job in present.waiting:
            waited_ms = present.now_ms - job.submitted_ms
            if job.begun or waited_ms < WAITED_MS:
                continue
            raw = raws.get(job.job_id) or self._of_class(job, waited_ms)
            if raw is not None:
                out.append(
                    Forecast(job.job_id, job.like.pool, present.now_ms, self.widen(raw), raw, job.size, waited_ms)
                )
        return out

    def widen(self, raw: Raw) -> Quantiles:
        """A forecast widened by what was missed before."""
        windows = self._missed[raw.method]
        weight = min(1.0, len(windows[0]) / SCORES_MIN)
        factor = sum(window.quantile(0.8) for window in windows) / len(windows) if weight else 0.0
        return widened(raw.quantiles, weight * factor + (1 - weight) * WIDE)

    def learn(self, forecast: Forecast, waited_ms: int) -> None:
        """Takes what came of a forecast."""
        raw = forecast.raw
        for window in self._missed[raw.method]:
            window.add(missed(raw.quantiles, waited_ms))
        if raw.by_limits > 0:
            self._worth.add(waited_ms / raw.by_limits)
        key = forecast.pool, forecast.size.bit_length()
        self._waits.setdefault(key, deque(maxlen=CLASS_WAITS)).append(waited_ms + forecast.waited_ms)

    def scaled(self, by_limits: float) -> Quantiles | None:
        """A wait by limits, by what the last ones were worth; None: it isn't known yet."""
        if len(self._worth) < SCORES_MIN:
            return None
        return Quantiles(*(by_limits * self._worth.quantile(level) for level in LEVELS))

    def of_size(self, pool: str, size: int, waited_ms: int) -> Quantiles | None:
        """The waits of jobs of that size that waited longer than this one has; None: too few did."""
        waits = self._waits.get((pool, size.bit_length()), ())
        longer = [each - waited_ms for each in waits if each > waited_ms]
        return quantiles(longer) if len(longer) >= LONGER_MIN else None

    def dump(self) -> ForecasterState:
        """All that it has learnt, as `load` takes it."""
        return ForecasterState(
            self.past.dump(),
            {method: [window.dump() for window in windows] for method, windows in self._missed.items()},
            self._worth.dump(),
            [(*key, list(waits)) for key, waits in self._waits.items()],
        )

    def load(self, state: ForecasterState) -> None:
        """Takes the place of what it has learnt."""
        self.past.load(state.past)
        self._missed = {
            method: [Window(size, each) for size, each in zip(SCORES, state.missed[method], strict=True)]
            for method in Method
        }
        self._worth = Window(WORTHS, state.worth)
        self._waits = {(pool, size): deque(waits, CLASS_WAITS) for pool, size, waits in state.waits}

    def _of_class(self, job: WaitingJob, waited_ms: int) -> Raw | None:
        of_size = self.of_size(job.like.pool, job.size, waited_ms)
        return Raw(Method.CLASS, of_size, 0.0) if of_size is not None else None

    def _ahead(self, plan: "_Plan") -> dict[str, Raw]:
        """The jobs whose start the model reaches."""
        units, now = len(plan.world.waiting) + len(plan.world.running), float(plan.now_ms)
        if units > WORK_MAX:
            return {}
        limits = path(plan.world, now, plan.ends(None, 1, self._random)[0], plan.lengths(None, 1, self._random)[0])
        by_limits = {job: begun - now for job, begun in zip(plan.jobs, limits, strict=True) if begun is not None}
        paths = min(self._paths, WORK_MAX // max(1, units))
        if paths < self._paths and self.scaled(0.0) is not None:
            return {
                job: Raw(Method.LIMITS, scaled, wait)
                for job, wait in by_limits.items()
                if (scaled := self.scaled(wait)) is not None
            }
        draws = zip(
            plan.ends(self.past, paths, self._random),
            plan.lengths(self.past, paths, self._random),
            strict=True,
        )
        waits: dict[str, list[float]] = {job: [] for job in plan.jobs}
        for ends, lengths in draws:
            for job, begun in zip(plan.jobs, path(plan.world, now, ends, lengths), strict=True):
                if begun is not None:
                    waits[job].append(begun - now)
        return {job: self._of_paths(each, by_limits.get(job, 0.0)) for job, each in waits.items() if len(each) == paths}

    def _of_paths(self, waits: list[float], by_limits: float) -> Raw:
        ahead = quantiles(waits)
        scaled = self.scaled(by_limits) if by_limits else None
        return Raw(Method.AHEAD, mean(ahead, scaled) if scaled is not None else ahead, by_limits)


class _Plan:
    """The input of the model: the resources that may run short, and units in the order of their queues."""

    def __init__(self, present: Present, past: Past) -> None:
        self.now_ms = present.now_ms
        self._past = past
        self._running = present.running
        names = _short(present)
        capacity = _amounts(names, present.capacity)
        self._queues: dict[tuple[str, bool], int] = {}
        queues: list[Queue] = []
        for pool, line in present.pools.items():
            for fixed in (False, True):
                most = line.reservation if fixed else line.limit
                bound = tuple(most.get(name, 0 if fixed else 1 << 62) for name in names)
                self._queues[pool, fixed] = len(queues)
                queues.append(Queue(bound, line.weight))
        running = [
            Busy(self._queues.get((each.like.pool, False), -1), _amounts(names, each.need)) for each in present.running
        ]
        self.jobs: list[str] = []
        self._likes: list[Like] = []
        units: list[Unit] = []
        for job in present.waiting:
            queue = self._queues.get((job.like.pool, job.fixed))
            if not job.is_queued or queue is None:
                continue
            needs = [_amounts(names, need) for need in job.needs]
            if not all(fits(need, capacity) and fits(need, queues[queue].most) for need in needs):
                continue
            at = len(self.jobs)
            self.jobs.append(job.job_id)
            units += [Unit(at, queue, need, not job.fixed) for need in needs]
            self._likes += [job.like] * len(needs)
        self.world = World(capacity, queues, running, units, len(self.jobs))

    def ends(self, past: Past | None, paths: int, random: Random) -> list[tuple[float, ...]]:
        """For each path, when each run ends: as drawn, or by limits."""
        columns = []
        for each in self._running:
            passed = float(self.now_ms - each.since_ms)
            drawn = past.draws(each.like, passed, paths, random) if past else [self._past.longest(each.like, passed)]
            columns.append([each.since_ms + length for length in drawn])
        return _by_path(columns, paths)

    def lengths(self, past: Past | None, paths: int, random: Random) -> list[tuple[float, ...]]:
        """For each path, how long each unit lasts."""
        columns = [
            past.draws(like, 0.0, paths, random) if past else [self._past.longest(like, 0.0)] for like in self._likes
        ]
        return _by_path(columns, paths)


def _by_path(columns: list[list[float]], paths: int) -> list[tuple[float, ...]]:
    return list(zip(*columns, strict=True)) if columns else [()] * paths


def _amounts(names: Sequence[str], amounts: Mapping[str, int]) -> Amounts:
    return tuple(amounts.get(name, 0) for name in names)


def _short(present: Present) -> list[str]:
    """The resources of which more is wanted than there is, in the cell or below a limit."""
    demand: Counter[str] = Counter()
    for work in present.running:
        demand.update(work.need)
    for job in present.waiting:
        for need in job.needs:
            demand.update(need)
    bounded = {name for pool in present.pools.values() for name in pool.limit}
    if any(job.fixed for job in present.waiting):
        bounded |= {name for pool in present.pools.values() for name in pool.reservation}
    return sorted(name for name, amount in demand.items() if amount > present.capacity.get(name, 0) or name in bounded)
