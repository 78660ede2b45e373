"""What placement asks for is ordered, or refused with the victim and the numbers: each ask has one answer, in order."""

from events.columns import ints
from events.ranks import Rank, ranks_of
from events.records.base import Event
from events.records.entitlement import AdmissionsRanked, PreemptionRefused, PreemptionsOrdered
from events.records.placement import PreemptionAsked
from processors.entitlement.admission.pass_usage import PassUsage
from processors.entitlement.preemption.confirm import AskedRow, Judge
from processors.entitlement.preemption.unplaced import Claims
from processors.entitlement.preemption.victims import LimitVictims
from processors.entitlement.queues.parts import Unit
from processors.entitlement.queues.placed_runs import PlacedRuns
from processors.entitlement.state import State
from processors.state.causes import CauseRow
from processors.state.table import Table, struct_table


class Asks:
    """The table `preemptions_asked`: asks by number, in the order in which they came."""

    def __init__(self, state: State, claims: Claims, runs: PlacedRuns) -> None:
        self._state = state
        self._queues = state.queues
        self._claims = claims
        self._runs = runs
        self.table: Table[int, AskedRow] = struct_table("preemptions_asked", AskedRow, int)

    def asked(self, event: PreemptionAsked, cause: CauseRow) -> None:
        """Placement asks."""
        row = AskedRow(
            event.job_id,
            event.first,
            event.count,
            event.run,
            event.host_ids,
            event.job_ids,
            event.job,
            event.instance,
            event.victim_run,
            event.way,
            dict(event.spared),
            cause,
        )
        self.table.put(max(self.table, default=0) + 1, row)

    def answered(self, event: PreemptionsOrdered | PreemptionRefused | AdmissionsRanked, now: int) -> None:
        """The first ask has its answer; an order under a limit isn't one, and of ranks only that of its own unit."""
        if not self.table or (isinstance(event, PreemptionsOrdered) and not event.host_ids):
            return
        first = min(self.table)
        if isinstance(event, AdmissionsRanked) and self.table[first].unit not in claims_of(event):
            return
        self.table.remove(first)

    def pools(self) -> set[str]:
        """The pools by whose numbers asks are answered: those of who asks, and of who is to leave."""
        jobs = {job_id for row in self.table.values() if row.job for job_id in (row.job_id, *row.job_ids)}
        return {self._queues.jobs[job_id].pool for job_id in jobs if job_id in self._queues.jobs}

    def answers(self, now: int, budget: int) -> list[Event]:
        """The answers to the first asks, as far as the budget goes; an ask costs its victims."""
        out: list[Event] = []
        if not len(self.table):
            return out
        victims = LimitVictims(self._state, self._claims, self._runs, now)
        judge = Judge(self._state, self._claims, victims, PassUsage(self._state), now)
        for number in sorted(self.table):
            row = self.table[number]
            budget -= 1 + len(row.job) // 4
            if out and budget < 0:
                break
            out.append(judge.answer(row, max(1, budget)))
        return out


def claims_of(event: AdmissionsRanked) -> set[Unit]:
    """The units that are claims from now on."""
    columns = [ints(column).tolist() for column in (event.job, event.first, event.count, event.run)]
    rows = zip(*columns, ranks_of(event.entitled, len(columns[0])).tolist(), strict=True)
    units = ((Unit(event.job_ids[job], first, size, run), rank) for job, first, size, run, rank in rows)
    return {unit for unit, rank in units if rank == Rank.ENTITLED}
