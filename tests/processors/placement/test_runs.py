"""Tasks find their places, and give them back: in users' words."""

import pytest

from events.bounds import INT_MAX
from events.cell_settings import DEFAULTS
from events.codes import Code, Outcome
from events.columns import ints
from events.ranks import Rank
from events.records.entitlement import GangsAdmitted
from events.records.lifecycle import JobChanged
from events.records.parts import Constraint, NearMiss
from events.records.placement import GangsReturned, GangsUnplaced, TasksPlaced
from processors.state import calendar
from tests.helpers.machines import of, one, ranges_of
from tests.processors.placement.harness import World, amounts, hosts_of, offered, places

PATIENCE_MS = DEFAULTS.placement_patience_ms


@pytest.fixture
def world() -> World:
    """Three hosts of 4 cores each, h3 with two GPUs."""
    world = World()
    for host, gpu in (("h1", 0), ("h2", 0), ("h3", 2000)):
        world.host(host, cpu=4000, gpu=gpu, attributes={"rack": f"r-{host}"})
    return world


def test_pack_fills_the_fullest_host_first_and_keeps_gpus_free(world: World) -> None:
    assert list(hosts_of(world.run("a", 6)).values()) == ["h1"] * 4 + ["h2"] * 2
    assert hosts_of(world.run("b", 2)) == {("b", 0, 1): "h2", ("b", 1, 1): "h2"}
    assert set(hosts_of(world.run("c", 1)).values()) == {"h3"}


def test_spread_puts_tasks_of_a_job_on_as_many_hosts_as_there_are(world: World) -> None:
    said = hosts_of(world.run("a", 6, strategy="spread"))
    assert list(said.values()) == ["h1", "h2", "h3", "h1", "h2", "h3"]
    assert list(hosts_of(world.run("b", 1, strategy="spread")).values()) == ["h1"]


def test_a_task_that_runs_again_spreads_away_from_its_siblings(world: World) -> None:
    world.run("a", 3, strategy="spread")
    world.end(("a", 1, 1))
    assert hosts_of(world.requeue(("a", 1, 1, 2, 0))) == {("a", 1, 2): "h2"}


def test_claims_are_served_before_borrowed_work_then_who_was_admitted_first(world: World) -> None:
    world.run("fill", 12)
    world.borrow("borrowed", 1, priority=9)
    world.run("first", 1)
    world.run("second", 1, priority=9)
    order = [next(iter(hosts_of(world.end(("fill", n, 1)))))[0] for n in range(3)]
    assert order == ["first", "second", "borrowed"]


def test_what_becomes_a_claim_keeps_its_place_among_those_admitted_before_and_after(world: World) -> None:
    world.run("fill", 12)
    world.borrow("early", 2)
    world.run("late", 1)
    world.rank(("early", 1, 1, 1, 0), entitled=1)
    order = [next(iter(hosts_of(world.end(("fill", n, 1))))) for n in range(3)]
    assert order == [("early", 1, 1), ("late", 0, 1), ("early", 0, 1)]


def test_a_run_whose_admission_is_kept_keeps_its_place_too(world: World) -> None:
    world.run("fill", 11)
    world.borrow("a", 1)
    world.run("b", 1)
    world.run("c", 1)
    assert hosts_of(world.end(("a", 0, 1), kept=1)) == {("b", 0, 1): "h3"}
    world.requeue(("a", 0, 1, 2, 0))
    order = [next(iter(hosts_of(world.end(("fill", n, 1)))))[0] for n in range(2)]
    assert order == ["c", "a"], "it is borrowed as before"
    world.run("d", 1)
    world.rank(("a", 0, 1, 2, 0), entitled=1)
    world.end(("a", 0, 2), kept=1)
    world.requeue(("a", 0, 1, 3, 0))
    world.run("e", 1)
    assert next(iter(hosts_of(world.end(("fill", 2, 1)))))[0] == "a", "it was admitted before e"


def test_a_task_that_fits_does_not_wait_behind_one_that_does_not(world: World) -> None:
    world.run("big", 1, cpu=4000)
    world.run("fill", 4)
    world.run("huge", 2, cpu=4000, priority=9)
    assert hosts_of(world.run("small", 1)) == {}
    assert hosts_of(world.end(("fill", 0, 1))) == {("small", 0, 1): "h2"}


def test_a_gang_is_placed_whole_over_several_hosts_or_not_at_all(world: World) -> None:
    world.run("fill", 5)
    said = world.run("gang", 9, gang_min=8, gpu=0)
    event = one(said, GangsUnplaced)
    assert (event.code, event.tasks) == (Code.GANG_INCOMPLETE, 8)
    assert event.hosts_by_reason == {"cpu": 3}
    assert hosts_of(said) == {("gang", 8, 1): "h2"}, "who isn't of the gang has a place of its own"
    assert len(hosts_of(world.end(("fill", 0, 1), ("gang", 8, 1)))) == 8


def test_a_smaller_gang_does_not_wait_behind_a_larger_one(world: World) -> None:
    world.run("fill", 5)
    world.accept("nine", 9, gang_min=9)
    world.accept("three", 3, gang_min=3)
    said = world.admit(("nine", 0, 9, 1, 1), ("three", 0, 3, 1, 1))
    assert {job for job, _, _ in hosts_of(said)} == {"three"}
    assert one(said, GangsUnplaced).job_id == "nine"


def test_a_gang_of_which_a_run_is_over_is_void_as_a_whole(world: World) -> None:
    world.accept("gang", 3, gang_min=3)
    world.end(("gang", 1, 1))
    assert not world.admit(("gang", 0, 3, 1, 1))
    assert len(hosts_of(world.requeue(("gang", 0, 3, 2, 1)))) == 3

    world.run("fill", 9)
    world.run("late", 3, gang_min=3, cpu=2000)
    world.end(("late", 2, 1))
    assert not world.later(PATIENCE_MS * 2), "nothing of it waits"


def test_an_end_that_comes_first_makes_the_admission_void(world: World) -> None:
    world.accept("a", 2)
    world.end(("a", 0, 1))
    assert list(hosts_of(world.admit(("a", 0, 2, 1, 0)))) == [("a", 1, 1)]
    assert list(hosts_of(world.admit(("a", 0, 1, 2, 0)))) == [("a", 0, 2)]


def test_what_a_run_holds_is_given_back_exactly_once(world: World) -> None:
    world.run("a", 1, ports=2)
    assert world.free("h1") == [3000, 4000, 10_000, 0, 998]
    world.end(("a", 0, 1), ("a", 0, 1))
    world.end(("a", 0, 1))
    assert world.free("h1") == [4000, 4000, 10_000, 0, 1000]


def test_an_end_of_an_earlier_run_frees_nothing_of_a_later_one(world: World) -> None:
    world.run("a")
    world.end(("a", 0, 1))
    world.requeue(("a", 0, 1, 2, 0))
    world.end(("a", 0, 1))
    assert world.free("h1")[0] == 3000


def test_kept_admissions_wait_for_a_place_others_for_admission(world: World) -> None:
    world.accept("a", 2)
    assert not world.requeue(("a", 0, 2, 1, 0), admitted=0)
    assert len(hosts_of(world.requeue(("a", 0, 2, 1, 0), admitted=1))) == 2


def test_admitted_twice_is_placed_once(world: World) -> None:
    world.run("a", 2)
    assert not world.admit(("a", 0, 2, 1, 0))


def test_ports_are_unique_on_a_host_and_the_lowest_free_ones(world: World) -> None:
    world.fact(offered("h1", 1, port_first=31000, port_last=31004, attributes={"rack": "r-h1"}))
    rule = (Constraint("rack", "in", ("r-h1",)),)
    said = world.run("a", 3, ports=2, cpu=0, constraints=rule)
    assert places(said, {"a": 2}) == {("a", 0, 1): ("h1", (31000, 31001)), ("a", 1, 1): ("h1", (31002, 31003))}
    event = one(said, GangsUnplaced)
    assert (event.ports, event.hosts_by_reason) == (2, {"constraint:rack": 2, "ports": 1})
    assert places(world.end(("a", 0, 1)), {"a": 2}) == {("a", 2, 1): ("h1", (31000, 31001))}


def test_each_host_gives_out_its_own_free_ports(world: World) -> None:
    for host_id in ("h1", "h2"):
        world.fact(offered(host_id, 1, port_first=31000, port_last=31004, attributes={"rack": f"r-{host_id}"}))
    there = (Constraint("rack", "in", ("r-h2",)),)
    world.run("before", 2, ports=1, cpu=0, constraints=there)
    both = (Constraint("rack", "in", ("r-h1", "r-h2")),)
    found = places(world.run("a", 4, ports=1, cpu=0, constraints=both, strategy="spread"), {"a": 1})
    assert sorted(found.values()) == [("h1", (31000,)), ("h1", (31001,)), ("h2", (31002,)), ("h2", (31003,))]


def test_ports_held_outside_a_new_range_do_not_count_against_it(world: World) -> None:
    world.run("a", 1, ports=3)
    world.fact(offered("h1", 1, port_first=31002, port_last=31003))
    assert world.free("h1")[-1] == 1
    world.end(("a", 0, 1))
    assert world.free("h1")[-1] == 2


@pytest.mark.parametrize(
    ("rule", "host"),
    [
        (Constraint("rack", "in", ("r-h2", "r-h9")), "h2"),
        (Constraint("rack", "not_in", ("r-h1", "r-h2")), "h3"),
        (Constraint("zone", "not_in", ("z1",)), "h1"),
        (Constraint("zone", "absent"), "h1"),
        (Constraint("rack", "exists"), "h1"),
    ],
)
def test_constraints_choose_hosts(world: World, rule: Constraint, host: str) -> None:
    assert hosts_of(world.run("a", constraints=(rule,))) == {("a", 0, 1): host}


def test_changed_attributes_are_seen(world: World) -> None:
    rule = (Constraint("zone", "exists"),)
    assert one(world.run("a", constraints=rule), GangsUnplaced).code == Code.CONSTRAINT_MISMATCH
    world.fact(offered("h2", 1, attributes={"zone": "z"}))
    assert hosts_of(world.admit(("a", 0, 1, 1, 0))) == {("a", 0, 1): "h2"}


def test_a_task_no_host_can_hold_goes_back_at_once_and_waits_for_hosts(world: World) -> None:
    said = world.run("a", 2, cpu=5000)
    event = one(said, GangsUnplaced)
    assert (event.code, event.tasks, event.hosts_considered) == (Code.NEVER_FITS, 2, 3)
    assert event.hosts_by_reason == {"cpu": 3}
    assert event.nearest == tuple(NearMiss(f"h{n}", amounts(1000)) for n in (1, 2, 3))
    back = one(said, GangsReturned)
    assert (back.code, ranges_of(back)) == (Code.NEVER_FITS, [("a", 0, 2, 1, 0)])
    assert world.machine.next_wakeup() is None


def test_never_fits_is_judged_on_empty_hosts_that_meet_the_constraints(world: World) -> None:
    world.run("fill", 12)
    rule = (Constraint("rack", "in", ("r-h1",)),)
    event = one(world.run("a", gpu=1000, constraints=rule), GangsUnplaced)
    assert event.code == Code.NEVER_FITS
    assert event.hosts_by_reason == {"gpu": 1, "constraint:rack": 2}
    assert [near.host_id for near in event.nearest] == ["h1"]
    assert one(world.run("gang", 13, gang_min=13), GangsUnplaced).code == Code.NEVER_FITS


def test_hosts_that_are_large_enough_and_do_not_match_lack_nothing() -> None:
    """Ten cores for `exclusive=ml`, which a host of eight alone has: only that lacks cores, two."""
    world = World()
    for host in ("b1", "b2"):
        world.host(host, cpu=16_000)
    world.host("c1", cpu=8_000, attributes={"exclusive": "ml"})
    rule = (Constraint("exclusive", "in", ("ml",)),)
    event = one(world.run("a", cpu=10_000, constraints=rule), GangsUnplaced)
    assert (event.code, event.hosts_by_reason) == (Code.NEVER_FITS, {"cpu": 1, "constraint:exclusive": 2})
    assert event.nearest == (NearMiss("c1", amounts(2000)),)


def test_without_hosts_tasks_go_back_until_hosts_come() -> None:
    world = World()
    event = one(world.run("a"), GangsUnplaced)
    assert (event.code, event.hosts_considered, event.hosts_by_reason) == (Code.NO_HOSTS, 0, {})
    world.host("h1")
    assert len(hosts_of(world.admit(("a", 0, 1, 1, 0)))) == 1


def test_a_task_that_fits_nowhere_now_is_explained_once_and_goes_back_when_patience_ends(world: World) -> None:
    world.run("fill", 11)
    said = world.borrow("a", 3, cpu=2000)
    event = one(said, GangsUnplaced)
    assert (event.code, event.tasks) == (Code.NO_HOST_FITS, 3)
    assert event.hosts_by_reason == {"cpu": 3}
    assert event.nearest[0] == NearMiss("h3", amounts(1000)), "one core is left on h3, so it lacks one"
    assert event.nearest[1] == NearMiss("h1", amounts(2000))
    assert not of(said, GangsReturned)
    assert not world.end(("fill", 0, 1)), "nothing to say: the reason is the same"
    back = one(world.later(PATIENCE_MS + 1000), GangsReturned)
    assert (back.code, ranges_of(back)) == (Code.NO_HOST_FITS, [("a", 0, 3, 1, 0)])


def test_the_order_of_admissions_stays_when_their_numbers_have_grown_too_large(world: World) -> None:
    world.run("fill", 12)
    world.run("a")
    world.run("b")
    world.machine.cell.change("cell").admissions = INT_MAX
    world.restart_copies()
    world.run("c")
    order = [next(iter(hosts_of(world.end(("fill", n, 1)))))[0] for n in range(3)]
    assert order == ["a", "b", "c"]
    assert world.machine.cell["cell"].admissions == 4


def test_what_has_found_a_place_is_forgotten_by_the_calendar(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calendar, "SWEPT_FROM", 4)
    for number in range(20):
        world.run(f"j{number}", 2)
        world.end((f"j{number}", 0, 1), (f"j{number}", 1, 1))
        world.later(2000)
    assert len(world.machine.runs.waits.calendars[Rank.ENTITLED]._times) < 4


def test_a_claim_waits_for_a_place_for_as_long_as_it_takes(world: World) -> None:
    world.run("fill", 12)
    world.run("claim", 2)
    assert not of(world.later(100 * PATIENCE_MS), GangsReturned)
    world.rank(("claim", 1, 1, 1, 0), entitled=0)
    assert ranges_of(one(world.later(PATIENCE_MS + 1000), GangsReturned)) == [("claim", 1, 1, 1, 0)]
    assert hosts_of(world.end(("fill", 0, 1))) == {("claim", 0, 1): "h1"}


def test_borrowed_work_that_becomes_a_claim_is_not_returned_any_more(world: World) -> None:
    world.run("fill", 12)
    world.borrow("a", 1)
    world.later(PATIENCE_MS - 1000)
    world.rank(("a", 0, 1, 1, 0), entitled=1)
    assert not world.later(PATIENCE_MS)


def test_a_rank_that_crosses_a_return_is_void(world: World) -> None:
    world.run("fill", 12)
    world.borrow("a", 1)
    world.later(PATIENCE_MS + 1000)
    world.rank(("a", 0, 1, 1, 0), entitled=1)
    assert not hosts_of(world.end(("fill", 0, 1)))
    assert hosts_of(world.admit(("a", 0, 1, 1, 0))) == {("a", 0, 1): "h1"}


def test_patience_ends_only_when_caught_up(world: World) -> None:
    world.run("fill", 12)
    world.borrow("a")
    world.caught_up = False
    assert not world.later(PATIENCE_MS + 1000)
    world.caught_up = True
    assert one(world.quiet(), GangsReturned).code == Code.NO_HOST_FITS


def test_only_what_lost_patience_goes_back_and_why_is_said_again_when_it_returns(world: World) -> None:
    world.run("fill", 12)
    world.accept("a", 3)
    assert one(world.admit(("a", 0, 1, 1, 0), entitled=0), GangsUnplaced).tasks == 1
    world.later(10_000)
    world.admit(("a", 1, 2, 1, 0), entitled=0)
    said = world.later(PATIENCE_MS - 9_000)
    assert ranges_of(one(said, GangsReturned)) == [("a", 0, 1, 1, 0)]
    assert one(said, GangsUnplaced).tasks == 2
    world.later(PATIENCE_MS)
    assert one(world.admit(("a", 0, 3, 1, 0), entitled=0), GangsUnplaced).tasks == 3


def test_a_gang_goes_back_as_one_range(world: World) -> None:
    world.run("fill", 12)
    world.borrow("a", 5, gang_min=3)
    back = one(world.later(PATIENCE_MS + 1000), GangsReturned)
    assert ranges_of(back) == [("a", 0, 3, 1, 1), ("a", 3, 2, 1, 0)]


def test_what_no_host_could_hold_goes_back_alone_whoever_it_is_of(world: World) -> None:
    world.accept("j", 12, gang_min=9, cpu=2000)
    said = world.admit(("j", 0, 9, 1, 1), ("j", 9, 3, 1, 0))
    assert one(said, GangsUnplaced).code == Code.NEVER_FITS
    assert ranges_of(one(said, GangsReturned)) == [("j", 0, 9, 1, 1)]
    assert len(hosts_of(said)) == 3, "the others of the job go on"


def test_a_gang_larger_than_the_cell_is_told_how_many_of_it_would_fit(world: World) -> None:
    event = one(world.run("gang", 8, gang_min=8, cpu=3000), GangsUnplaced)
    assert (event.code, event.size, event.fit, event.missing) == (Code.NEVER_FITS, 8, 3, "3-7")
    event = one(world.run("huge", 8, gang_min=8, cpu=5000), GangsUnplaced)
    assert (event.code, event.size, event.fit, event.missing) == (Code.NEVER_FITS, 8, 0, "0-7")


def test_a_gang_of_which_a_part_fits_now_is_told_who_is_missing(world: World) -> None:
    world.run("fill", 10)
    event = one(world.run("gang", 4, gang_min=4), GangsUnplaced)
    assert (event.code, event.size, event.fit, event.missing) == (Code.GANG_INCOMPLETE, 4, 2, "2-3")
    event = one(world.run("full", 2, gang_min=2, cpu=3000), GangsUnplaced)
    assert (event.code, event.size, event.fit, event.missing) == (Code.NO_HOST_FITS, 2, 0, "0-1")


def test_the_reason_is_said_again_when_it_changes(world: World) -> None:
    world.run("fill", 12)
    assert one(world.run("a", 3, gang_min=3), GangsUnplaced).code == Code.NO_HOST_FITS
    assert one(world.end(("fill", 0, 1)), GangsUnplaced).code == Code.GANG_INCOMPLETE
    assert not world.end(("fill", 1, 1))
    assert len(hosts_of(world.end(("fill", 2, 1)))) == 3


def test_each_host_is_counted_once_by_its_first_reason(world: World) -> None:
    world.run("fill", 4)
    world.connect("h4")
    world.host("h5", attributes={"rack": "r-h5"})
    world.silence("h5")
    world.host("h6")
    world.silence("h6")
    world.confirm("h6")
    rules = (Constraint("rack", "exists"), Constraint("rack", "not_in", ("r-h2",)), Constraint("rack", "in", ("r-h1",)))
    event = one(world.run("a", constraints=rules), GangsUnplaced)
    assert event.hosts_by_reason == {"constraint:rack": 2, "cpu": 1, "returning": 1, "silent": 1, "lost": 1}
    assert sum(event.hosts_by_reason.values()) == event.hosts_considered == 6


def test_a_round_places_no_more_than_its_budget_but_a_gang_is_never_divided(world: World) -> None:
    world.budget = 4
    said = world.run("a", 6)
    assert [len(ints(event.job)) for event in of(said, TasksPlaced)] == [4, 2]
    assert [len(ints(event.job)) for event in of(world.run("b", 6, gang_min=5), TasksPlaced)] == [5, 1]


def test_a_budget_does_not_hide_who_finds_no_place(world: World) -> None:
    world.budget = 1
    world.run("fill", 12)
    for name in "abc":
        world.accept(name)
    said = world.admit(*((name, 0, 1, 1, 0) for name in "abc"), entitled=0)
    assert [event.job_id for event in of(said, GangsUnplaced)] == ["a", "b", "c"]
    returned = of(world.later(PATIENCE_MS + 1000), GangsReturned)
    assert [ranges_of(event) for event in returned] == [[(name, 0, 1, 1, 0)] for name in "abc"]


def test_ended_jobs_hold_nothing(world: World) -> None:
    world.run("a", 2, ports=1)
    world.run("wait", 9, cpu=4000)
    world.peer("lifecycle", *(JobChanged(job_id=job_id, state="KILLED") for job_id in ("a", "wait", "unknown")))
    assert world.free("h1") == [4000, 4000, 10_000, 0, 1000]
    assert not len(world.machine.runs.jobs)
    assert not len(world.machine.runs.ports)
    assert not world.admit(("a", 0, 1, 2, 0))
    assert len(hosts_of(world.run("a", 2))) == 2


@pytest.mark.parametrize(
    "what",
    [
        [("unknown", 0, 1, 1, 0)],
        [("a", -1, 1, 1, 0)],
        [("a", 0, 3, 1, 0)],
        [("a", 0, (1 << 31) - 1, 1, 0)],
        [("a", (1 << 31) - 1, 1, 1, 0)],
        [("a", 0, 0, 1, 0)],
        [("a", 0, -1, 1, 1)],
    ],
)
def test_senseless_ranges_are_void(world: World, what: list[tuple[str, int, int, int, int]]) -> None:
    world.accept("a", 2)
    assert not world.admit(*what)


def test_columns_that_do_not_fit_together_are_void(world: World) -> None:
    world.accept("a", 2)
    torn = GangsAdmitted(job_ids=("a",), job=bytes(4), first=bytes(8), count=bytes(4), run=b"", gang=bytes(4))
    assert not world.peer("entitlement", torn)


def test_services_that_come_back_from_lost_hosts_go_first_until_they_have_places() -> None:
    world = World()
    world.host("h1", cpu=4000)
    world.host("h2", cpu=4000)
    world.run("batch", 4)
    world.run("web", 4, kind="stateless")
    lost = [(job, at, 1) for job in ("batch", "web") for at in range(4) if job == "batch" or at < 2]
    world.silence("h1")
    world.confirm("h1")
    world.end(*lost, kept=1, outcome=Outcome.LOST)
    assert set(hosts_of(world.requeue(("batch", 0, 4, 2, 0), ("web", 0, 2, 2, 0)))) >= {("web", 0, 2), ("web", 1, 2)}
