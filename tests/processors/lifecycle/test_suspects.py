"""Which hosts are suspected, in the words of those who look after them."""

import pytest

from events.codes import RunReport
from events.records.base import Event
from events.records.entitlement import PoolAnswered
from events.records.lifecycle import HostSuspected
from events.records.pools import PoolDefined
from tests.helpers.machines import of, one
from tests.processors.lifecycle.harness import World

SECOND, MINUTE = 1_000, 60_000
Failure = tuple[str, int]


class Cell(World):
    """Its jobs have as many tasks and retries as a test wants."""

    def __init__(self, *jobs: str, **spec: object) -> None:
        super().__init__()
        self.fact("paceline.pools", PoolDefined(path="/p", command_id="2", open_jobs_max=100, open_tasks_max=1000))
        self.peer("entitlement", PoolAnswered(path="/p", pools_offset=1, command_id="2", code="DONE"))
        self.runs: dict[Failure, int] = {}
        for job_id in jobs:
            self.submit(job_id, instances=20, retries_max=100, **spec)

    def fail(
        self, *tasks: Failure, host: str = "h1", after_ms: int = 0, state: int = RunReport.EXITED, exit_code: int = 1
    ) -> list[Event]:
        """Tasks run on a host, one after another, and are over after a time; returns what suspects a host."""
        said: list[Event] = []
        for job_id, instance in tasks:
            run = self.runs[job_id, instance] = self.runs.get((job_id, instance), 0) + 1
            self.place((job_id, instance, run), host=host)
            if after_ms:
                self.report(RunReport.STARTED, (job_id, instance, run), session=self.session)
                said += self.later(after_ms)
            said += self.report(state, (job_id, instance, run), exit_code=exit_code)
        return of(said, HostSuspected)


THREE_JOBS = (("a", 0), ("a", 1), ("b", 0), ("b", 1), ("c", 0))


@pytest.mark.parametrize("state", [RunReport.EXITED, RunReport.NOT_STARTED, RunReport.VANISHED])
def test_a_host_where_runs_of_three_jobs_fail_at_once_is_suspected(state: int) -> None:
    world = Cell("a", "b", "c")
    assert world.fail(*THREE_JOBS[:4], state=state) == []
    suspected = one(world.fail(THREE_JOBS[4], state=state), HostSuspected)
    assert (suspected.host_id, suspected.code, suspected.runs, suspected.jobs) == ("h1", "FAILS_AT_ONCE", 5, 3)
    assert suspected.cause.machine == "lifecycle"
    assert world.fail(("c", 1)) == [], "what was reported counts no more"


def test_one_job_or_two_never_make_a_host_suspected() -> None:
    world = Cell("a", "b")
    assert world.fail(*((job, at) for at in range(20) for job in "ab")) == []


def test_a_run_that_went_on_for_ten_seconds_did_not_fail_at_once() -> None:
    world = Cell("a", "b", "c")
    assert world.fail(*THREE_JOBS, after_ms=12 * SECOND) == []
    assert world.fail(*THREE_JOBS, after_ms=3 * SECOND) != []


def test_a_run_that_succeeds_there_takes_back_what_failed_before() -> None:
    world = Cell("a", "b", "c")
    world.fail(*THREE_JOBS[:4])
    world.fail(("c", 5), exit_code=0)
    assert world.fail(*THREE_JOBS[:4]) == []
    assert world.fail(("c", 6)) != []


def test_a_host_where_a_run_has_started_since_and_goes_on_is_not_suspected() -> None:
    world = Cell("a", "b", "c")
    world.fail(*THREE_JOBS[:4])
    world.place(("c", 7, 1))
    world.report(RunReport.STARTED, ("c", 7, 1))
    world.later(15 * SECOND)
    assert world.fail(("c", 0)) == []
    assert not world.machine.suspects.table


def test_a_run_that_started_before_the_failures_says_nothing_of_them() -> None:
    world = Cell("a", "b", "c")
    world.place(("c", 7, 1))
    world.report(RunReport.STARTED, ("c", 7, 1))
    world.later(MINUTE)
    assert world.fail(*THREE_JOBS) != []


def test_jobs_that_fail_on_three_hosts_make_none_suspected() -> None:
    world = Cell("a", "b", "c")
    for host in ("h2", "h3"):
        world.fail(*((job, 9) for job in "abc"), host=host)
    assert world.fail(*THREE_JOBS) == []


def test_what_failed_more_than_half_an_hour_ago_does_not_count() -> None:
    world = Cell("a", "b", "c")
    world.fail(*THREE_JOBS[:4])
    world.later(31 * MINUTE)
    assert world.fail(THREE_JOBS[4]) == []


def test_a_host_that_is_removed_begins_anew() -> None:
    world = Cell("a", "b", "c")
    world.fail(*THREE_JOBS[:4])
    world.remove("h1")
    assert world.fail(THREE_JOBS[4]) == []


def stopped() -> World:
    """A run that was told to stop."""
    world = World()
    world.submit("a")
    world.place(("a", 0, 1))
    world.report(RunReport.STARTED, ("a", 0, 1))
    world.stop("a")
    return world


def test_a_host_is_suspected_each_time_that_it_says_that_a_run_survived_its_kill() -> None:
    world = stopped()
    for _ in range(2):
        assert of(world.later(10 * MINUTE), HostSuspected) == [], "that a deadline passes says nothing of the host"
        suspected = one(world.report(RunReport.SURVIVED, ("a", 0, 1)), HostSuspected)
        assert (suspected.host_id, suspected.code, suspected.runs, suspected.jobs) == ("h1", "STOP_NOT_OBEYED", 1, 1)
        assert (suspected.job_id, suspected.instance, suspected.run) == ("a", 0, 1)
    world.report(RunReport.STOPPED, ("a", 0, 1))
    assert of(world.later(10 * MINUTE), HostSuspected) == []


def test_a_host_that_is_not_heard_is_not_suspected_of_what_it_could_not_obey() -> None:
    world = stopped()
    world.later(30 * MINUTE)
    assert of(world.report(RunReport.STARTED, ("a", 0, 1)), HostSuspected) == [], "late news"
    assert of(world.report(RunReport.STOPPED, ("a", 0, 1)), HostSuspected) == []
    assert of(world.report(RunReport.SURVIVED, ("a", 0, 1)), HostSuspected) == [], "that run is over"
    assert not world.machine.suspects.table


class Teams(Cell):
    """Two pools; jobs a, b and c are of the first."""

    def __init__(self) -> None:
        super().__init__("a", "b", "c", "well")
        self.fact("paceline.pools", PoolDefined(path="/q", command_id="3", open_jobs_max=100, open_tasks_max=1000))
        self.peer("entitlement", PoolAnswered(path="/q", pools_offset=2, command_id="3", code="DONE"))
        self.submit("other", pool="/q", instances=20, retries_max=100)

    def start(self, job_id: str, host: str) -> None:
        """A run begins and goes on."""
        self.place((job_id, 19, 1), host=host)
        self.report(RunReport.STARTED, (job_id, 19, 1))


def test_what_fails_in_one_pool_of_several_speaks_against_its_jobs() -> None:
    world = Teams()
    world.start("other", "h2")
    world.later(MINUTE)
    assert world.fail(*THREE_JOBS) == [], "that another team's work goes well elsewhere says nothing of this team's"


@pytest.mark.parametrize(
    ("job", "after_ms", "found"), [("a", MINUTE, 1), ("well", 4 * SECOND, 1), ("a", 4 * SECOND, 0)]
)
def test_work_of_that_pool_which_goes_well_elsewhere_speaks_against_the_host(
    job: str, after_ms: int, found: int
) -> None:
    world = Teams()
    world.start(job, "h2")
    world.later(after_ms)
    assert len(world.fail(*THREE_JOBS)) == found


def test_failures_of_two_pools_speak_against_the_host() -> None:
    world = Teams()
    assert world.fail(*THREE_JOBS[:4], ("other", 0)) != []


def test_a_suspicion_names_the_run_that_failed_last() -> None:
    world = Cell("a", "b", "c")
    world.fail(*THREE_JOBS[:4])
    suspected = one(world.fail(("c", 3)), HostSuspected)
    assert (suspected.job_id, suspected.instance, suspected.run) == ("c", 3, 1)
