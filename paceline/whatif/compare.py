"""Pairs of branches, one without a change and one with it, so that noise is told from effect.

Each pair has a seed of its own: what isn't known of lengths is drawn by it, alike on both sides. The effect of a figure
is the mean of the differences within the pairs, with Student's interval at 90 % (W. S. Gosset, The probable error of a
mean, Biometrika 6, 1908).
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean, stdev

from paceline.whatif.branch import Branch, Change
from paceline.whatif.figures import FIGURES, Measured, Wait, share_on_same_host, share_within
from paceline.whatif.stretch import NothingToCompare, Stretch

T90 = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771, 1.761, 1.753)
"""Student's t at 90 %, both sides, by degrees of freedom from 1 on."""
T90_MANY = 1.645
NEAR_MS = (1_000, 10_000, 60_000)
Group = tuple[str, str]


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

    @property
    def is_noise(self) -> bool:
        """Whether the interval contains 0, or isn't known."""
        return self.within is None or abs(self.effect) <= self.within or self.effect == 0


@dataclass(frozen=True)
class Trust:
    """The likeness of the branches without a change to history, as means over the pairs; None: no job began."""

    near: dict[int, float | None]
    """The share of first starts within so many milliseconds of when they were."""
    same_host: float | None
    preempted_recorded: float
    preempted_again: float


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
    jobs: list[tuple[str, float, float]]
    """Jobs by how much their wait changes, the largest first: id, wait without and with the change, in seconds."""


JOBS_SHOWN = 20
Say = Callable[[int, bool, int], None]
"""Told of each moment: the number of the pair, whether it is the changed side, milliseconds since 1970."""


def compare(
    stretch: Stretch,
    change: Change,
    pairs: int,
    seed: int,
    jitter_ms: int,
    say: Say = lambda pair, changed, now: None,
) -> Comparison:
    """Runs the pairs. Raises `NothingToCompare` where no batch job waited in the stretch, neither in history nor on a
    side of a pair.
    """
    span = stretch.from_ms, stretch.to_ms
    recorded = Measured(stretch.runs, *span)
    again, changed = [], []
    flags, core_ms, rules = Counter[str](), Counter[str](), Counter[str]()
    for pair in range(pairs):
        again.append(_run(stretch, Branch(stretch, Change(), seed + pair, jitter_ms), partial(say, pair, False)))
        branch = Branch(stretch, change, seed + pair, jitter_ms)
        changed.append(_run(stretch, branch, partial(say, pair, True)))
        flags += branch.lengths.flags
        core_ms += branch.lengths.core_ms
        rules += branch.rules
    if not any(each.waits for each in (recorded, *again, *changed)):
        raise NothingToCompare("No batch job waited in the stretch: there is nothing to compare. Choose another one.")
    effects, trust = _effects(recorded, again, changed), _trust(recorded, again)
    return Comparison(pairs, effects, trust, dict(flags), dict(core_ms), dict(rules), _jobs(again, changed))


def interval(differences: Sequence[float]) -> float | None:
    """Half of Student's interval at 90 % of the mean; None: one value can't say."""
    count = len(differences)
    if count < 2:
        return None
    t = T90[count - 2] if count - 2 < len(T90) else T90_MANY
    return t * stdev(differences) / math.sqrt(count)


def _run(stretch: Stretch, branch: Branch, on_moment: Callable[[int], None]) -> Measured:
    try:
        branch.run(on_moment)
        return Measured(branch.table, stretch.from_ms, stretch.to_ms)
    finally:
        branch.close()


def _effects(recorded: Measured, again: Sequence[Measured], changed: Sequence[Measured]) -> list[Effect]:
    was, sides = recorded.figures(), ([each.figures() for each in again], [each.figures() for each in changed])
    groups = sorted({group for figures in (was, *sides[0], *sides[1]) for group in figures}, key=_order)
    effects = []
    for group in groups:
        for figure in FIGURES:
            before, after = ([side.get(group, {}).get(figure, 0.0) for side in each] for each in sides)
            differences = [new - old for old, new in zip(before, after, strict=True)]
            effects.append(
                Effect(
                    group,
                    figure,
                    was.get(group, {}).get(figure, 0.0),
                    fmean(before),
                    fmean(after),
                    fmean(differences),
                    interval(differences),
                    interval(after),
                )
            )
    return effects


def _order(group: Group) -> tuple[int, str]:
    return ("cell", "pool", "owner").index(group[0]), group[1]


def _trust(recorded: Measured, again: Sequence[Measured]) -> Trust:
    def mean(values: Sequence[float | None]) -> float | None:
        numbers = [value for value in values if value is not None]
        return fmean(numbers) if numbers else None

    cell = ("cell", "")
    return Trust(
        {ms: mean([share_within(recorded.waits, each.waits, ms) for each in again]) for ms in NEAR_MS},
        mean([share_on_same_host(recorded.waits, each.waits) for each in again]),
        recorded.figures().get(cell, {}).get("preempted", 0),
        fmean([each.figures().get(cell, {}).get("preempted", 0) for each in again]),
    )


def _jobs(again: Sequence[Measured], changed: Sequence[Measured]) -> list[tuple[str, float, float]]:
    def means(side: Sequence[Measured]) -> dict[str, float]:
        waits: dict[str, list[Wait]] = {}
        for measured in side:
            for job_id, wait in measured.waits.items():
                waits.setdefault(job_id, []).append(wait)
        return {job_id: fmean(each.waited_ms for each in some) / 1000 for job_id, some in waits.items()}

    before, after = means(again), means(changed)
    both = [(job_id, before[job_id], after[job_id]) for job_id in before.keys() & after.keys()]
    return sorted((job for job in both if job[1] != job[2]), key=lambda job: (-abs(job[2] - job[1]), job[0]))[
        :JOBS_SHOWN
    ]
