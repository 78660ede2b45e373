"""What storms count, in the same words whatever was stormed."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

KILLING = ("kill -9", "gone", "cold", "torn tail", "truncated log", "foreign store", "newer store")
"""The ways that end a process at once, at their beginning."""


class Stormed(NamedTuple):
    """What was counted: seconds to full service after each fault by way and part, tasks submitted, runs of them, tasks
    without the outcome that they must have, runs ordered while another of the task lived, states that differ from what
    replay comes to, logs in which the checker of simulations finds what must not be, rounds that nobody followed by
    cause.
    """

    back_s: Mapping[str, list[float]]
    tasks: int
    runs: int
    lost: int
    doubled: int
    hash_mismatches: int
    violations: int
    ignored: Counter[str]

    @property
    def times_s(self) -> list[float]:
        """Seconds to full service after each fault."""
        return [each for times in self.back_s.values() for each in times]

    def __str__(self) -> str:
        lines = [
            f"{len(times):6} {name:24}{percentile(times, 50):6.2f} s{max(times):6.2f} s"
            for name, times in sorted(self.back_s.items())
        ]
        lines += [f"{self.tasks} tasks, {self.runs} runs; {self.lost} lost, {self.doubled} doubled"]
        lines += [f"{self.hash_mismatches} states that differ from what replay comes to"]
        lines += [f"{self.violations} logs in which the checker finds what must not be"]
        lines += [f"{count} rounds or claims ignored: {cause}" for cause, count in sorted(self.ignored.items())]
        lines += [
            f"back in full service after {percentile(self.times_s, 50):.2f} s at the median, "
            f"{percentile(self.times_s, 99):.2f} s at p99, {max(self.times_s):.2f} s at most"
        ]
        return "\n".join(lines)


def stormed(found: Mapping[str, int], back_s: Mapping[str, list[float]], tasks: int, live: int) -> Stormed:
    """What was counted after a storm that submitted so many tasks, of which `live` run to its end and no other does."""
    assert found["live"] <= live, "all other runs have ended"
    return Stormed(
        back_s=back_s,
        tasks=tasks,
        runs=found["ordered"],
        lost=tasks - found["succeeded"] - found["live"],
        doubled=found["doubled"],
        hash_mismatches=found["hash_mismatches"],
        violations=found["violations"],
        ignored=Counter({name.split()[1]: n for name, n in found.items() if name.startswith("ignored: ")}),
    )


def percentile(values: list[float], percent: int) -> float:
    """The smallest value that so many percent of all don't exceed."""
    return sorted(values)[max(0, -(-len(values) * percent // 100) - 1)]
