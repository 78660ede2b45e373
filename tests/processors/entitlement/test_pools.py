"""The rules of the pool tree, in users' words. Every fact is answered, repeats and nonsense too."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.codes import Code
from events.records.entitlement import PoolAnswered
from events.records.parts import ResourceKind
from events.records.pools import CellConfigured
from events.resources import STANDARD, Amounts
from events.strategies import ADAPTIVE, PACK, SPREAD
from tests.helpers.drawn import examples
from tests.processors.entitlement.harness import World, cpu, told

NO_LIMIT = {}


def limit(cores: int) -> Amounts:
    return {"cpu": cores}


def test_a_pool_is_defined_repeated_and_changed() -> None:
    world = World()
    assert world.define("/maps", "c1", reservation=cpu(5)).code == Code.DONE
    assert world.define("/maps", "c1", reservation=cpu(5)).code == Code.REPEATED
    assert world.define("/maps", "c2", reservation=cpu(5)).code == Code.REPEATED, "it says nothing new"
    assert world.define("/maps", "c3", reservation=cpu(6)).code == Code.DONE
    assert world.define("/maps", "c1", reservation=cpu(5)).code == Code.REPEATED, "a late repeat doesn't set it back"
    assert world.machine.pools["/maps"].reservation[0] == 6
    answer = world.define("/maps", "c4", reservation=cpu(7))
    assert (answer.path, answer.pools_offset, answer.command_id) == ("/maps", 5, "c4")


@pytest.mark.parametrize("path", ["", "/", "maps", "/maps/", "//", "/ü", "/a b", "/" + "x" * 65, "/a" * 9])
def test_a_path_that_is_none_is_refused(path: str) -> None:
    assert World().define(path).code == Code.INVALID_POOL


def test_the_pool_above_must_be_there_and_have_no_jobs() -> None:
    world = World()
    assert world.define("/maps/tiles").code == Code.NO_SUCH_POOL
    world.define("/maps")
    world.submit("job", "/maps")
    answer = world.define("/maps/tiles")
    assert (answer.code, "1 open jobs" in answer.message) == (Code.POOL_NOT_A_LEAF, True)
    world.over("job")
    assert world.define("/maps/tiles").code == Code.DONE


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"reservation": cpu(-1)}, "reservation: cpu is -0.001"),
        ({"reservation": cpu(1 << 41)}, "must be 0 to"),
        ({"share": cpu(-1)}, "share: cpu is -1"),
        ({"limit": limit(-2)}, "limit: cpu is -0.002"),
        ({"limit": limit(4), "reservation": cpu(5)}, "the limit 0.004 is below the reservation 0.005"),
        ({"limit": limit(21)}, "above the limit 0.02"),
        ({"reservation": cpu(9)}, "would reserve 0.011, it has 0.01"),
    ],
)
def test_amounts_that_make_no_sense_are_refused_with_the_numbers(spec: dict[str, Amounts], said: str) -> None:
    world = World()
    world.define("/maps", reservation=cpu(10), limit=limit(20))
    world.define("/maps/a", reservation=cpu(2))
    answer = world.define("/maps/b", **spec)
    assert (answer.code, said in answer.message) == (Code.INVALID_POOL, True), answer.message
    assert "/maps/b" not in world.machine.pools


def test_a_reservation_is_not_taken_from_the_pools_below() -> None:
    world = World()
    world.define("/maps", reservation=cpu(10))
    world.define("/maps/a", reservation=cpu(8))
    answer = world.define("/maps", "less", reservation=cpu(7))
    assert (answer.code, answer.message) == (Code.INVALID_POOL, "cpu: the pools below reserve 0.008, more than 0.007")


def test_a_pool_in_use_is_not_removed() -> None:
    world = World()
    world.define("/maps")
    world.define("/maps/tiles")
    assert world.remove("/maps").code == Code.POOL_IN_USE
    world.submit("job", "/maps/tiles")
    assert world.remove("/maps/tiles").code == Code.POOL_IN_USE
    world.over("job")
    assert world.remove("/maps/tiles", "gone").code == Code.DONE
    assert world.remove("/maps/tiles", "gone").code == Code.REPEATED
    assert world.remove("/maps/tiles").code == Code.NO_SUCH_POOL
    assert world.remove("/").code == Code.NO_SUCH_POOL
    assert world.remove("/maps").code == Code.DONE


def test_settings_are_answered_for_the_root() -> None:
    world = World()
    answer = world.configure(preemption_delay_ms=500)
    assert (answer.path, answer.code) == ("/", Code.DONE)
    answer = world.configure(preemption_delay_ms=-1)
    assert (answer.code, "preemption_delay_ms is -1" in answer.message) == (Code.INVALID_SETTINGS, True)
    assert world.configure(host_lost_percent_per_minute=101).code == Code.INVALID_SETTINGS


def test_one_setting_is_changed_and_all_others_stay() -> None:
    world = World()
    world.configure(preemption_delay_ms=500, ended_jobs_max=7)
    assert world.configure(forget_after_ms=9).code == Code.DONE
    settings = world.machine.cell.settings
    assert (settings.preemption_delay_ms, settings.ended_jobs_max, settings.forget_after_ms) == (500, 7, 9)
    assert world.configure(preemption_delay_ms=500, forget_after_ms=9).code == Code.REPEATED


def test_changes_of_settings_in_one_round_are_judged_one_after_another() -> None:
    world = World()
    for number, delay in enumerate((500, 2000, 2000)):
        world.catch("paceline.pools", CellConfigured(command_id=str(number), preemption_delay_ms=delay))
    answers = [each for each in world.quiet() if isinstance(each, PoolAnswered)]
    assert [each.code for each in answers] == [Code.DONE, Code.DONE, Code.REPEATED]


A100, FPGA = ResourceKind("gpu/a100"), ResourceKind("fpga", "MiB")


def test_a_pool_may_name_a_resource_once_the_cell_knows_it() -> None:
    world = World()
    refused = world.define("/p", reservation={"gpu/a100": 1000})
    assert (refused.code, "the cell has cpu, memory, disk, gpu" in refused.message) == (Code.UNKNOWN_RESOURCE, True)
    assert world.configure(resources=(A100,)).code == Code.DONE
    assert world.define("/p", reservation={"gpu/a100": 1000}).code == Code.DONE


def test_a_resource_is_never_removed_and_its_unit_never_changes() -> None:
    world = World()
    world.configure(resources=(A100,))
    world.configure(preemption_delay_ms=500)
    world.configure(resources=(FPGA,))
    assert [kind.name for kind in world.machine.cell.settings.resources] == ["gpu/a100", "fpga"]
    assert world.configure(resources=(ResourceKind("gpu/a100", "MiB"),)).code == Code.INVALID_SETTINGS
    assert world.configure(resources=(ResourceKind("gpu/a100", amount=5),)).code == Code.INVALID_SETTINGS


def test_a_licence_may_change_its_amount() -> None:
    world = World()
    for amount in (5000, 8000):
        assert world.configure(resources=(ResourceKind("matlab", amount=amount),)).code == Code.DONE
    assert [kind.amount for kind in world.machine.cell.settings.resources] == [8000]


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ((ResourceKind("cpu"),), "cpu is always there"),
        ((ResourceKind("ports"),), "ports is a reserved name"),
        ((ResourceKind("GPU A100"),), "'GPU A100' is no name of a resource"),
        ((A100, A100), "gpu/a100 is defined more than once"),
        ((ResourceKind("gpu/a100", "GiB"),), "the unit of gpu/a100 is 'GiB', it must be milli or MiB"),
        ((ResourceKind("matlab", amount=-1),), "the amount of matlab is -0.001, it must be 0 to"),
        (tuple(ResourceKind(f"kind-{number}") for number in range(29)), "would know 33 resources, at most 32"),
    ],
)
def test_resources_that_make_no_sense_are_refused_as_a_whole(kinds: tuple[ResourceKind, ...], message: str) -> None:
    world = World()
    answer = world.configure(preemption_delay_ms=500, resources=kinds)
    assert (answer.code, message in answer.message) == (Code.INVALID_SETTINGS, True), answer.message
    assert (world.machine.cell.settings.preemption_delay_ms, world.machine.cell.settings.resources) == (120_000, ())


def test_a_job_whose_pool_was_removed_in_the_same_moment_is_told_and_goes_on_when_it_is_back() -> None:
    world = World(cpu(1))
    assert world.submit("job", "/gone") == []
    world.define("/gone")
    assert world.holds("/gone") == 1


WILD = st.integers(-(2**63), 2**63 - 1)
AMOUNTS = st.dictionaries(st.sampled_from([*STANDARD, "fpga", "no name", ""]), WILD)
PATHS = st.sampled_from(["/a", "/a/b", "/a/b/c", "/", "", "x", "/b"]) | st.text(max_size=5)


@examples(40)
@given(st.lists(st.tuples(PATHS, AMOUNTS, AMOUNTS, AMOUNTS, st.booleans()), max_size=8))
def test_whatever_is_sent_is_answered(facts: list[tuple[str, Amounts, Amounts, Amounts, bool]]) -> None:
    world = World(cpu(10))
    for path, reservation, most, share, gone in facts:
        answer = world.remove(path) if gone else world.define(path, reservation=reservation, limit=most, share=share)
        assert answer.pools_offset == world.offset
    assert all(len(world.entitled(pool)) == 4 for pool in world.machine.pools)


def test_who_waits_below_a_pool_without_a_share_hears_which() -> None:
    world = World(cpu(4))
    world.define("/busy")
    world.define("/a", share=cpu(0))
    world.define("/a/x")
    world.place(*world.submit("first", pool="/busy", instances=4))
    assert not world.submit("waits", pool="/a/x")
    said = told(world.said, "waits")
    assert (said.code, said.pool, said.at) == (Code.SHARE_OF_NOTHING, "/a/x", "/a")


def test_a_pool_without_a_strategy_is_adaptive_where_hosts_have_gpus_unless_it_is_from_before() -> None:
    world = World()
    for path, strategy in (("/old", ""), ("/new", "default"), ("/spread", "spread"), ("/spread/below", "default")):
        assert world.define(path, path, strategy=strategy).code == Code.DONE
    state = world.machine.shared
    assert [state.strategy_of(path) for path in ("/old", "/new", "/spread/below")] == [PACK, PACK, SPREAD]
    world.capacity({"cpu": 8000, "gpu": 2000})
    assert [state.strategy_of(path) for path in ("/old", "/new", "/spread/below")] == [PACK, ADAPTIVE, SPREAD]
