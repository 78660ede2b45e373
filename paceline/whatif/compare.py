"""Pairs of branches, one without a change and one with it, so that noise is told from effect.

Each pair has a seed of its own: what isn't known of lengths is drawn by it, alike on both sides. The effect of a figure
is the mean of the differences within the pairs, with Student's interval at 90 % (W. S. Gosset, The probable error of a
mean, Biometrika 6, 1908).
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean, stdev

import numpy as np
from numpy.typing import NDArray

from events.records.jobs import JobSubmitted
from events.resources import Unit
from paceline.whatif.branch import Branch, Change, subject_of
from paceline.whatif.branch_elsewhere import BranchElsewhere, Elsewhere, Told
from paceline.whatif.decided import ACCEPTED, Answer, Decided, FactAt, decided_in
from paceline.whatif.figures import (
    BY_RESOURCE,
    CPU,
    FIGURES,
    GUESSED_MAX,
    OF_LENGTHS,
    OF_TIMES,
    Figure,
    Group,
    Measured,
    groups_of,
    share_on_same_host,
    share_within,
)
from paceline.whatif.lengths import GUESSED
from paceline.whatif.stretch import NothingToCompare, Stretch

T90 = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771, 1.761, 1.753)
"""Student's t at 90 %, both sides, by degrees of freedom from 1 on."""
T90_MANY = 1.645
NEAR_MS = (1_000, 10_000, 60_000)
JOBS_SHOWN = 20
POOLS_SHOWN = 20
"""Numbers over time are kept of the pools that hold most."""


@dataclass(frozen=True)
class Effect:
    """One figure of one group: in history, without the change, with it, and what the change does."""

    group: Group
    figure: str
    recorded: float
    again: float
    changed: float
    effect: float
    within: float | None
    """Half of the interval of the effect; None: one pair can't say."""
    changed_within: float | None
    """The same of the figure with the change."""
    resource: str = ""
    """That of a figure by resource."""

    @property
    def is_noise(self) -> bool:
        """Whether the interval contains 0, or isn't known."""
        return self.within is None or abs(self.effect) <= self.within or self.effect == 0


@dataclass(frozen=True)
class JobEffect:
    """The wait of a job in seconds, in history (None: it didn't wait there), without the change and with it."""

    job_id: str
    pool: str
    owner: str
    recorded: float | None
    again: float
    changed: float
    within: float | None
    """Half of the interval of the difference."""

    @property
    def effect(self) -> float:
        """The difference in seconds."""
        return self.changed - self.again


@dataclass(frozen=True)
class PairOfPools:
    """The runs that were ordered to leave one pool for work of another."""

    from_pool: str
    for_pool: str
    recorded: int
    again: float
    changed: float
    within: float | None


@dataclass(frozen=True)
class OtherAnswer:
    """A fact that is answered otherwise with the change than in history. Codes are those of most pairs."""

    kind: str
    """The name of the record."""
    subject: str
    at_ms: int
    recorded: str
    again: str
    """Empty: it wasn't written, or has no answer."""
    changed: str
    message: str
    share: float
    """The share of the pairs in which it is answered otherwise."""


@dataclass(frozen=True)
class Trust:
    """The likeness of the branches without a change to history, as means over the pairs; None: no job began."""

    near: dict[int, float | None]
    """The share of first starts within so many milliseconds of when they were."""
    same_host: float | None
    preempted_recorded: float
    preempted_again: float


Lines = dict[tuple[str, str], tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]]
"""By pool and resource the numbers over time, recorded, again and changed: rows for the meanings in `decided`."""


@dataclass(frozen=True)
class Comparison:
    """The answer: effects, how far they can be trusted, and the jobs with the largest effect."""

    pairs: int
    effects: list[Effect]
    trust: Trust
    flags: dict[str, int]
    """Runs of the changed branches by the rule that gave their length."""
    core_ms: dict[str, int]
    """Milli-CPU-milliseconds by the same."""
    rules: dict[str, int]
    """Facts of a changed branch by what became of them."""
    jobs: list[JobEffect] = field(default_factory=list)
    """Those whose wait changes most, the largest change first."""
    preemptions: list[PairOfPools] = field(default_factory=list)
    answers: list[OtherAnswer] = field(default_factory=list)
    """By time."""
    lines: Lines = field(default_factory=dict)
    units: dict[str, Unit] = field(default_factory=dict)
    """The unit of each kind of the cell, in its order."""

    @property
    def guessed(self) -> float:
        """The share of core-seconds of runs whose lengths are guessed, from 0 to 1."""
        whole = sum(self.core_ms.values())
        return self.core_ms.get(GUESSED, 0) / whole if whole else 0.0

    def tells_of(self, figure: str) -> bool:
        """Whether the lengths of runs are known well enough for a figure."""
        return figure not in OF_LENGTHS or self.guessed <= GUESSED_MAX


Say = Callable[[int, bool, int], None]
"""Told of each moment: the number of the pair, whether it is the changed side, milliseconds since 1970."""


Keep = Callable[[Branch, bool], None]
"""Takes the branches of the first pair, each with whether it is the changed side."""


def compare(
    stretch: Stretch,
    change: Change,
    pairs: int,
    seed: int,
    jitter_ms: int,
    say: Say = lambda pair, changed, now: None,
    resolution_ms: int = 1,
    keep: Keep | None = None,
    elsewhere: Elsewhere | None = None,
) -> Comparison:
    """Runs the pairs. `elsewhere`: runs the changed side of the next pair in place of this build. Raises
    `NothingToCompare` where no batch job waited in the stretch, neither in history nor on a side of a pair.
    """
    done = _Pairs(stretch, change)
    for pair in range(pairs):
        keeps = keep if pair == 0 else None

        def run(what: Change, changed: bool, pair: int = pair, keeps: Keep | None = keeps) -> Branch:
            branch = Branch(stretch, what, seed + pair, jitter_ms, resolution_ms, keeps is not None)
            _run(branch, partial(say, pair, changed))
            if keeps is not None:
                keeps(branch, changed)
            return branch

        again = done.before(run(Change(), False))  # one branch at a time is in memory
        done.after(elsewhere(partial(say, pair, True)) if elsewhere else run(change, True), again)
    return done.comparison(pairs)


def interval(differences: Sequence[float]) -> float | None:
    """Half of Student's interval at 90 % of the mean; None: one value can't say."""
    count = len(differences)
    return None if count < 2 else _interval(count, stdev(differences))


def _interval(count: int, deviation: float) -> float:
    t = T90[count - 2] if count - 2 < len(T90) else T90_MANY
    return t * deviation / math.sqrt(count)


def _run(branch: Branch, on_moment: Callable[[int], None]) -> None:
    try:
        branch.run(on_moment)
    finally:
        branch.close()


@dataclass
class _Job:
    """Sums over the pairs of the waits of a job, in milliseconds."""

    pool: str
    owner: str
    count: int = 0
    again: int = 0
    changed: int = 0
    squares: int = 0

    def effect(self, job_id: str, recorded_ms: int | None) -> JobEffect:
        mean = (self.changed - self.again) / self.count
        variance = max(0.0, self.squares - self.count * mean * mean) / max(1, self.count - 1)
        within = _interval(self.count, math.sqrt(variance)) / 1000 if self.count > 1 else None
        return JobEffect(
            job_id,
            self.pool,
            self.owner,
            None if recorded_ms is None else recorded_ms / 1000,
            self.again / self.count / 1000,
            self.changed / self.count / 1000,
            within,
        )


class _Side:
    """Sums over the branches of one side."""

    def __init__(self) -> None:
        self.figures: list[dict[Group, dict[Figure, float]]] = []
        self.preemptions: list[Counter[tuple[str, str]]] = []
        self.answers: dict[FactAt, Counter[Answer]] = {}
        self.values: dict[tuple[str, str], NDArray[np.float64]] = {}

    def add(self, measured: Measured, decided: Decided | Told, origins: Mapping[FactAt, FactAt]) -> None:
        """The next branch."""
        self.figures.append(measured.figures)
        self.preemptions.append(decided.preemptions)
        for fact, answer in decided.answers.items():
            if (origin := origins.get(fact)) is not None:
                self.answers.setdefault(origin, Counter())[answer] += 1
        for key, rows in decided.series.values.items():
            self.values[key] = self.values[key] + rows if key in self.values else rows

    def answer(self, fact: FactAt) -> Answer:
        """The answer of most branches."""
        return self.answers[fact].most_common(1)[0][0] if fact in self.answers else Answer("", "")


class _Pairs:
    """Takes the branches one by one, and keeps sums of them alone."""

    def __init__(self, stretch: Stretch, change: Change) -> None:
        self._stretch = stretch
        self._change = change
        self._units = stretch.units(change.first)
        self._recorded = Measured(stretch.runs, stretch.from_ms, stretch.to_ms, self._units, change.left_out)
        self._decided = decided_in(stretch)
        self._again, self._changed = _Side(), _Side()
        self._near: dict[int, list[float | None]] = {ms: [] for ms in NEAR_MS}
        self._same_host: list[float | None] = []
        self._flags, self._core_ms, self._rules = Counter[str](), Counter[str](), Counter[str]()
        self._jobs: dict[str, _Job] = {}
        self._refused: dict[tuple[str, str], Counter[Answer]] = {}
        """Facts of the change that are refused, by kind and subject."""
        self._any_waits = bool(self._recorded.waits)

    def before(self, branch: Branch) -> dict[str, int]:
        """A branch without the change; returns the waits of its jobs in milliseconds."""
        measured = self._measured(branch, self._again)
        for ms, shares in self._near.items():
            shares.append(share_within(self._recorded.waits, measured.waits, ms))
        self._same_host.append(share_on_same_host(self._recorded.waits, measured.waits))
        return {job_id: wait.waited_ms for job_id, wait in measured.waits.items()}

    def after(self, branch: Branch | BranchElsewhere, again: Mapping[str, int]) -> None:
        """The branch with the change of the same pair."""
        measured = self._measured(branch, self._changed)
        self._flags += branch.lengths.flags
        self._core_ms += branch.lengths.core_ms
        self._rules += branch.rules
        for job_id, wait in measured.waits.items():
            if job_id in again:
                job = branch.table.jobs[job_id]
                sums = self._jobs.setdefault(job_id, _Job(job.pool, job.owner))
                sums.count += 1
                sums.again += again[job_id]
                sums.changed += wait.waited_ms
                sums.squares += (wait.waited_ms - again[job_id]) ** 2
        for fact, text in branch.added.items():
            answer = branch.decided.answers.get(fact)
            if answer is not None and answer.code not in (ACCEPTED, "DONE"):
                self._refused.setdefault(text, Counter())[answer] += 1

    def comparison(self, pairs: int) -> Comparison:
        """The answer after all pairs."""
        if not self._any_waits:
            raise NothingToCompare(
                "No batch job waited in the stretch: there is nothing to compare. Choose another one."
            )
        return Comparison(
            pairs,
            self._effects(),
            self._trust(),
            dict(self._flags),
            dict(self._core_ms),
            dict(self._rules),
            self._job_effects(),
            self._preemptions(),
            [*self._refusals(pairs), *self._answers(pairs)],
            self._lines(pairs),
            self._units,
        )

    def _measured(self, branch: Branch | BranchElsewhere, side: _Side) -> Measured:
        span = self._stretch.from_ms, self._stretch.to_ms
        measured = Measured(branch.table, *span, self._units, self._change.left_out)
        self._any_waits = self._any_waits or bool(measured.waits)
        side.add(measured, branch.decided, branch.origins)
        return measured

    def _effects(self) -> list[Effect]:
        was, sides = self._recorded.figures, (self._again.figures, self._changed.figures)
        kinds: dict[Group, set[str]] = {}
        for figures in (was, *sides[0], *sides[1]):
            for group, numbers in figures.items():
                kinds.setdefault(group, {CPU}).update(resource for _, resource in numbers if resource)
        jobs = [each.event for each in self._change.later if isinstance(each.event, JobSubmitted)]
        added = {group for job in jobs for group in groups_of(job.pool, job.owner)}
        effects = []
        for group in sorted(kinds, key=_order):
            resources = [CPU, *(name for name in self._units if name in kinds[group] and name != CPU)]
            refused = [_values(each, group, ("refused", "")) for each in sides]
            for each in ((name, of) for name in FIGURES for of in (resources if name in BY_RESOURCE else [""])):
                before, after = (_values(figures, group, each) for figures in sides)
                differences = [new - old for old, new in zip(before, after, strict=True)]
                recorded = was.get(group, {}).get(each, 0.0)
                within, changed_within = interval(differences), interval(after)
                if each[0] in OF_TIMES and refused[0] != refused[1]:
                    within = changed_within = None  # of a job that is refused nobody knows how long it would take
                if each[0] in OF_TIMES and group in added:  # the jobs of one side aren't those of the other
                    within = None
                means = fmean(before), fmean(after)
                effects.append(
                    Effect(group, each[0], recorded, *means, fmean(differences), within, changed_within, each[1])
                )
        return effects

    def _trust(self) -> Trust:
        def mean(values: Sequence[float | None]) -> float | None:
            numbers = [value for value in values if value is not None]
            return fmean(numbers) if numbers else None

        cell = ("cell", "")
        return Trust(
            {ms: mean(shares) for ms, shares in self._near.items()},
            mean(self._same_host),
            self._recorded.figures.get(cell, {}).get(("preempted", ""), 0),
            fmean([figures.get(cell, {}).get(("preempted", ""), 0) for figures in self._again.figures]),
        )

    def _job_effects(self) -> list[JobEffect]:
        changed = [(job_id, sums) for job_id, sums in self._jobs.items() if sums.again != sums.changed]
        changed.sort(key=lambda each: (-abs(each[1].changed - each[1].again) / each[1].count, each[0]))
        waits = self._recorded.waits
        return [
            sums.effect(job_id, waits[job_id].waited_ms if job_id in waits else None)
            for job_id, sums in changed[:JOBS_SHOWN]
        ]

    def _preemptions(self) -> list[PairOfPools]:
        recorded, sides = self._decided.preemptions, (self._again.preemptions, self._changed.preemptions)
        pairs = sorted({pair for counts in (recorded, *sides[0], *sides[1]) for pair in counts})
        rows = []
        for pair in pairs:
            before, after = ([counts[pair] for counts in side] for side in sides)
            differences = [new - old for old, new in zip(before, after, strict=True)]
            rows.append(PairOfPools(*pair, recorded[pair], fmean(before), fmean(after), interval(differences)))
        return rows

    def _refusals(self, pairs: int) -> list[OtherAnswer]:
        return [
            OtherAnswer(*text, self._stretch.from_ms, "", "", *counts.most_common(1)[0][0], counts.total() / pairs)
            for text, counts in self._refused.items()
        ]

    def _answers(self, pairs: int) -> list[OtherAnswer]:
        rows = []
        for fact in self._stretch.facts:
            at = fact.record.topic, fact.record.offset
            recorded = self._decided.answers.get(at)
            counts = self._changed.answers.get(at)
            if recorded is None or counts is None:
                continue
            others = sum(count for answer, count in counts.items() if answer.code != recorded.code)
            if not others:
                continue
            other = next(answer for answer, _ in counts.most_common() if answer.code != recorded.code)
            event = fact.event
            rows.append(
                OtherAnswer(
                    type(event).__name__,
                    subject_of(event),
                    fact.record.at_ms,
                    recorded.code,
                    self._again.answer(at).code,
                    other.code,
                    other.message,
                    others / pairs,
                )
            )
        return rows

    def _lines(self, pairs: int) -> Lines:
        recorded, again, changed = self._decided.series.values, self._again.values, self._changed.values
        keys = {*recorded, *again, *changed}
        sizes: Counter[str] = Counter()
        for pool, resource in keys:
            if resource == "cpu" and (pool, resource) in recorded:
                sizes[pool] += int(recorded[pool, resource][1].sum()) + 1
        pools = {pool for pool, _ in sizes.most_common(POOLS_SHOWN)} or {pool for pool, _ in sorted(keys)[:POOLS_SHOWN]}
        nothing = np.zeros_like(next(iter({**recorded, **again, **changed}.values()), np.zeros((3, 1))))
        return {
            key: (recorded.get(key, nothing), again.get(key, nothing) / pairs, changed.get(key, nothing) / pairs)
            for key in sorted(keys)
            if key[0] in pools
        }


def _values(side: Sequence[Mapping[Group, Mapping[Figure, float]]], group: Group, figure: Figure) -> list[float]:
    """A figure of a group in each run of one side."""
    return [figures.get(group, {}).get(figure, 0.0) for figures in side]


def _order(group: Group) -> tuple[int, str]:
    return ("cell", "pool", "owner").index(group[0]), group[1]
