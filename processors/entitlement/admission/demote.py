"""Who is entitled without a place and is so no more: the last of a queue when the entitlement of its pool falls."""

from events.ranks import Rank
from events.resources import Vector, add, subtract
from processors.entitlement.admission.admit import Admission
from processors.entitlement.queues.parts import GANG, ROLES
from processors.entitlement.queues.queues import Queues
from processors.entitlement.rows import JobRow
from processors.entitlement.state import State


def demoted(state: State, pool: str, budget: int) -> list[Admission]:
    """The claims of a pool that its entitlement doesn't reach any more, the last ones first; they are borrowed from
    now on. Work that isn't preemptible can't be; what is parked would hold room under limits again: it stays, and takes
    nothing of what claims before it are entitled to.
    """
    queues = state.queues
    claims = queues.lines[pool].claims
    if not claims:
        return []
    holding, entitlement = queues.holdings[pool], state.shares.entitlement(pool)
    lowest = min(holding.entitled, default=0)
    if not _is_over(subtract(entitlement, holding.level(lowest))):
        return []
    found: list[Admission] = []
    priority, free = None, queues.nothing
    for *_, (job_id, key) in reversed(claims):
        row = queues.jobs[job_id]
        if budget <= 0:
            break
        if not row.preemptible:
            continue
        if row.priority != priority:
            priority, free = row.priority, subtract(entitlement, holding.level(row.priority))
        taken, freed = _of_part(queues, job_id, row, key, free, budget)
        free = add(free, freed)
        if taken is not None:
            found.append(taken)
            budget -= len(taken.slots)
    return found


def _is_over(free: Vector) -> bool:
    return any(each < 0 for each in free)


def _of_part(
    queues: Queues, job_id: str, row: JobRow, key: int, free: Vector, budget: int
) -> tuple[Admission | None, Vector]:
    """The last claims of a part that are beyond what is free, but for parked ones, and what all of these need."""
    need = queues.unit_need(row, key)
    short = max([-(have // want) for have, want in zip(free, need, strict=True) if want > 0 and have < 0], default=0)
    if not short:
        return None, queues.nothing
    slots = queues.claim_slots(row, key)
    is_gang = key % ROLES == GANG
    slots = slots if is_gang else slots[-short:]
    freed = need if is_gang else queues.asked(row, slots)
    slots = slots[queues.arena["rank"][slots] == Rank.ENTITLED]
    slots = slots if is_gang else slots[-budget:]
    return (Admission(job_id, row, slots, is_gang, Rank.BORROWED) if len(slots) else None), freed
