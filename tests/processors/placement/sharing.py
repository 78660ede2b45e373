"""What entitlement and lifecycle say to placement about sharing, in a test's words."""

from collections.abc import Sequence
from typing import NamedTuple

from events.codes import Code, Outcome
from events.columns import ints, pack_ints, pack_longs
from events.records.base import Event
from events.records.entitlement import PreemptionRefused, PreemptionsOrdered, RightsSet
from events.records.lifecycle import PreemptionAnswered, RunsAvailable, RunsEnded
from events.records.parts import Cause
from events.records.placement import HostsReserved, PreemptionAsked
from tests.helpers.machines import Run, columns, of
from tests.processors.placement.harness import World

KINDS = ("cpu", "memory", "disk", "gpu")
PLENTY = 1 << 40


class Taker(NamedTuple):
    """A right; amounts are of cpu."""

    job: str
    first: int = 0
    count: int = 1
    run: int = 1
    gang: int = 0
    pool: str = "/p"
    others: int = PLENTY
    flags: int = 0


class Giver(NamedTuple):
    """What a pool gives; amounts are of cpu."""

    pool: str
    excess: int = PLENTY
    entitlement: int = 0
    spare: int = PLENTY


def vectors(amounts: Sequence[int]) -> bytes:
    return pack_longs([each for amount in amounts for each in (amount, 0, 0, 0)])


def rights(*what: Taker | Giver, removed: Sequence[Taker] = ()) -> RightsSet:
    takers = [one for one in what if isinstance(one, Taker)]
    givers = [one for one in what if isinstance(one, Giver)]
    jobs = list(dict.fromkeys(one.job for one in [*takers, *removed]))
    pools = list(dict.fromkeys(one.pool for one in takers))
    return RightsSet(
        resources=KINDS,
        job_ids=tuple(jobs),
        job=pack_ints([jobs.index(one.job) for one in takers]),
        first=pack_ints([one.first for one in takers]),
        count=pack_ints([one.count for one in takers]),
        run=pack_ints([one.run for one in takers]),
        gang=pack_ints([one.gang for one in takers]),
        pools=tuple(pools),
        pool=pack_ints([pools.index(one.pool) for one in takers]),
        others=vectors([one.others for one in takers]),
        entitlement=vectors([PLENTY for _ in takers]),
        flags=pack_ints([one.flags for one in takers]),
        removed_job=pack_ints([jobs.index(one.job) for one in removed]),
        removed_first=pack_ints([one.first for one in removed]),
        removed_count=pack_ints([one.count for one in removed]),
        givers=tuple(one.pool for one in givers),
        excess=vectors([one.excess for one in givers]),
        giver_entitlement=vectors([one.entitlement for one in givers]),
        reserved=vectors([0 for _ in givers]),
        spare=vectors([one.spare for one in givers]),
    )


def victims(ask: PreemptionAsked) -> list[Run]:
    columns_ = (ints(column).tolist() for column in (ask.job, ask.instance, ask.victim_run))
    return [(ask.job_ids[job], instance, run) for job, instance, run in zip(*columns_, strict=True)]


def places(ask: PreemptionAsked | HostsReserved) -> dict[str, int]:
    return dict(zip(ask.host_ids, ints(ask.tasks).tolist(), strict=True))


class Shared(World):
    """Entitlement gives rights, answers asks; lifecycle lets runs leave, or not."""

    def __init__(self) -> None:
        super().__init__()
        self.orders = 0

    def right(self, *what: Taker | Giver, removed: Sequence[Taker] = ()) -> list[Event]:
        return self.peer("entitlement", rights(*what, removed=removed))

    def position(self, ask: PreemptionAsked) -> Cause:
        """Where an ask stands: the last record of placement that is one like it."""
        row = self.machine.sharing.room.table[ask.job_id, ask.first]
        return row.by.record

    def order(self, ask: PreemptionAsked, cause: Cause | None = None, slices: int = 0) -> list[Event]:
        self.orders += 1
        runs = victims(ask)
        return self.peer(
            "entitlement",
            PreemptionsOrdered(
                order=self.orders,
                **columns(runs),
                way=ask.way,
                slice=pack_ints([slices] * len(runs)),
                from_pools=("/p",),
                from_pool=pack_ints([0] * len(runs)),
                for_pool="/p",
                for_job=ask.job_id,
                for_first=ask.first,
                for_count=ask.count,
                for_run=ask.run,
                host_ids=ask.host_ids,
                code=Code.BELOW_ENTITLEMENT,
                cause=cause or self.position(ask),
            ),
        )

    def refuse(self, ask: PreemptionAsked, code: Code, victim: Run | None = None) -> list[Event]:
        job, instance, run = victim or ("", 0, 0)
        event = PreemptionRefused(
            job_id=ask.job_id,
            first=ask.first,
            count=ask.count,
            run=ask.run,
            code=code,
            victim_job_id=job,
            victim_instance=instance,
            victim_run=run,
            cause=self.position(ask),
        )
        return self.peer("entitlement", event)

    def leave(self, *runs: Run) -> list[Event]:
        """Runs end because they were preempted."""
        outcome, exit_code, kept = (pack_ints([value] * len(runs)) for value in (int(Outcome.PREEMPTED), 0, 0))
        return self.peer("lifecycle", RunsEnded(**columns(runs), outcome=outcome, exit_code=exit_code, kept=kept))

    def answer(self, code: Code, *runs: Run) -> list[Event]:
        """The answer to the last order."""
        event = PreemptionAnswered(number=self.orders, order=Cause(), code=code, victims=1, **columns(runs))
        return self.peer("lifecycle", event)

    def available(self, *runs: Run) -> list[Event]:
        return self.peer("lifecycle", RunsAvailable(**columns(runs)))


def asks(said: Sequence[Event]) -> list[PreemptionAsked]:
    return of(said, PreemptionAsked)
