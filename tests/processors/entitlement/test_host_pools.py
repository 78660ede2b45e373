"""Pools are entitled to no more than the host pools that they reach hold, and borrow no more than these have idle."""

import random
from itertools import combinations, compress, product

import pytest

from events.codes import Code
from events.host_pools import KINDS, OF_NAME
from events.records.entitlement import GangsHeld, HostPoolsWanted
from events.records.parts import HostPoolCapacity
from events.records.placement import CapacityChanged
from events.resources import Amounts, Kinds
from processors.entitlement.rows import CellRow, HostPoolRow, PoolRow
from processors.entitlement.shares.reach import Reach
from tests.helpers.drawn import seeds
from tests.helpers.machines import of
from tests.processors.entitlement.harness import World, cpu


class Pooled(World):
    def hold(self, **cores: int) -> None:
        """The host pools of the cell have so many cores."""
        self._version = getattr(self, "_version", 0) + 1
        pools = [
            HostPoolCapacity(name=name, kinds=OF_NAME.get(name, ()), capacity=cpu(each), hosts=1)
            for name, each in sorted(cores.items())
        ]
        whole = cpu(sum(cores.values()))
        self.peer("placement", CapacityChanged(capacity=whole, hosts=1, version=self._version, host_pools=tuple(pools)))

    def codes(self, job_id: str) -> list[str]:
        return [event.code for event in of(self.said, GangsHeld) if job_id in event.job_ids]


@pytest.fixture
def world() -> Pooled:
    world = Pooled(cpu(30))
    world.define("/gpu", host_pools=("gpus",))
    world.define("/any", host_pools=("gpus", "shared"))
    world.define("/rest")
    world.hold(gpus=10, shared=20)
    return world


def test_a_pool_is_admitted_what_its_host_pools_hold_and_the_rest_waits_with_a_code_of_its_own(world: Pooled) -> None:
    assert len(world.submit("j", "/gpu", 40)) == 10
    world.later(60_000)
    assert world.holds("/gpu") == 10
    assert world.codes("j")[-1] == Code.HOST_POOLS_FULL
    (held,) = [event for event in of(world.said, GangsHeld) if event.code == Code.HOST_POOLS_FULL]
    assert (held.asked, held.allocated) == (cpu(1), cpu(10))


def test_what_one_pool_cannot_reach_is_for_others(world: Pooled) -> None:
    world.submit("j", "/gpu", 40)
    assert len(world.submit("k", "/any", 40)) == 20
    world.later(60_000)
    assert (world.holds("/gpu"), world.holds("/any")) == (10, 20)


def test_pools_that_reach_the_same_hosts_share_them_and_no_others(world: Pooled) -> None:
    world.define("/gpu2", host_pools=("gpus",), share_default=4)
    world.submit("j", "/gpu", 40, preemptible=True)
    world.submit("k", "/gpu2", 40)
    shares = world.machine.shares
    assert [shares.entitlement(path)[0] for path in ("/gpu", "/gpu2")] == [2, 8]
    assert world.machine.usage["/gpu2"].allocation[0] == 8, "claims, for which others leave who hold too much"


def test_a_pool_that_names_a_host_pool_that_is_not_there_hears_so(world: Pooled) -> None:
    answer = world.define("/typo", host_pools=("gpus", "gpu", "shared"))
    assert (answer.code, answer.message) == (
        Code.DONE,
        "there is no host pool gpu yet: `paceline host-pool define` makes one",
    )
    assert world.define("/right", host_pools=("gpus", "shared")).message == ""


def test_nothing_is_lent_beyond_what_the_host_pools_have_idle(world: Pooled) -> None:
    world.define("/gpu2", host_pools=("gpus",))
    world.submit("j", "/gpu", 4)
    world.place(*[("j", at, 1) for at in range(4)])
    world.submit("k", "/gpu2", 40)
    world.later(600_000)
    assert world.holds("/gpu2") == 6


def test_more_hosts_in_a_host_pool_let_more_in(world: Pooled) -> None:
    world.submit("j", "/gpu", 40)
    world.hold(gpus=15, shared=15)
    assert world.holds("/gpu") == 15
    world.hold(gpus=15, shared=0)
    world.hold(shared=30)
    world.submit("k", "/rest", 30)
    assert world.holds("/rest") == 30


def test_a_gang_that_no_host_pool_of_its_pool_can_hold_says_so_and_nobody_waits_behind_it(world: Pooled) -> None:
    world.submit("large", "/gpu", 12, gang_min=12)
    assert world.codes("large") == [Code.HOST_POOLS_TOO_SMALL]
    assert len(world.submit("small", "/gpu", 3)) == 3
    world.hold(gpus=16, shared=20)
    assert world.holds("/gpu") == 15


def test_a_pool_that_may_use_other_host_pools_is_served_at_once(world: Pooled) -> None:
    world.submit("j", "/gpu", 15)
    assert world.define("/gpu", host_pools=("gpus", "shared")).host_pools == ("gpus", "shared")
    assert world.holds("/gpu") == 15


@pytest.fixture
def kinds() -> Pooled:
    """Host pools that go by the kinds of jobs: services reach 15 cores, batch work 10."""
    world = Pooled(cpu(20))
    world.define("/p", reservation=cpu(20))
    world.hold(shared=10, stateless=5, batch_reserved=5)
    return world


def test_batch_work_is_admitted_within_shared_and_services_behind_it_have_their_own_hosts(kinds: Pooled) -> None:
    assert len(kinds.submit("batch", instances=30)) == 10
    kinds.later(600_000)
    assert kinds.holds("/p") == 10, "nothing is lent either"
    assert kinds.codes("batch")[-1] == Code.HOST_POOLS_FULL
    (held,) = [event for event in of(kinds.said, GangsHeld) if event.code == Code.HOST_POOLS_FULL]
    assert (held.asked, held.allocated, held.limit) == (cpu(1), cpu(10), cpu(10))
    assert len(kinds.submit("site", kind="stateless", instances=9)) == 5
    assert len(kinds.submit("nightly", preemptible=False, instances=9)) == 5


def test_the_kind_of_the_higher_priority_gets_the_hosts_that_kinds_share(kinds: Pooled) -> None:
    kinds.submit("batch", instances=10)
    kinds.submit("site", kind="stateless", instances=12, priority=5)
    kinds.later(1000)
    machine = kinds.machine
    service, batch = (machine.usage.of_kind("/p", kind) for kind in (0, 1))
    assert (service.allocation[0], batch.entitled_from(0)[0]) == (12, 3), "claims of batch work are demoted"


def test_kinds_are_told_apart_once_there_are_host_pools(kinds: Pooled) -> None:
    world = Pooled(cpu(20))
    world.define("/p")
    world.submit("site", kind="stateless", instances=3)
    world.submit("batch", instances=30)
    assert world.holds("/p") == 20
    world.hold(shared=10, stateless=10)
    world.later(60_000)
    batch = world.machine.usage.of_kind("/p", 1)
    assert batch.entitled_from(0)[0] == 10, "the rest is demoted"


def test_a_gang_larger_than_what_its_kind_reaches_never_fits(kinds: Pooled) -> None:
    kinds.submit("large", instances=12, gang_min=12)
    assert kinds.codes("large") == [Code.HOST_POOLS_TOO_SMALL]
    assert len(kinds.submit("site", kind="stateless", instances=12, gang_min=12)) == 12


def wanted(world: Pooled) -> list[dict[str, Amounts]]:
    return [
        {each.name: each.waiting for each in event.host_pools}
        for event in world.said
        if isinstance(event, HostPoolsWanted)
    ]


def test_what_waits_is_said_of_the_first_choice_of_its_jobs(kinds: Pooled) -> None:
    kinds.define("/own", host_pools=("stateless", "shared"), limit=cpu(17))
    kinds.submit("batch", instances=13)
    kinds.submit("site", kind="stateless", instances=9)
    kinds.later(60_000)
    assert wanted(kinds)[-1] == {"shared": cpu(3), "stateless": cpu(4)}
    kinds.over("batch")
    kinds.over("site")
    kinds.later(60_000)
    assert wanted(kinds)[-1] == {}
    kinds.submit("more", "/own", 30)
    kinds.later(60_000)
    assert wanted(kinds)[-1] == {"stateless": cpu(2)}, "its limit allows no more"


def test_daemons_take_their_part_of_host_pools(world: Pooled) -> None:
    pools = (
        HostPoolCapacity(name="gpus", capacity=cpu(10), daemons=cpu(3), hosts=1),
        HostPoolCapacity(name="shared", capacity=cpu(20), hosts=1),
    )
    world.peer("placement", CapacityChanged(capacity=cpu(30), hosts=1, version=1, host_pools=pools))
    assert len(world.submit("j", "/gpu", 40)) == 7


def test_a_cell_without_host_pools_shares_all_hosts() -> None:
    world = Pooled(cpu(30))
    world.define("/p", host_pools=())
    assert len(world.submit("j", "/p", 40)) == 30
    assert world.machine.shares.reach is None


class Drawn:
    """Host pools, pools that reach some, and the cores that each kind of jobs of these wants."""

    def __init__(self, draw: random.Random) -> None:
        self.names = ["shared", "a", "b", "c"][: draw.randrange(2, 5)]
        of = {name: draw.sample(KINDS, draw.randrange(3)) if name != "shared" else [] for name in self.names}
        self.holds = {name: draw.randrange(15) for name in self.names}
        rows = {name: HostPoolRow(tuple(of[name]), cpu(self.holds[name])) for name in self.names}
        self.cell, self.kinds = CellRow(host_pools=rows), Kinds()
        nothing = (0,) * len(self.kinds)
        self.pools, self.wants = dict[str, PoolRow](), dict[str, list[int]]()
        self.reached = dict[str, list[set[str]]]()
        for path in [f"/p{at}" for at in range(draw.randrange(1, 6))]:
            own = draw.sample(self.names, draw.randrange(len(self.names) + 1))
            reservation, share = (draw.randrange(5), *nothing[1:]), (draw.randrange(4), *nothing[1:])
            self.pools[path] = PoolRow(reservation, (-1,) * len(self.kinds), share, host_pools=tuple(own))
            by_kind = [{"shared", *(name for name in self.names if kind in of[name])} for kind in KINDS]
            self.reached[path] = [{*own} for _ in KINDS] if own else by_kind
            wants = [draw.randrange(10) for _ in KINDS]
            alike = all(each == self.reached[path][0] for each in self.reached[path])
            self.wants[path] = [sum(wants), 0, 0] if alike else wants
        whole = {path: [(want, *nothing[1:]) for want in wants] for path, wants in self.wants.items()}
        self.limits = Reach(self.pools, self.cell, self.kinds, self.pools).limits(whole)

    def most(self, path: str, inside: list[bool]) -> int:
        """The most that some kinds of jobs of a pool get together, of all ways to divide what the pool gets."""
        wants = [want if chosen else 0 for want, chosen in zip(self.wants[path], inside, strict=True)]
        limits = [(mask, most[0]) for mask, most in self.limits.get(path, {}).items()]
        return max(
            sum(ways)
            for ways in product(*(range(want + 1) for want in wants))
            if all(sum(one for kind, one in enumerate(ways) if mask >> kind & 1) <= most for mask, most in limits)
        )

    def inside(self, path: str, names: set[str]) -> list[bool]:
        """Which kinds of jobs of a pool reach nothing but some host pools."""
        return [reach <= names for reach in self.reached[path]]


@seeds(80, 20)
def test_no_hosts_are_promised_twice_and_who_waits_lacks_hosts_that_it_can_reach(seed: int) -> None:
    """Against a naive look at all sets of host pools: what pools and kinds of jobs get that reach nothing else is
    within each, however they divide it; and nobody could get more of what it wants.
    """
    drawn = Drawn(random.Random(seed))
    sets = [{*some} for size in range(1, len(drawn.names)) for some in combinations(drawn.names, size)]
    full = list[set[str]]()
    for one in sets:
        used = sum(drawn.most(path, drawn.inside(path, one)) for path in drawn.pools)
        have = sum(drawn.holds[name] for name in one)
        assert used <= have, (one, drawn.limits)
        full += [one] if used == have else []
    for path, limits in drawn.limits.items():
        for mask in limits:
            asked = [mask >> kind & 1 > 0 for kind in range(len(KINDS))]
            gets, wants = drawn.most(path, asked), sum(compress(drawn.wants[path], asked))
            assert gets < wants
            reasons = [one for one in full if any(a and b for a, b in zip(asked, drawn.inside(path, one), strict=True))]
            assert reasons, (path, mask, drawn.limits)
