"""While a host is silent nobody knows how far its runs are: no deadline of them passes, whatever becomes of it."""

from events.codes import Hearing, Outcome, RunReport
from events.columns import ints, pack_ints, pack_longs
from events.records.base import Event
from events.records.lifecycle import GangsQueued, RunsEnded, RunsOverdue
from events.records.placement import HostHearingChanged, HostLost
from tests.helpers.machines import kinds, of, one, runs_of
from tests.processors.lifecycle.harness import World

A0, B0 = ("a", 0, 1), ("b", 0, 1)


def starting() -> World:
    """A run must be ready within 20 s on its host."""
    world = World()
    world.submit("a", kind="stateless", start_deadline_ms=20_000)
    world.place(A0)
    return world


def hear(world: World, hearing: Hearing, host: str = "h1") -> list[Event]:
    """Placement says that a host is heard, silent or lost."""
    said = HostHearingChanged(host_ids=(host,), host_session=pack_longs([1]), hearing=pack_ints([hearing]))
    return world.peer("placement", said)


def test_runs_on_a_silent_host_that_is_given_up_are_lost_and_not_late() -> None:
    world = starting()
    world.later(5_000)
    hear(world, Hearing.SILENT)
    assert world.later(60_000) == []
    lost = HostLost(host_id="h1", session=1, code="SILENT", silent_ms=60_000)
    hearing = HostHearingChanged(host_ids=("h1",), host_session=pack_longs([1]), hearing=pack_ints([Hearing.LOST]))
    said = world.peer("placement", hearing, lost)
    assert ints(one(said, RunsEnded).outcome).tolist() == [Outcome.LOST]
    assert not of(said, RunsOverdue)
    assert one(said, GangsQueued)


def test_a_host_that_was_given_up_and_is_heard_again_leaves_its_runs_the_time_that_they_had() -> None:
    world = starting()
    world.later(5_000)
    hear(world, Hearing.SILENT)
    world.later(60_000)
    assert hear(world, Hearing.LOST) == []
    assert world.later(60_000) == []
    assert hear(world, Hearing.HEARD) == []
    assert world.later(14_000) == []
    assert runs_of(one(world.later(2_000), RunsOverdue)) == [A0]


def test_a_silence_that_ends_before_a_deadline_leaves_it_where_others_have_theirs() -> None:
    world = starting()
    world.submit("b", kind="stateless", start_deadline_ms=20_000)
    world.place(B0, host="h2")
    hear(world, Hearing.SILENT)
    assert runs_of(one(world.later(21_000), RunsOverdue)) == [B0]
    hear(world, Hearing.HEARD)
    assert runs_of(one(world.later(21_000), RunsOverdue)) == [A0]


def test_a_run_that_ends_as_its_deadline_passes_isnt_late() -> None:
    world = starting()
    world.busy = True
    world.later(21_000)
    world.busy = False
    said = world.report(RunReport.EXITED, A0, exit_code=1)
    assert one(said, RunsEnded)
    assert "RunsOverdue" not in kinds(said)
