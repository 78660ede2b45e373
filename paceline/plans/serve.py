"""Plans facts: `python -m paceline.plans.serve`, started by `paceline.moments.planner`.

Reads a `PlanStart` and then, line by line, `PlanOrder`s from standard input; answers each with a line, a `PlanResult`,
on standard output. It follows the log of its cell when it is asked, so it costs nothing between two questions. Each is
answered by a process that is forked from this one: a copy of the machines, whose branch of the log ends with it.
"""

import gc
import os
import select
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from sqlalchemy import select as select_rows

from events.codec import decode
from events.log.port import Log
from events.process.clock import SimulatedClock
from events.records.hosts import HostPoolAssigned, HostPoolDefined, HostPoolMoveRequested, HostsDrainRequested
from events.records.pools import PoolDefined, RebalanceRequested
from events.topics import ALL
from paceline.history.open_log import open_log
from paceline.moments.log_cut import CutLog, closed
from paceline.moments.order import PlanOrder, PlanResult, PlanStart
from paceline.plans.branch import branch_log
from paceline.plans.drain_plan import plan_drain
from paceline.plans.follower import Follower, starts_of
from paceline.plans.host_pool_plan import plan_change
from paceline.plans.move_plan import plan_move
from paceline.plans.planning import Copy, plan_jobs
from paceline.plans.pool_plan import plan_pools
from paceline.plans.rebalance_plan import plan_rebalance
from paceline.services.settings import Settings
from projections.queries.pool_plans import Outlook, cell_plan
from projections.views import tables

NICE = 5
IDLE_S = 300.0
"""A process that nobody has asked for so long ends: the next question starts another."""
BEHIND_MAX = 50_000
"""Views that lack more records than this are being made: there is no plan until they are there."""
SPARE_S = 0.3
"""So much of the time of a plan is left for the views and the answer."""


class CannotPlan(Exception):
    """There is no plan now; the message says why. `code`: that of the problem."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class Plans:
    """Follows a cell, and plans."""

    def __init__(self, start: PlanStart, log: Log) -> None:
        self._start = start
        self._log = log
        gc.disable()  # what is restored stays: looking through it again and again takes longer than to restore it
        self._follower = Follower(log, map(Path, start.stores), start.snapshots)
        gc.freeze()  # a forked process shares what it doesn't touch
        gc.enable()

    def plan(self, order: PlanOrder) -> PlanResult:
        """Answers a question. Raises `CannotPlan`, and what following the log raises."""
        until_s = time.monotonic() + order.limit_s
        with TemporaryDirectory(prefix="paceline-plan-") as folder:
            copied = self._copied(Path(folder))
            if order.jobs:
                jobs = {job_id: [decode(value) for value in values] for job_id, values in order.jobs.items()}
                return _forked(lambda: plan_jobs(copied(), jobs, until_s - SPARE_S), until_s)
            if order.drain:
                drain = decode(order.drain)
                if isinstance(drain, HostPoolDefined | HostPoolAssigned):
                    return _forked(lambda: plan_change(copied(), drain, until_s - SPARE_S), until_s)
                if isinstance(drain, HostPoolMoveRequested):
                    return _forked(lambda: plan_move(copied(), drain, until_s - SPARE_S), until_s)
                if isinstance(drain, RebalanceRequested):
                    return _forked(lambda: plan_rebalance(copied(), drain, until_s - SPARE_S), until_s)
                assert isinstance(drain, HostsDrainRequested)
                return _forked(lambda: plan_drain(copied(), drain, until_s - SPARE_S), until_s)
            half_s = time.monotonic() + (until_s - time.monotonic()) / 2 - SPARE_S
            without = _outlook(_forked(lambda: plan_pools(copied(), [], half_s), until_s))
            pools = [fact for fact in map(decode, order.pools) if isinstance(fact, PoolDefined)]
            changed = _outlook(_forked(lambda: plan_pools(copied(), pools, until_s - SPARE_S), until_s))
            plan = cell_plan(self._log.cell, without, changed)
            return PlanResult(msgspec.Raw(msgspec.json.encode(plan)))

    def _copied(self, folder: Path) -> Callable[[], Copy]:
        """Copies all that a plan begins from; what it gives takes the views for itself, in the process that plans."""
        views = folder / "views.sqlite"
        folded = copy_views(Path(self._start.views), views)
        ends = closed(self._log, self._log.ends([topic.name for topic in ALL]))
        if (behind := sum(end - folded.get(topic, 0) for topic, end in ends.items())) > BEHIND_MAX:
            raise CannotPlan("VIEWS_BEHIND", f"the views lack {behind} records of the log: they are being made")
        cut = CutLog(self._log, ends)
        self._follower.follow(cut)
        starts = starts_of(self._follower.folds.values(), ends)
        starts = {topic: min(start, folded.get(topic, 0)) for topic, start in starts.items()}
        clock = SimulatedClock(time.time_ns() // 1_000_000)
        log = branch_log(cut, starts, ends, clock)

        def copy() -> Copy:
            own = folder / f"{os.getpid()}.sqlite"
            shutil.copyfile(views, own)
            return Copy(log, self._follower.folds, tables.open_engine(own), clock)

        return copy


def copy_views(views: Path, target: Path) -> Mapping[str, int]:
    """Copies the views as they stand, and returns how far they are. Raises `CannotPlan` where there are none."""
    if not views.exists():
        raise CannotPlan("VIEWS_BEHIND", "the views aren't there yet")
    address = f"{views.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(address, uri=True)) as source, closing(sqlite3.connect(target)) as copy:
        copy.execute("PRAGMA synchronous=OFF")
        source.backup(copy)
    engine = tables.attach(target)
    if engine is None:
        raise CannotPlan("VIEWS_BEHIND", "the views are being made")
    with engine.connect() as connection:
        positions: Mapping[str, int] = dict(map(tuple, connection.execute(select_rows(tables.positions))))
    engine.dispose()
    return positions


def _outlook(result: PlanResult) -> Outlook:
    """The end of a branch, as the process that was forked tells it. Raises `CannotPlan` where that failed."""
    if result.error:
        raise CannotPlan(result.code, result.error)
    return msgspec.json.decode(result.plan, type=Outlook)


def _forked(work: Callable[[], Any], until_s: float) -> PlanResult:
    """Does work in a process that is forked from this one, and returns what that gives. Ends it after its time, and
    with this process when nobody is left who asks.
    """
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        _work(work, write_end)
    os.close(write_end)
    answer = b""
    try:
        while True:
            ready, _, _ = select.select([read_end, sys.stdin.fileno()], [], [], max(0.0, until_s - time.monotonic()))
            if read_end not in ready:
                raise CannotPlan("PLAN_LATE", "the plan took longer than it may")
            part = os.read(read_end, 1 << 16)
            if not part:
                break
            answer += part
    finally:
        os.close(read_end)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return msgspec.json.decode(answer, type=PlanResult)


def _work(work: Callable[[], Any], write_end: int) -> None:
    """Does the work in the forked process, and ends it without a look back at what it shares with the other one."""
    gc.disable()
    try:
        result = PlanResult(msgspec.Raw(msgspec.json.encode(work())))
    except Exception as error:
        result = PlanResult(code="PLAN_FAILED", error=f"{type(error).__name__}: {error}")
    with os.fdopen(write_end, "wb") as pipe:
        pipe.write(msgspec.json.encode(result))
    os._exit(0)


def _lines() -> Iterator[bytes]:
    """The lines of standard input, until it ends, or nobody has asked for long."""
    descriptor, text = sys.stdin.fileno(), b""
    while select.select([descriptor], [], [], IDLE_S)[0] and (part := os.read(descriptor, 1 << 20)):
        *lines, text = (text + part).split(b"\n")
        yield from lines


def main() -> int:
    """Answers until standard input ends."""
    lines = _lines()
    start = msgspec.json.decode(next(lines), type=PlanStart)
    os.nice(NICE)
    os.umask(0o077)
    log = open_log(Settings(**msgspec.structs.asdict(start.log)))
    try:
        plans = Plans(start, log)
        for line in lines:
            try:
                result = plans.plan(msgspec.json.decode(line, type=PlanOrder))
            except CannotPlan as why:
                result = PlanResult(code=why.code, error=str(why))
            sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")
            sys.stdout.flush()
    finally:
        log.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
