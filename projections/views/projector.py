"""The projector: follows the log of a cell and keeps the views.

Positions, the chains of the machines and all rows of a batch are written in one transaction, so that a restart goes on
where the rows stand. Rows change in memory; they are written when nothing more is to be folded, at once where somebody
waits, else not more often than every `pace_ms`, and the later the longer the last write took.

Nothing in a row depends on how records came in batches or on a clock: `rebuild` from the start of
the log gives the same rows.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from prometheus_client import Counter, Gauge, Histogram
from sqlalchemy import Connection, Engine, select

from events.acceptance import Chain, digest
from events.codec import encode
from events.delivery import Inbox
from events.log.port import Log, LogFault, LogRecord, LogUnavailable
from events.process.clock import SystemClock
from events.records.base import Event
from events.records.lifecycle import JobsForgotten
from events.records.rounds import EpochStarted, RoundCommitted
from events.records.tasks import RunsReported
from events.rounds import Delivered, in_log
from events.signatures import without_forgery
from events.topics import FORECASTS, HOSTS, JOBS, MACHINES, POOLS, TASKS, VIEWED, rounds_of
from projections.views import job_history, tables
from projections.views.access import AccessFold
from projections.views.cache import Cache
from projections.views.depths import Depths
from projections.views.disruptions import DisruptionFold
from projections.views.forecasts import ForecastFold
from projections.views.hosts import HostFold
from projections.views.jobs import JobFold
from projections.views.ledger import Ledger
from projections.views.maintenance import MaintenanceFold
from projections.views.marks import MarkFold
from projections.views.other_histories import OtherHistories
from projections.views.pools import PoolFold
from projections.views.preemptions import PreemptionFold
from projections.views.reader import Views, answered
from projections.views.reasons import ReasonFold
from projections.views.record_context import Fold, RecordContext, of_fact
from projections.views.retention import JobRetention
from projections.views.rows import ChainRow, OwnerRow, PositionRow, to_json
from projections.views.run_reports import rows_of, subject_of
from projections.views.series import SeriesFold
from projections.views.state_times import STATE_TIMES
from projections.views.transaction import Transaction
from projections.views.usage import UsageFold
from projections.views.waiting import WaitingFold
from projections.views.wal import WriteAheadLog

RECORDS = 1000
"""Records read and folded at most in a step."""
DECISIONS_BYTES = 256 * 1024
"""After so many bytes of rounds a step ends: about 20,000 tasks, some tens of milliseconds."""
ROW_BYTES = 64
"""The bytes that a removed row counts for: it takes about as long."""
RETRY_MS = 1000
WAIT_S = 0.1
PACE_MS = 20
"""Between transactions where nobody waits for the views: for processes that fold as the cell goes on."""
REST = 4
"""There is no write for so many times what the last one took: a job that goes on meanwhile is written once."""
BEHIND_MS = 1000
TOGETHER = 32
"""Where nobody waits a transaction takes no longer than that, and has the records of no more steps."""

LAG = Gauge("paceline_projection_lag_records", "Records not in the views yet.", ("cell", "topic"))
FOLDED = Counter("paceline_projection_records_total", "Records folded into the views.", ("cell",))
STEP = Histogram(
    "paceline_projection_step_duration_seconds",
    "Time per batch.",
    ("cell",),
    buckets=(0.001, 0.005, 0.02, 0.05, 0.1, 0.5, 2.0),
)


class Projector:
    """Keeps the views of one cell in `engine`, or in the file views.sqlite of a folder. A `Component`. Raises
    `ViewsFault` where the file can't be written. `on_folded` is told after each transaction how many records it had,
    and how many bytes.
    """

    def __init__(
        self,
        log: Log,
        target: Path | Engine,
        on_folded: Callable[[int, int], None] = lambda records, size: None,
        pace_ms: int = 0,
    ) -> None:
        self._log = log
        self._on_folded = on_folded
        self._engine = target if isinstance(target, Engine) else tables.open_engine(target / "views.sqlite")
        self._wal = WriteAheadLog(self._engine)
        self.views = Views(self._engine)
        self._cache = Cache()
        self._ledger = Ledger(self._cache)
        self._series = SeriesFold(self._cache, self._ledger)
        self._marks = MarkFold(self._cache)
        self._jobs = JobFold(self._cache, STATE_TIMES.of(log.cell), self._series.tasks, self._ledger)
        self._pools = PoolFold(self._cache)
        self._access = AccessFold(self._cache)
        self._hosts = HostFold(self._cache)
        self._maintenance = MaintenanceFold(self._cache)
        self._disruptions = DisruptionFold(self._cache)
        self._others = OtherHistories(self._cache)
        self._reasons = ReasonFold(self._cache)
        self._preemptions = PreemptionFold(self._cache)
        self._waiting = WaitingFold(self._cache)
        self._leaving = JobRetention(self._cache)
        self._usage = UsageFold(self._cache)
        self._forecasts = ForecastFold(self._cache)
        first = (self._reasons, self._preemptions, self._others, self._marks, self._access)
        folds = (*first, self._series, self._jobs, self._jobs.slas, self._pools, self._waiting, self._disruptions)
        self._folds: defaultdict[type[Event], list[Fold]] = defaultdict(list)
        for holder in (*folds, self._hosts, self._maintenance):
            for kind, fold in holder.folds.items():
                self._folds[kind].append(fold)
        self._folds[JobsForgotten].append(self._forgotten)
        self._pace_ms = pace_ms
        self._clock = SystemClock()
        self._written_ms = self._rest_ms = 0
        self._records = self._bytes = self._removed_before = 0
        """The records and bytes of this transaction, and the number of rows that were removed before it."""
        self._retry_ms: int | None = None
        self._blocked = False
        self._soon: list[str] = []
        self._stood_at = 0.0
        self._folded = FOLDED.labels(str(log.cell))
        self._duration = STEP.labels(str(log.cell))
        with self._engine.connect() as connection:
            self._restore(connection)
        self._transaction = Transaction(self._engine)
        self._cache.begin(self._transaction.connection)
        self._cache.history.position = lambda: sum(self._inbox.positions.values())
        self._checked = False
        self._reader = log.reader(self._inbox.positions)

    def step(self) -> bool:
        """Folds up to a bounded number of records; returns whether there may be more."""
        started = time.perf_counter()
        read = self._read(started)
        folded = self._fold() if self._inbox.waiting else 0
        if self._transaction.open and self._is_due(more=bool(folded and self._inbox.waiting)):
            self._write()
        # What was read may wait for topics that were not: then reading goes on, however much is waiting.
        blocked = not folded and self._inbox.waiting > 0
        newly, self._blocked = blocked and not self._blocked, blocked
        if folded:
            self._folded.inc(folded)
            self._duration.observe(time.perf_counter() - started)
        return bool(folded or read or newly)

    def _is_due(self, more: bool) -> bool:
        """Whether to write what was folded; `more`: there is more to fold at once."""
        if self.views.awaited:
            return True
        if more:
            large = self._records >= TOGETHER * RECORDS or self._removed() * ROW_BYTES > DECISIONS_BYTES
            return large or self._transaction.age_ms() >= BEHIND_MS
        return self._clock.monotonic_ms() - self._written_ms >= self._rest_ms

    def _removed(self) -> int:
        """Rows that this transaction has removed."""
        return self._leaving.removed - self._removed_before

    def _read(self, now: float) -> int:
        self._retry_ms = None
        if self._inbox.waiting >= RECORDS and not self._blocked:
            return 0
        try:
            self._check()
            records = self._reader.poll(RECORDS, 0)
        except LogUnavailable:
            self._retry_ms = RETRY_MS
            return 0
        self._take_in(records)
        self._note_lag(now)
        return len(records)

    def _check(self) -> None:
        """That the views are of this log: it has the last round of each machine. Raises `LogFault`."""
        if self._checked:
            return
        with self._engine.connect() as connection:
            for machine, chain in self._chains.items():
                last = (tables.rounds.c.machine == machine) & (tables.rounds.c.number == chain.round)
                offset = connection.execute(select(tables.rounds.c.position).where(last)).scalar()
                if offset is not None and not in_log(self._log, rounds_of(machine), offset + 1, chain.hash):
                    raise LogFault(
                        f"The views in {self._engine.url.database} are of another log: round {chain.round} of "
                        f"{machine} is not at {rounds_of(machine)}:{offset}. Delete them; they are made anew from the "
                        "log."
                    )
        self._checked = True

    def _take_in(self, records: Sequence[LogRecord]) -> None:
        self._inbox.add(records)
        # A fact's key is the id of its job: those rows are read at once instead of one by one.
        self._soon += [record.key.decode("utf-8", "replace") for record in records if record.topic == JOBS.name]

    def wait(self, seconds: float) -> None:
        """Returns when records have come, at the latest after `seconds`; for a host with a thread for each cell."""
        if not self._inbox.waiting or self._blocked:
            due_ms = self._due_ms()
            self._take_in(self._reader.poll(RECORDS, seconds if due_ms is None else min(seconds, due_ms / 1000)))

    def positions(self) -> dict[str, int]:
        """The position of each topic in the views."""
        return self._positions

    def fold_whole(self, progress: Callable[[int], None] | None = None) -> None:
        """Folds the log as it stands; `progress` is told how many records are in the views. Raises `LogUnavailable`."""
        ends = self._log.ends(topic.name for topic in VIEWED)
        while self.step() or any(self._reader.position(topic) < end for topic, end in ends.items()):
            if progress is not None:
                progress(sum(self.positions().values()))
            self.wait(WAIT_S)
        self._end_transaction()

    def wait_ms(self) -> int | None:
        """Implements `Component.wait_ms`."""
        waits = [each for each in (self._retry_ms, self._due_ms()) if each is not None]
        return min(waits, default=None)

    def _due_ms(self) -> int | None:
        """In how many milliseconds what was folded is to be written; None: there is nothing."""
        if not self._transaction.open:
            return None
        return max(0, self._written_ms + self._rest_ms - self._clock.monotonic_ms())

    def close(self) -> None:
        """Gives back the reader and the file."""
        self.stop_reading()
        self._engine.dispose()

    def stop_reading(self) -> None:
        """Gives back the reader, and what it writes by; the views stay."""
        self._end_transaction()
        self._reader.close()
        self._transaction.close()

    def _restore(self, connection: Connection) -> None:
        positions = {topic.name: 0 for topic in VIEWED}
        positions.update(map(tuple, connection.execute(select(tables.positions))))
        self._chains = {machine: Chain() for machine in MACHINES}
        for machine, epoch, number, hash_, position, inputs in connection.execute(select(tables.chains)):
            self._chains[machine] = Chain(epoch, number, hash_, position, msgspec.json.decode(inputs))
        self._depths = {machine: Depths(machine, bool(chain.round)) for machine, chain in self._chains.items()}
        self._jobs.restore(connection)
        self._series.restore(connection)
        self._ledger.restore(connection)
        self._leaving.restore(connection)
        self._pools.restore(connection)
        self._access.restore(connection)
        self._disruptions.restore(connection)
        self._inbox = Inbox(positions, {}, self._chains, self._log.cell)
        self._positions = positions

    def _fold(self) -> int:
        folded = size = read = 0
        with self._transaction.work():
            self._cache.jobs.load(self._soon)
            self._soon = []
            for delivered in self._inbox.deliver(RECORDS):
                self._take(delivered)
                folded, read = folded + 1, read + len(delivered.record.value)
                if isinstance(delivered.event, RoundCommitted):
                    size += len(delivered.record.value)
                if size + ROW_BYTES * self._removed() > DECISIONS_BYTES:
                    break
            self._cache.history.flush_many()
        self._records, self._bytes = self._records + folded, self._bytes + read
        return folded

    def _write(self) -> None:
        """Writes what was folded."""
        begun_ms = self._clock.monotonic_ms()
        with self._transaction.work():
            self._note_standing()
            self._series.flush()
            self._leaving.flush()
            self._pools.flush()
            self._cache.flush()
        self._transaction.commit()
        self._positions, self._written_ms = {**self._inbox.positions}, self._clock.monotonic_ms()
        if self._pace_ms:
            self._rest_ms = max(self._pace_ms, min(REST * (self._written_ms - begun_ms), BEHIND_MS))
        self._on_folded(self._records, self._bytes)
        self._records, self._bytes, self._removed_before = 0, 0, self._leaving.removed
        covered = {machine: chain.inputs for machine, chain in self._chains.items()}
        if self._access.take_changed():
            self.views.access_version += 1
        self.views.changed(answered(self._positions, covered))
        self._wal.keep_short()

    def _end_transaction(self) -> None:
        if self._transaction.open:
            self._write()

    def _take(self, delivered: Delivered) -> None:
        record, event = delivered.record, delivered.event
        if record.topic != FORECASTS.name:  # its pace is no matter of the cell
            self._series.record(record.topic, record.at_ms)
        if event is None:
            reason = delivered.fault or delivered.verdict
            value = record.value
            self._cache.quarantine.add(
                record.topic, record.offset, record.at_ms, str(reason), digest(value), len(value)
            )
        elif isinstance(event, RoundCommitted):
            self._round(delivered, event)
        elif isinstance(event, EpochStarted):
            self._marks.epoch(of_fact(record), event)
            build = delivered.key.build if delivered.key else ""
            at_ms, logic, state = record.at_ms, event.logic, event.state
            self._cache.owners.put(OwnerRow(event.machine, event.epoch, event.claimant, at_ms, build, logic, state))
        elif record.topic == FORECASTS.name:
            self._forecasts.fact(event)
        elif record.topic in (JOBS.name, POOLS.name, HOSTS.name, TASKS.name):
            fact, value = event, record.value
            if (actor := getattr(event, "actor", None)) is not None and actor.signature:
                fact = without_forgery(event, self._log.cell)
                value = value if fact is event else encode(fact)
            self._fact(of_fact(record), fact, value)

    def _fact(self, moment: RecordContext, event: Event, value: bytes) -> None:
        jobs = job_history.record(self._cache, moment, event, value)
        if moment.topic == JOBS.name:
            self._jobs.fact(moment, event, value)
        elif moment.topic == POOLS.name:
            self._pools.fact(moment, event, value)
            self._access.fact(moment, event, value)
            self._series.fact(moment, event)
        elif moment.topic == HOSTS.name:
            self._others.fact(moment, event, value)
            self._hosts.fact(moment, event)
            self._maintenance.fact(moment, event, value)
            self._marks.fact(moment, event)
            self._series.fact(moment, event)
            self._access.fact(moment, event, value)
        elif moment.topic == TASKS.name:
            reasons = list(rows_of(event, moment.offset)) if isinstance(event, RunsReported) else []
            for row in reasons:
                self._cache.run_reports.add(*row)
            self._leaving.note_unread(moment.offset, [*((job_id, 0, 0) for job_id in jobs), *map(subject_of, reasons)])

    def _round(self, delivered: Delivered, round_: RoundCommitted) -> None:
        record, machine, connection = delivered.record, round_.machine, self._transaction.connection
        seen = {rounds_of(name): depths for name, depths in self._depths.items()}
        before = [self._depths[machine].before(record.offset, connection)]
        before += [seen[each.topic].before(each.position, connection) for each in round_.seen if each.topic in seen]
        depth = 1 + max(before)
        self._depths[machine].add(record.offset, depth)
        self._cache.rounds.add(
            machine,
            round_.round,
            record.offset,
            record.at_ms,
            round_.now,
            round_.epoch,
            len(round_.decisions),
            depth,
            self._chains[machine].hash,
            to_json(self._chains[machine].inputs),
        )
        covered = self._chains["lifecycle"].inputs
        if machine == "lifecycle":
            self._usage.reported(round_.now, self._leaving.covered(covered.get(TASKS.name, 0)))
        if machine == "entitlement":
            self._pools.covered(self._chains[machine].inputs.get(rounds_of("lifecycle"), 0))
        seen_position = next((each.position for each in round_.seen if each.topic == rounds_of("lifecycle")), 0)
        first = RecordContext(
            record.topic, record.offset, record.at_ms, round_.now, depth, machine, round_.round, seen=seen_position
        )
        self._series.round(first, len(round_.decisions), self._chains[machine].inputs)
        shared = first[:-2]
        for place, (decision, value) in enumerate(zip(delivered.decisions(), round_.decisions, strict=True)):
            self._decision(RecordContext(*shared, place, seen_position), decision, value)
        self._leaving.sweep(first, covered)

    def _decision(self, moment: RecordContext, event: Event, value: bytes) -> None:
        job_history.record(self._cache, moment, event, value)
        for fold in self._folds[type(event)]:
            fold(moment, event)

    def _forgotten(self, moment: RecordContext, event: JobsForgotten) -> None:
        self._pools.forgotten(moment, self._leaving.forgotten(event, self._chains["lifecycle"].inputs))

    def _note_standing(self) -> None:
        for topic, position in self._inbox.positions.items():
            self._cache.positions.put(PositionRow(topic, position))
        for machine, chain in self._chains.items():
            inputs = to_json(chain.inputs)
            self._cache.chains.put(ChainRow(machine, chain.epoch, chain.round, chain.hash, chain.position, inputs))

    def _note_lag(self, now: float) -> None:
        if now - self._stood_at < 1.0:
            return
        self._stood_at = now
        try:
            ends = self._reader.ends()
        except LogUnavailable:
            return
        for topic, end in ends.items():
            LAG.labels(str(self._log.cell), topic).set(max(0, end - self._inbox.positions[topic]))


def rebuild(log: Log, target: Path | Engine, progress: Callable[[int], None] | None = None) -> Engine:
    """Folds the log as it stands into a target and returns the engine; `progress` is told how many records are in the
    views. Raises `LogGap`, `LogUnavailable`.
    """
    projector = Projector(log, target)
    projector.fold_whole(progress)
    projector.stop_reading()
    return projector.views.engine
