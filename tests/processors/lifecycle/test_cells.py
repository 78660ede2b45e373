"""Jobs of pools of other cells are answered with the right cell."""

from events.codes import Code
from events.records.entitlement import PoolAnswered
from events.records.lifecycle import JobAccepted, JobRejected
from events.records.pools import PoolDefined, PoolRemoved
from tests.helpers.machines import one
from tests.processors.lifecycle.harness import World


def define(world: World, path: str, cell: int, code: str = Code.DONE) -> None:
    world.fact("paceline.pools", PoolDefined(path=path, command_id="c", cell=cell, open_jobs_max=9, open_tasks_max=9))
    at = world.offsets["paceline.pools"]
    world.peer("entitlement", PoolAnswered(path=path, pools_offset=at, command_id="c", code=code))


def test_a_job_for_a_pool_of_another_cell_is_told_which() -> None:
    world = World()
    define(world, "/far", 3)
    for job_id in ("a", "b"):
        told = one(world.submit(job_id, pool="/far"), JobRejected)
        assert isinstance(told, JobRejected)
        assert (told.code, told.cell) == (Code.WRONG_CELL, 3)
        assert "cell 3" in told.message
        assert "partition 3" in told.message
        world.restart()
    assert one(world.submit("a"), JobAccepted), "the id is free"


def test_a_pool_that_was_refused_here_is_not_known() -> None:
    world = World()
    define(world, "/far", 3, Code.WRONG_CELL)
    world.submit("a", pool="/far")
    told = one(world.later(500), JobRejected)
    assert isinstance(told, JobRejected)
    assert (told.code, told.cell) == (Code.NO_SUCH_POOL, None)


def test_a_pool_that_comes_here_takes_jobs() -> None:
    world = World()
    define(world, "/far", 3)
    world.fact("paceline.pools", PoolRemoved(path="/far", command_id="r"))
    at = world.offsets["paceline.pools"]
    world.peer("entitlement", PoolAnswered(path="/far", pools_offset=at, command_id="r", code=Code.DONE))
    define(world, "/far", 0)
    assert one(world.submit("a", pool="/far"), JobAccepted)
