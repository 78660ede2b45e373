"""Runs the changed side of pairs of branches by this Paceline, for another one that compares:
`python -m paceline.whatif.build_side`.

Reads a `SideOrder` from standard input and writes a `Begun`, and for each seed lines of `At` and a `SideResult`, to
standard output. Releases ask one another by these lines: fields are only added, each with a default.
"""

import sys
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from events import VERSION
from events.log.port import Log, LogError
from paceline.client.errors import PacelineError
from paceline.history.build_protocol import Failed
from paceline.history.open_log import open_log
from paceline.history.other_build import WorkerEnded, address_of, ask_build
from paceline.history.start_state import start_of
from paceline.moments.order import LogAddress
from paceline.moments.ordered_work import read_order
from paceline.services.settings import Settings
from paceline.whatif.branch import Branch
from paceline.whatif.branch_elsewhere import BranchElsewhere, CountsOfLengths, Elsewhere, Series, Told
from paceline.whatif.change_file import ReadFile, read_change, whole_change
from paceline.whatif.decided import Answer, FactAt
from paceline.whatif.run_table import Job, Refusal, RunTable
from paceline.whatif.settings import read_setting
from paceline.whatif.stretch import Stretch, read_stretch

MODULE = "paceline.whatif.build_side"
SAY_S = 0.2
UNREACHABLE = 6


class SideOrder(msgspec.Struct, frozen=True):
    """The log, the stretch in milliseconds since 1970, the change as `--set` and `--file` have it (empty: none), a
    branch for each seed, and of all branches `jitter_ms` and `resolution_ms` as `Branch` has them.
    """

    log: LogAddress
    from_ms: int
    to_ms: int
    settings: list[str]
    file: str
    seeds: list[int]
    jitter_ms: int
    resolution_ms: int = 1

    @classmethod
    def of(
        cls,
        opened: Settings,
        log: Log,
        stretch: Stretch,
        settings: Iterable[str],
        file: Path | None,
        seeds: Iterable[int],
        jitter_ms: int,
        resolution_ms: int,
    ) -> "SideOrder":
        """The order for a stretch of the log that settings name."""
        path = str(file.absolute()) if file is not None else ""
        span = stretch.from_ms, stretch.to_ms
        return cls(address_of(opened, log), *span, [*settings], path, [*seeds], jitter_ms, resolution_ms)


class Begun(msgspec.Struct, frozen=True, tag="begun"):
    """The first line: the version that decides."""

    build: str


class At(msgspec.Struct, frozen=True, tag="at"):
    """A branch is at this moment, in milliseconds since 1970."""

    ms: int


class SideResult(msgspec.Struct, frozen=True, tag="side"):
    """A branch at its end. `columns`: those of the run table, 8 bytes a run; the others as `Branch` has them, maps as
    lists of pairs.
    """

    jobs: list[Job]
    hosts: list[str]
    columns: dict[str, bytes]
    flags: dict[str, int]
    core_ms: dict[str, int]
    rules: dict[str, int]
    preemptions: list[tuple[tuple[str, str], int]]
    answers: list[tuple[FactAt, tuple[str, str]]]
    series: list[tuple[tuple[str, str], list[list[float]]]]
    origins: list[tuple[FactAt, FactAt]]
    added: list[tuple[FactAt, tuple[str, str]]]
    refused: list[Refusal]


Line = Begun | At | SideResult | Failed


class ChangedSide(NamedTuple):
    """The build that decides the changed side, None: this one; and words for it."""

    run: Elsewhere | None
    lines: list[str]


@contextmanager
def elsewhere(python: str | None, order: SideOrder) -> Iterator[ChangedSide]:
    """Lets the Paceline of an interpreter decide the changed side of each pair; None: this one. Raises as
    `Worker.messages`.
    """
    if python is None:
        yield ChangedSide(None, [])
        return
    with ask_build(python, order, MODULE) as worker:
        lines = worker.messages(Line, Begun, None)

        def run(on_moment: Callable[[int], None]) -> BranchElsewhere:
            for line in lines:
                if isinstance(line, At):
                    on_moment(line.ms)
                elif isinstance(line, SideResult):
                    return branch_of(line)
            raise WorkerEnded(f"{python} ended without an answer.")

        yield ChangedSide(run, [f"decided by Paceline {next(lines).build} ({python})"])


def result_of(branch: Branch) -> SideResult:
    """A branch at its end as a line."""
    table, decided = branch.table, branch.decided
    return SideResult(
        list(table.jobs.values()),
        table.hosts,
        table.bytes_of_columns(),
        dict(branch.lengths.flags),
        dict(branch.lengths.core_ms),
        dict(branch.rules),
        list(decided.preemptions.items()),
        [(fact, (answer.code, answer.message)) for fact, answer in decided.answers.items()],
        [(key, rows.tolist()) for key, rows in decided.series.values.items()],
        list(branch.origins.items()),
        list(branch.added.items()),
        table.refused,
    )


def branch_of(result: SideResult) -> BranchElsewhere:
    """The branch of a line."""
    table = RunTable(result.jobs)
    table.hosts, table.refused = result.hosts, result.refused
    table.restore({name: array("q", column) for name, column in result.columns.items()})
    answers = {fact: Answer(*answer) for fact, answer in result.answers}
    series = Series({key: np.array(rows) for key, rows in result.series})
    return BranchElsewhere(
        table,
        CountsOfLengths(Counter(result.flags), Counter(result.core_ms)),
        Counter(result.rules),
        Told(Counter(dict(result.preemptions)), answers, series),
        dict(result.origins),
        dict(result.added),
    )


def main() -> int:
    """Does what standard input orders."""
    order = read_order(SideOrder, 0)
    _write(Begun(VERSION))
    try:
        log = open_log(Settings(**msgspec.structs.asdict(order.log)))
        try:
            data = Path(order.log.data)
            stretch = read_stretch(log, order.from_ms, order.to_ms, lambda name: start_of(data, name))
            read = read_change(Path(order.file)) if order.file else ReadFile({}, [])
            change = whole_change(stretch, read, [read_setting(each) for each in order.settings])
            for seed in order.seeds:
                branch = Branch(stretch, change, seed, order.jitter_ms, order.resolution_ms)
                try:
                    branch.run(_sayer())
                finally:
                    branch.close()
                _write(result_of(branch))
                del branch
        finally:
            log.close()
    except (PacelineError, LogError) as error:
        _write(Failed(str(error), error.exit_code if isinstance(error, PacelineError) else UNREACHABLE))
        return 1
    return 0


def _sayer() -> Callable[[int], None]:
    last = [0.0]

    def say(ms: int) -> None:
        if time.monotonic() - last[0] > SAY_S:
            last[0] = time.monotonic()
            _write(At(ms))

    return say


def _write(line: Line) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
