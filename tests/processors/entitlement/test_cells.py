"""Pools of other cells: known by path and cell only; a pool stays in its cell until it is removed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.codes import Code
from events.pool_paths import parent_of
from events.records.pools import PoolDefined
from events.resources import STANDARD_KINDS
from processors.entitlement.pools import Entry, Tree, answer
from processors.entitlement.rows import ask_row
from tests.helpers.drawn import examples
from tests.processors.entitlement.harness import World, cpu


def test_a_pool_of_another_cell_is_known_and_gets_nothing_here() -> None:
    world = World(cpu(10))
    told = world.define("/far", cell=3, reservation=cpu(8))
    assert (told.code, told.message) == (Code.DONE, "the pool is known here as one of cell 3")
    assert dict(world.machine.commands.foreign.items()) == {"/far": 3}
    assert world.define("/near", reservation=cpu(1)).code == Code.DONE
    assert set(world.machine.pools) == {"/", "/near"}
    world.restart()
    assert dict(world.machine.commands.foreign.items()) == {"/far": 3}
    assert world.define("/far", cell=3, reservation=cpu(9)).code == Code.DONE, "it may change in its cell"


@pytest.mark.parametrize(("here", "there"), [(0, 1), (1, 0), (1, 2)])
def test_a_pool_does_not_move_but_by_being_removed(here: int, there: int) -> None:
    world = World()
    world.define("/maps", cell=here)
    told = world.define("/maps", cell=there)
    assert (told.code, f"belongs to cell {here}, not {there}" in told.message) == (Code.WRONG_CELL, True)
    assert world.remove("/maps").code == Code.DONE
    assert world.define("/maps", cell=there).code == Code.DONE
    assert world.remove("/maps").code == Code.DONE
    assert world.remove("/maps").code == Code.NO_SUCH_POOL


def test_pools_below_are_in_the_cell_of_the_pool_above() -> None:
    world = World()
    world.define("/near")
    world.define("/far", cell=1)
    assert world.define("/near/a", cell=1).code == Code.WRONG_CELL
    assert world.define("/far/a").code == Code.WRONG_CELL
    assert world.define("/far/a", cell=2).code == Code.WRONG_CELL
    assert world.define("/far/a", cell=1).code == Code.DONE
    assert world.define("/early/a", cell=1).code == Code.DONE, "the pool above may be heard of later"
    assert "/early/a" in world.define("/early").message
    assert world.define("/early", cell=1).code == Code.DONE


def test_a_cell_is_a_number_from_0_and_a_path_a_path_wherever_it_belongs() -> None:
    world = World()
    assert world.define("/a", cell=-1).code == Code.INVALID_POOL
    assert world.define("a", cell=1).code == Code.INVALID_POOL


def test_a_repeat_is_known_in_every_cell() -> None:
    world = World()
    assert world.define("/far", "c", cell=1).code == Code.DONE
    assert world.define("/far", "c", cell=1).code == Code.REPEATED


PATHS = st.sampled_from(["/a", "/a/b", "/a/b/c", "/b"])


@examples(60)
@given(st.lists(st.tuples(PATHS, st.integers(0, 2), st.booleans()), max_size=12))
def test_a_pool_is_in_one_cell_and_with_the_pools_around_it(facts: list[tuple[str, int, bool]]) -> None:
    world = World()
    for path, cell, gone in facts:
        if gone:
            world.remove(path)
        else:
            world.define(path, cell=cell)
    own, foreign = set(world.machine.pools) - {"/"}, dict(world.machine.commands.foreign.items())
    assert not own & foreign.keys()
    cells = foreign | dict.fromkeys(own, 0)
    assert all(cells.get(parent_of(path), cell) == cell for path, cell in cells.items())


def test_answers_in_one_round_follow_one_another() -> None:
    tree = Tree(0, STANDARD_KINDS, [Entry("/", row=World().machine.pools["/"])])
    facts = (PoolDefined(path="/a", command_id=name, cell=cell) for name, cell in (("x", 1), ("y", 0)))
    first, second = (ask_row(fact).fact for fact in facts)
    assert answer(0, first, tree, {}, False, ()).code == Code.DONE
    tree.take(first)
    assert answer(1, second, tree, {}, False, ()).code == Code.WRONG_CELL
