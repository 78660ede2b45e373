"""The hosts of a branch: they start the runs that lifecycle orders there, which go on as `Lengths` says."""

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import NamedTuple

from events.acceptance import Chain
from events.codec import encode
from events.codes import RunReport
from events.delivery import Inbox
from events.log.port import Log, NewRecord
from events.process.clock import Clock
from events.records.base import Event
from events.records.hosts import HostBack, HostConnected, HostSilent
from events.records.lifecycle import ImagePrefetchOrdered, RunsOrdered, RunsStopping
from events.records.rounds import RoundCommitted
from events.records.tasks import HostInventory, ImagePrefetched
from events.topics import HOSTS, JOBS
from paceline.plans.run_reports import STOPPED_CODE, HostRun, Report, RunId, reported, runs_of
from paceline.whatif.lengths import FAULT, SILENCE_MS, UNRANKED, Length, Lengths
from paceline.whatif.run_table import LIFECYCLE, NATURAL, Job, RunTable

RECORDS = 2000
HOSTS_KEY = b"hosts"
UNSTARTED = (RunReport.NOT_STARTED, RunReport.CANNOT_START)


class Going(NamedTuple):
    """A run that goes on: on which host, since when it was ordered, and by which length."""

    host_id: str
    ordered_ms: int
    length: Length


class RecordedHosts:
    """A `Component` that follows lifecycle's rounds on a branch, and reports what its hosts would."""

    def __init__(
        self,
        log: Log,
        clock: Clock,
        positions: Mapping[str, int],
        chain: Chain,
        lengths: Lengths,
        table: RunTable,
        job_of: Callable[[str], Job],
        silences: Iterable[tuple[int, str]],
        resolution_ms: int = 1,
    ) -> None:
        """`positions`, `chain`: where the branch begins, and lifecycle's history there. `table`: takes the runs of the
        branch. `job_of`: the job of an id, as lengths know it. `silences`: when which hosts fell silent, in order.
        `resolution_ms`: what runs report comes at the next multiple of it.
        """
        self.table = table
        self._lengths = lengths
        self._job_of = job_of
        self._resolution_ms = resolution_ms
        self._log = log
        self._clock = clock
        self._inbox = Inbox(
            {topic: positions[topic] for topic in (JOBS.name, HOSTS.name, LIFECYCLE)},
            {},
            {"lifecycle": chain},
            log.cell,
        )
        self._reader = log.reader(self._inbox.positions)
        self._going: dict[RunId, Going] = {}
        self._natural: dict[tuple[str, int], int] = {}
        """The number of natural ends of each task."""
        self._due: dict[int, list[tuple[int, int, RunId, int, int]]] = {}
        """By time rank, order, run, report and exit code of what is due, should the run still go on."""
        self._times: list[int] = []
        """The times at which anything is due, as a heap."""
        self._ties = itertools.count()
        self._now: list[Report] = []
        self._pulled: list[Event] = []
        self._faulted: set[RunId] = set()
        """Runs that a fault of their host has ended."""
        self._unheard: dict[str, list[Report]] = {}
        """By host that isn't heard, what it will report when it is."""
        self._silences = deque((at_ms - SILENCE_MS, host_id) for at_ms, host_id in silences)
        """Hosts that won't be heard, and from when on: the gateway says so later."""

    def begins(self, runs: Iterable[tuple[RunId, Going]], natural: dict[tuple[str, int], int]) -> None:
        """Takes what goes on where the branch begins. `natural`: how many ends each task has had before."""
        self._natural.update(natural)
        for run, going in runs:
            self._start(run, going)

    def step(self) -> bool:
        """Implements `Component.step`."""
        self._inbox.add(self._reader.poll(RECORDS, 0))
        count = 0
        for delivered in self._inbox.deliver(RECORDS):
            count += 1
            self.table.take(delivered)
            event = delivered.event
            if isinstance(event, RoundCommitted):
                for decision in delivered.decisions():
                    self._told(decision, delivered.record.at_ms)
            elif isinstance(event, HostSilent):
                self._unheard.setdefault(event.host_id, [])
            elif isinstance(event, HostBack | HostConnected):
                for each in self._unheard.pop(event.host_id, []):
                    self._say(each)
        now = self._clock.monotonic_ms()
        while self._silences and self._silences[0][0] <= now:
            self._unheard.setdefault(self._silences.popleft()[1], [])
        while self._times and self._times[0] <= now:
            for _, _, run, report, code in sorted(self._due.pop(heapq.heappop(self._times))):
                self._report(run, report, code)
        reports, self._now = self._now, []
        pulled, self._pulled = self._pulled, []
        facts = pulled
        if reports:
            fact = reported("what-if", reports)
            self.table.reported(fact, now)
            facts = [*pulled, fact]
        if facts:
            self._log.append([NewRecord(fact.topic, HOSTS_KEY, encode(fact)) for fact in facts])
        return count > 0 or bool(facts)

    def wait_ms(self) -> int | None:
        """Implements `Component.wait_ms`."""
        times = [*self._times[:1], *(at_ms for at_ms, _ in islice(self._silences, 1))]
        return max(0, min(times) - self._clock.monotonic_ms()) if times else None

    def close(self) -> None:
        """Implements `Component.close`."""
        self._reader.close()

    def inventory(self, host_id: str, session: int, lost: bool) -> HostInventory:
        """The runs that a host has when it connects. `lost`: those it had are gone."""
        here = [run for run, going in self._going.items() if going.host_id == host_id]
        if lost:
            for run in here:
                del self._going[run]
            here = []
            self._unheard[host_id] = []
        jobs = {job_id: at for at, job_id in enumerate(dict.fromkeys(run[0] for run in here))}
        return HostInventory.pack(
            host_id=host_id,
            session=session,
            job_ids=tuple(jobs),
            job=[jobs[run[0]] for run in here],
            instance=[run[1] for run in here],
            run=[run[2] for run in here],
            state=[RunReport.STARTED] * len(here),
            exit_code=[0] * len(here),
        )

    def _told(self, decision: Event, at_ms: int) -> None:
        match decision:
            case RunsOrdered():
                for run, host_id in runs_of(decision):
                    job = self._job_of(run[0])
                    natural = self._natural.get(run[:2], 0)
                    length = self._lengths.of(job, run, natural, host_id=host_id, ordered_ms=at_ms)
                    self._start(run, Going(host_id, at_ms, length))
            case RunsStopping():
                for run, _ in runs_of(decision):
                    due_ms = at_ms + self._lengths.stop_ms(self._job_of(run[0]), run)
                    self._push(due_ms, UNRANKED, run, RunReport.STOPPED, STOPPED_CODE)
            case ImagePrefetchOrdered():
                self._pulled += (
                    ImagePrefetched(
                        host_id=host_id, session=0, job_id=decision.job_id, image_digest=decision.image_digest
                    )
                    for host_id in decision.host_ids
                    if host_id not in self._unheard
                )

    def _start(self, run: RunId, going: Going) -> None:
        """A run goes on: what it reports is due from its order on."""
        self._going[run] = going
        length, ordered_ms = going.length, going.ordered_ms
        now, unit_ms = self._clock.monotonic_ms(), self._resolution_ms
        reports = [(after_ms, UNRANKED, report, 0) for after_ms, report in length.health] if length.health else []
        if length.report not in UNSTARTED:
            reports.insert(0, (length.starts_ms, UNRANKED, RunReport.STARTED, 0))
        if length.ends_ms is not None:
            reports.append((length.ends_ms, length.rank, length.report, length.code))
        for after_ms, rank, report, code in reports:
            at_ms = ordered_ms + after_ms
            if at_ms >= now:  # else it was said before the branch began
                self._push(-(-at_ms // unit_ms) * unit_ms, rank, run, report, code)

    def _push(self, due_ms: int, rank: int, run: RunId, report: int, code: int) -> None:
        if (due := self._due.get(due_ms)) is None:
            due = self._due[due_ms] = []
            heapq.heappush(self._times, due_ms)
        due.append((rank, next(self._ties), run, report, code))

    def _report(self, run: RunId, report: int, code: int) -> None:
        """A run that goes on says something; after its end it says nothing."""
        going = self._going.get(run)
        if going is None:
            return
        if report in NATURAL or report == RunReport.STOPPED:
            del self._going[run]
        news = Report(HostRun(run, going.host_id), report, code)
        if going.length.flag == FAULT and report in NATURAL:
            self._faulted.add(run)
        if going.host_id in self._unheard:
            self._unheard[going.host_id].append(news)
        else:
            self._say(news)

    def _say(self, report: Report) -> None:
        """A report reaches the gateway. An end of the task's own counts by that: what nobody heard may be lost."""
        run = report.of.id
        if report.report in NATURAL and run not in self._faulted:
            self._natural[run[:2]] = self._natural.get(run[:2], 0) + 1
        self._now.append(report)
