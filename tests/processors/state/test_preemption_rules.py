"""The rules of who may go for whom, and what is remembered of those that went."""

from random import Random
from typing import Any

from events.codes import Code, Way
from events.columns import pack_ints
from events.records.entitlement import PreemptionsOrdered
from events.records.lifecycle import PreemptionAnswered, RunsEnded
from events.records.parts import Cause
from processors.state.displacements import HOUR_MS, Displacements
from processors.state.preemption_rules import Flag, Giver, Right, Victim, may_give, may_go, slice_ms, times
from tests.helpers.drawn import seeds
from tests.helpers.machines import Run, columns

NONE = (0, 0)
GIVER = Giver(excess=(3, 0), entitlement=(4, 4), spare=(7, 4))
RIGHT = Right(others=(3, 0), entitlement=(8, 8))


def victim(amount: tuple[int, int], **fields: Any) -> Victim:
    facts = {"own": False, "yields": False, "preemptible": True, "capped": False, "slice_over": False} | fields
    return Victim(amount, **facts)


def test_what_is_within_the_excess_of_its_pool_goes_until_the_taker_has_its_due() -> None:
    assert may_give((2, 0), (4, 0), GIVER, RIGHT, NONE).goes
    assert may_give((3, 0), (4, 0), GIVER, RIGHT, (2, 0)).goes, "the last one may be more than is lacking"
    assert may_give((1, 0), (4, 0), GIVER, RIGHT, (3, 0)).code == Code.NO_RIGHT
    assert may_give((1, 0), (4, 0), GIVER.less((3, 0)), RIGHT, NONE).code == Code.NO_RIGHT


def test_only_kinds_count_that_are_held_needed_and_in_excess() -> None:
    assert may_give((0, 1), (4, 4), GIVER, RIGHT, NONE).code == Code.NO_RIGHT, "no excess of the second kind"
    assert may_give((1, 9), (4, 4), GIVER, RIGHT, NONE).goes, "the second kind isn't in excess, so it doesn't protect"
    assert may_give((1, 0), (0, 4), GIVER, RIGHT, NONE).code == Code.NO_RIGHT, "the first kind isn't needed"


def test_what_is_oversize_goes_by_a_reservation_a_smaller_deficit_or_a_slice() -> None:
    assert may_give((4, 0), (4, 0), GIVER, RIGHT, NONE).goes, "a deficit of 1 in 4 against 3 in 8"
    assert may_give((5, 0), (4, 0), GIVER, RIGHT, NONE).code == Code.SLICE_NOT_OVER, "2 in 4 against 3 in 8"
    assert may_give((4, 0), (4, 0), GIVER, RIGHT, (1, 0)).code == Code.SLICE_NOT_OVER, "1 in 4 against 2 in 8"
    assert may_give((5, 0), (4, 0), GIVER, RIGHT, NONE, slice_over=True) == ("", True)


def test_what_goes_after_its_slice_has_used_it_up_whether_it_is_oversize_or_not() -> None:
    assert may_give((1, 0), (4, 0), GIVER, RIGHT, NONE) == ("", False)
    assert may_give((1, 0), (4, 0), GIVER, RIGHT, NONE, slice_over=True) == ("", True)
    below = RIGHT._replace(flags=Flag.BELOW_RESERVATION)
    assert may_give((7, 0), (4, 0), GIVER, below, NONE).goes
    assert may_give((8, 0), (4, 0), GIVER, below, NONE).code == Code.SLICE_NOT_OVER, "the giver would be below its own"


def test_units_that_are_alike_are_counted_as_one_after_another_would_go() -> None:
    counted = 0
    for seed in range(2000):
        random = Random(seed)

        def some(low: int, high: int, random: Random = random) -> tuple[int, int]:
            return (random.randint(low, high), random.randint(low, high))

        facts = {name: random.random() < 0.5 for name in ("own", "yields", "slice_over")}
        one, need, way = victim(some(0, 2), **facts), some(0, 9), random.choice(list(Way))
        giver, taken = Giver(some(-2, 9), some(0, 9), some(0, 9)), some(0, 3)
        right = Right(some(0, 9), some(0, 9), random.randrange(8))
        first = may_go(way, one, need, giver, right, taken)
        if not first.goes:
            continue
        for _ in range(min(times(way, one.amount, need, giver, right, taken), 20)):
            assert may_go(way, one, need, giver, right, taken) == first
            giver = giver.less(one.amount)
            if way == Way.GIVE:
                taken = (taken[0] + one.amount[0], taken[1] + one.amount[1])
            counted += 1
    assert counted > 1000


def test_five_equal_pools_with_tasks_of_a_core_on_four_cores_take_nothing_in_circles() -> None:
    right = Right(others=(800, 0), entitlement=(800, 800))
    giver = Giver(excess=(200, 0), entitlement=(800, 800), spare=(1000, 0))
    assert may_give((1000, 0), (1000, 0), giver, right, NONE).code == Code.SLICE_NOT_OVER
    assert may_give((1000, 0), (1000, 0), giver, right._replace(others=(-200, 0)), NONE).code == Code.NO_RIGHT


def test_each_way_asks_for_its_own_grounds() -> None:
    need = (4, 0)
    move, clear = (RIGHT._replace(flags=flag) for flag in (Flag.MOVE, Flag.CLEAR))
    firm, capped = victim((1, 0), preemptible=False), victim((1, 0), capped=True)
    for way in (Way.OWN, Way.GIVE, Way.MOVE, Way.CLEAR):
        assert may_go(way, firm, need, GIVER, move, NONE).code == Code.NON_PREEMPTIBLE
        assert may_go(way, capped, need, GIVER, move, NONE).code == Code.CAP_REACHED
    below = RIGHT._replace(flags=Flag.BELOW_RESERVATION)
    assert may_go(Way.GIVE, capped, need, GIVER, below, NONE).goes
    assert may_go(Way.OWN, victim((1, 0), own=True, yields=True), need, GIVER, RIGHT, NONE).goes
    assert not may_go(Way.OWN, victim((1, 0), own=True), need, GIVER, RIGHT, NONE).goes
    assert not may_go(Way.OWN, victim((1, 0), yields=True), need, GIVER, RIGHT, NONE).goes
    assert not may_go(Way.GIVE, victim((1, 0), own=True), need, GIVER, RIGHT, NONE).goes
    assert may_go(Way.MOVE, victim((9, 9)), need, GIVER, move, NONE).goes
    assert not may_go(Way.MOVE, victim((9, 9)), need, GIVER, RIGHT, NONE).goes
    assert may_go(Way.CLEAR, victim((1, 0), slice_over=True), need, GIVER, clear, NONE) == ("", True)
    assert may_go(Way.CLEAR, victim((1, 0)), need, GIVER, clear, NONE).code == Code.SLICE_NOT_OVER
    assert may_go(Way.CLEAR, victim((1, 5), slice_over=True), need, GIVER, clear, NONE).code == Code.NO_RIGHT
    assert may_go(Way.CLEAR, victim((1, 0), own=True, slice_over=True), need, GIVER, clear, NONE).code == Code.NO_RIGHT


def test_a_slice_doubles_so_often_as_the_cell_allows() -> None:
    assert [slice_ms(900, used, 4) for used in (0, 1, 2, 4, 5, 99)] == [900, 1800, 3600, 14400, 14400, 14400]


@seeds(20, 5)
def test_deficits_shrink_whoever_takes_from_whom(seed: int) -> None:
    """Two pools take and give units of random sizes by rule (b) alone: the larger deficit never comes back."""
    random = Random(seed)
    entitled = {"a": random.randrange(1, 30), "b": random.randrange(1, 30)}
    held = {"a": [random.randrange(1, 9) for _ in range(6)], "b": [random.randrange(1, 9) for _ in range(6)]}

    def deficit(pool: str) -> float:
        return (entitled[pool] - sum(held[pool])) / entitled[pool]

    for _ in range(200):
        taker, other = random.sample(["a", "b"], 2)
        lacks, excess = entitled[taker] - sum(held[taker]), sum(held[other]) - entitled[other]
        if not held[other] or lacks <= 0:
            continue
        amount = random.choice(held[other])
        giver = Giver((excess,), (entitled[other],), (99,))
        worst = max(deficit("a"), deficit("b"))
        if may_give((amount,), (1,), giver, Right((lacks,), (entitled[taker],)), (0,)).goes:
            held[other].remove(amount)
            assert max(deficit(other), 0) < worst
            held[taker].append(random.randrange(1, lacks + 1))  # what was due


class Remembered:
    """A naive twin of `Displacements`: lists of what happened."""

    def __init__(self) -> None:
        self.times: dict[tuple[str, int], list[int]] = {}
        self.slices: dict[tuple[str, int], int] = {}
        self.spared: dict[tuple[str, int], int] = {}


def order(number: int, runs: list[Run], by_slice: list[int]) -> PreemptionsOrdered:
    named = {"for_pool": "/", "for_job": "x", "for_first": 0, "for_count": 1, "for_run": 1, "code": ""}
    zeros = pack_ints([0] * len(runs))
    return PreemptionsOrdered(
        order=number, way=zeros, slice=pack_ints(by_slice), from_pools=("/",), from_pool=zeros, **columns(runs), **named
    )


@seeds(20, 5)
def test_what_is_remembered_of_tasks_is_what_happened_to_them(seed: int) -> None:
    random, twin, mine, now = Random(seed), Remembered(), Displacements(), 1_700_000_000_000
    run: dict[tuple[str, int], int] = {(job, each): 1 for job in "ab" for each in range(3)}
    opened: dict[int, list[tuple[Run, int]]] = {}
    for number in range(1, 300):
        now += random.choice((1, 1000, 600_000, 2_000_000))
        free = [task for task in run if all(task != one[:2] for runs in opened.values() for one, _ in runs)]
        if free and random.random() < 0.6:
            chosen = random.sample(free, random.randrange(1, len(free) + 1))
            runs = [((*task, run[task]), random.randrange(2)) for task in chosen]
            mine.ordered(order(number, [each for each, _ in runs], [flag for _, flag in runs]))
            opened[number] = runs
        elif opened:
            at = random.choice(list(opened))
            runs = opened.pop(at)
            deferred = bool(runs) and random.random() < 0.4
            stays = [random.choice(runs)[0]] if deferred else []
            outcomes = [] if deferred else [random.choice((4, 4, 1)) for _ in runs]
            if outcomes:
                fields = columns([each for each, _ in runs])
                zeros = pack_ints([0] * len(runs))
                mine.ended(RunsEnded(**fields, outcome=pack_ints(outcomes), exit_code=zeros, kept=zeros), now)
            for (each, flag), outcome in zip(runs, outcomes, strict=False):
                run[each[:2]] += 1
                if outcome == 4:
                    twin.times.setdefault(each[:2], []).append(now)
                    twin.slices[each[:2]] = twin.slices.get(each[:2], 0) + flag
            for each in stays:
                twin.spared[each[:2]] = now + 500_000
            code = "DEFERRED" if deferred else "LEFT"
            cause = Cause(machine="entitlement", round=1)
            answer = PreemptionAnswered(number=at, order=cause, code=code, victims=len(runs), **columns(stays))
            mine.answered(answer, now, 500_000)
        if random.random() < 0.1:
            mine.restored()
        if random.random() < 0.02:
            mine.dropped("a")
            for task in [task for task in run if task[0] == "a"]:
                for memory in (twin.times, twin.slices, twin.spared):
                    memory.pop(task, None)
            for runs in opened.values():
                runs[:] = [each for each in runs if each[0][0] != "a"]
        for job, each in run:
            times = [at for at in twin.times.get((job, each), ()) if at + HOUR_MS > now]
            until = times[-2] + HOUR_MS if len(times) >= 2 else 0
            spared = twin.spared.get((job, each), 0)
            assert mine.capped_ms(job, [each], now, 2) == until
            assert mine.spared_ms(job, [each], now) == (spared if spared > now else 0)
            assert mine.slices(job, [each]) == twin.slices.get((job, each), 0)
    mine.expire(now + 2 * HOUR_MS)
    kept = {task for task, count in twin.slices.items() if count}
    assert kept <= set(mine.table) <= kept | {one[:2] for runs in opened.values() for one, _ in runs}


def test_what_happens_by_a_clock_that_is_ahead_makes_nothing_forgotten() -> None:
    mine, now = Displacements(), 1_700_000_000_000
    ahead, zero = now + 2 * HOUR_MS, pack_ints([0])
    for number, at in ((1, now), (2, ahead)):
        run = ("a", number, 1)
        mine.ordered(order(number, [run], [0]))
        mine.ended(RunsEnded(**columns([run]), outcome=pack_ints([4]), exit_code=zero, kept=zero), at)
    cause = Cause(machine="entitlement", round=1)
    mine.answered(PreemptionAnswered(number=2, order=cause, code="LEFT", victims=1, **columns([])), ahead, 0)
    assert mine.capped_ms("a", [1], now + 1000, 1) == now + HOUR_MS
    assert mine.last("a") == {1: now, 2: ahead}
    mine.expire(ahead)
    assert mine.last("a") == {2: ahead}
