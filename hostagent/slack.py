"""The CPU that a host lends: what its runs have asked for and won't need soon, in whole thousandths of a core.

A run is taken to need all that it asked for while it is young. Then its need falls slowly to what it used at most in
the last minute and a quarter more, and rises at once where it uses more. What an agent knows of that is kept in a file,
so that it doesn't take back what it lends when it is started again (decision 071).
"""

import json
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from hostagent import private_files
from hostagent.load import steps

YOUNG_MS, YOUNG_BATCH_MS = 300_000, 60_000
"""For so long a run is young: a service may take its time before it is asked anything."""
FALL_MS = 300_000
"""In so long a need falls to what is enough, by about two thirds."""
SPARE_MILLI, SPARE_PER_MILLE = 50, 250
"""A run has so much more than it uses, the larger of both."""
HOST_PER_MILLE = 50
"""So much of a host is never lent."""
PEAK_SAMPLES = 12
"""So many samples are a minute."""
RISE_SAMPLES = 3
"""More is lent once so many samples in a row allow it."""
SAVE_MS = 60_000


class Asked(NamedTuple):
    """A run that isn't revocable: its name, thousandths of a core that it asked for and that it used last, its age."""

    name: str
    request: int
    used: int
    age_ms: int
    batch: bool


class RunNeed:
    """The CPU that a run is taken to need."""

    __slots__ = ("at_ms", "milli", "peaks")

    def __init__(self, milli: int, now_ms: int) -> None:
        self.milli = milli
        self.at_ms = now_ms
        self.peaks: deque[int] = deque(maxlen=PEAK_SAMPLES)

    def sample(self, run: Asked, now_ms: int) -> None:
        """Takes the next sample."""
        self.peaks.append(run.used)
        young = run.age_ms < (YOUNG_BATCH_MS if run.batch else YOUNG_MS)
        self.milli = need_of(self.milli, run.request, max(self.peaks), young, now_ms - self.at_ms)
        self.at_ms = now_ms


def need_of(need: int, request: int, peak: int, young: bool, passed_ms: int) -> int:
    """The need of a run after so many milliseconds."""
    if young:
        return request
    enough = min(request, peak + max(SPARE_MILLI, peak * SPARE_PER_MILLE // 1000))
    need = min(need, request)
    if enough >= need:
        return enough
    return max(enough, need - max(1, (need - enough) * passed_ms // FALL_MS))


def slack_of(requests: Iterable[int], needs: Iterable[int], capacity: int) -> int:
    """The CPU that is lent of a host with these runs."""
    return max(0, sum(requests) - sum(needs) - capacity * HOST_PER_MILLE // 1000)


class SlackMeter:
    """Follows the needs of all runs of a host. `path`: where they are kept."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._needs: dict[str, RunNeed] = {}
        self._kept = _read(path)
        """The needs that an earlier agent knew, of runs that weren't measured since."""
        self._last: deque[int] = deque(maxlen=RISE_SAMPLES)
        self._saved_ms = 0

    def sample(self, runs: Iterable[Asked], capacity: int, now_ms: int) -> int:
        """Takes the next sample of all runs; returns what the host lends, in steps of its CPU."""
        before, self._needs = self._needs, {}
        requests = 0
        for run in runs:
            need = before.get(run.name) or RunNeed(min(run.request, self._kept.get(run.name, run.request)), now_ms)
            need.sample(run, now_ms)
            self._needs[run.name] = need
            requests += run.request
        slack = slack_of((requests,), (need.milli for need in self._needs.values()), capacity)
        if not self._last and self._kept:  # it goes on where an earlier agent was
            self._last.extend([slack] * RISE_SAMPLES)
        self._last.append(slack)
        self._save(now_ms)
        full = len(self._last) == RISE_SAMPLES
        return steps(min(self._last), capacity, down=True) if full else 0

    def _save(self, now_ms: int) -> None:
        if now_ms - self._saved_ms < SAVE_MS and self._saved_ms:
            return
        self._saved_ms, self._kept = now_ms, {}
        with suppress(OSError):  # on a full disk the next agent begins from nothing
            private_files.write(str(self._path), json.dumps({name: need.milli for name, need in self._needs.items()}))


def _read(path: Path) -> Mapping[str, int]:
    try:
        needs = json.loads(private_files.read_file(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return {name: need for name, need in needs.items() if isinstance(need, int)} if isinstance(needs, dict) else {}
