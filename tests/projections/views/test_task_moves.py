"""A task that moves alone is counted as one among many."""

from hypothesis import given
from hypothesis import strategies as st

from events.codes import TaskState
from projections.views import task_moves
from projections.views.projector import rebuild
from projections.views.state_times import STATE_TIMES, StateTimes
from tests.helpers.drawn import examples
from tests.helpers.written_cell import admitted, dump, held
from tests.projections.views.test_agreement import World


def told(world: World) -> None:
    """Entitlement says something of tasks that wait."""
    if found := world.some(TaskState.QUEUED):
        job_id, instances, run = found
        said = world.random.choice(
            [
                held(job_id, instances, run=run),
                held(job_id, instances, "BEHIND_IN_QUEUE", run),
                admitted(job_id, instances, run),
                admitted(job_id, instances, run, entitled=0),
            ]
        )
        world.cell.decide("entitlement", said)


@examples(10)
@given(seed=st.integers(0, 1 << 32))
def test_tasks_that_move_one_by_one_leave_the_rows_of_tasks_that_move_together(tmp_path_factory, seed):
    world = World(seed)
    for _ in range(60):
        world.step()
        told(world)
    found = []
    for alone in (task_moves.ALONE, 0):
        task_moves.ALONE, before = alone, task_moves.ALONE
        times = STATE_TIMES._cells[world.cell.log.cell] = StateTimes()
        try:
            engine = rebuild(world.cell.log, tmp_path_factory.mktemp("views"))
        finally:
            task_moves.ALONE = before
        found.append((dump(engine), times.counts.tolist(), times.sums.tolist()))
        engine.dispose()
    assert found[0] == found[1]
