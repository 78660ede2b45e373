"""Lengths of runs in a branch: what history knows is used, what it doesn't is drawn, and faults belong to hosts."""

import pytest

from events.codes import Outcome, RunReport
from paceline.whatif.host_faults import HostFaults
from paceline.whatif.lengths import DRAWN, FAULT, GUESSED, OBSERVED, SERVICE, KnownLengths, Length, Lengths
from paceline.whatif.run_table import NEVER, Job, RunTable

END_MS = 1_000_000
S = 1000


class History:
    """A table that is written by hand. Times in seconds."""

    def __init__(self) -> None:
        self.table = RunTable()

    def job(self, job_id: str, owner: str = "ann", kind: str = "batch", tasks: int = 1, **more: int) -> Job:
        """A job of /a."""
        job = self.table.jobs[job_id] = Job(
            job_id, "/a", kind, owner, 0, tasks, more.get("limit", 0) * S, more.get("gang", 0)
        )
        job.resources = {"cpu": 1000}
        return job

    def run(
        self, job_id: str, at: int, took: int | None, code: int = 0, instance: int = 0, host: str = "h1", over: str = ""
    ) -> int:
        """A run that is ordered at a time, and started at once; it ends by itself after `took`, or is cut short then.
        `took` None: it goes on.
        """
        number = len(self.table.jobs[job_id].runs.get(instance, ())) + 1
        row = self.table.add((job_id, instance, number), host, at * S)
        values = {"started_ms": at * S, "began_ms": at * S}
        if took is not None:
            values["over_ms"] = (at + took) * S
            if over:
                values["outcome"] = Outcome[over]
            else:
                values |= {"reported_ms": (at + took) * S, "report": RunReport.EXITED, "code": code}
        for name, value in values.items():
            self.table.column(name)[row] = value
        return row

    def lengths(self, seed: int = 1, jitter_ms: int = 0) -> Lengths:
        """What it knows."""
        return Lengths(KnownLengths(self.table), END_MS, seed, jitter_ms)

    def length(self, job_id: str, natural: int = 0, instance: int = 0, number: int = 1, seed: int = 1) -> Length:
        """The length of a run without faults of hosts."""
        return self.lengths(seed).of(self.table.jobs[job_id], (job_id, instance, number), natural)


@pytest.fixture
def history() -> History:
    return History()


def test_the_nth_run_lasts_as_the_nth_that_ended_by_itself(history):
    history.job("x")
    history.run("x", 0, 30, code=1)
    history.run("x", 40, 20, over="PREEMPTED")
    history.run("x", 70, 50)
    first, second = history.length("x", 0), history.length("x", 1, number=2)
    assert (first.ends_ms, first.code, first.flag) == (30 * S, 1, OBSERVED)
    assert (second.ends_ms, second.code, second.flag) == (50 * S, 0, OBSERVED)


def test_what_was_cut_short_lasts_longer_than_that_as_tasks_like_it(history):
    history.job("x", limit=600)
    history.run("x", 0, 100, over="PREEMPTED")
    for number, took in enumerate((20, 90, 120, 130, 140)):
        history.job(f"other-{number}", limit=600)
        history.run(f"other-{number}", 0, took)
    drawn = [history.length("x", seed=seed) for seed in range(30)]
    assert {each.flag for each in drawn} == {DRAWN}
    assert {each.ends_ms for each in drawn} == {120 * S, 130 * S, 140 * S}
    assert history.length("x", seed=3) == history.length("x", seed=3)


def test_where_nothing_longer_is_known_it_is_guessed_up_to_its_limit_or_as_long_again(history):
    history.job("x", limit=600)
    history.run("x", 0, 500, over="PREEMPTED")
    history.job("y", owner="bob")
    history.run("y", 0, 500, over="PREEMPTED")
    for seed in range(20):
        length = history.length("x", seed=seed)
        assert length.flag == GUESSED
        assert 500 * S < (length.ends_ms or 0) <= 600 * S
    assert history.length("y").ends_ms == 1000 * S


def test_members_of_a_gang_end_together(history):
    history.job("x", tasks=4, gang=4)
    for instance in range(4):
        history.run("x", 0, 100, instance=instance, over="PREEMPTED")
    for number, took in enumerate((110, 120, 130, 140, 150, 160)):
        history.job(f"other-{number}")
        history.run(f"other-{number}", 0, took)
    for seed in range(10):
        assert len({history.length("x", instance=instance, seed=seed).ends_ms for instance in range(4)}) == 1


def test_a_service_goes_on_where_it_was_stopped(history):
    history.job("x", kind="stateless")
    history.run("x", 0, 100, over="STOPPED")
    assert (history.length("x").ends_ms, history.length("x").flag) == (None, SERVICE)


def test_jitter_makes_runs_later_by_so_much_at_most_and_alike_for_one_seed(history):
    history.job("x")
    history.run("x", 0, 30)
    job, run = history.table.jobs["x"], ("x", 0, 1)
    ends = {history.lengths(seed, 50).of(job, run, 0).ends_ms for seed in range(40)}
    assert all(30 * S <= (end or 0) <= 30 * S + 100 for end in ends)
    assert len(ends) > 10
    assert history.lengths(5, 50).of(job, run, 0) == history.lengths(5, 50).of(job, run, 0)


def broken_host(history: History) -> None:
    """On h2 all that starts between 100 and 120 s fails within 2 s; later it runs, as it does elsewhere."""
    for number in range(4):
        history.job(f"x{number}")
        history.run(f"x{number}", 100 + 5 * number, 2, code=126, host="h2")
        history.run(f"x{number}", 200, 60 + number, host="h1")
    history.job("before")
    history.run("before", 50, 40, host="h2")
    history.job("after")
    history.run("after", 130, 40, host="h2")
    history.job("elsewhere")
    history.run("elsewhere", 105, 300, host="h1")


def test_whatever_starts_on_a_host_while_it_fails_everything_fails_there(history):
    broken_host(history)
    lengths, job = history.lengths(), history.table.jobs["elsewhere"]
    failed = lengths.of(job, ("elsewhere", 0, 1), 0, host_id="h2", ordered_ms=112 * S)
    assert (failed.ends_ms, failed.code, failed.flag) == (2 * S, 126, FAULT)
    for host, at in (("h1", 112), ("h2", 99), ("h2", 131)):
        length = lengths.of(job, ("elsewhere", 0, 1), 0, host_id=host, ordered_ms=at * S)
        assert (length.ends_ms, length.flag) == (300 * S, OBSERVED)


def test_what_a_fault_of_a_host_has_ended_runs_elsewhere_as_it_did_when_that_had_passed(history):
    broken_host(history)
    job = history.table.jobs["x1"]
    length = history.lengths().of(job, ("x1", 0, 1), 0, host_id="h1", ordered_ms=105 * S)
    assert (length.ends_ms, length.code, length.flag) == (61 * S, 0, OBSERVED)


@pytest.mark.parametrize(
    ("case", "spoils"),
    [
        (
            "one job alone",
            lambda history: [history.run("x", 100 + each, 2, code=1, instance=each) for each in range(4)],
        ),
        (
            "jobs that fail elsewhere too",
            lambda history: [
                history.run(job, 100 + 10 * each, 2, code=1, instance=each, host=host)
                for each, (job, host) in enumerate([(job, host) for job in "xyz" for host in ("h1", "h3")])
            ],
        ),
        (
            "a run that starts well among them",
            lambda history: [
                history.run(job, 100 + 10 * each, 2, code=code, instance=each)
                for each, (job, code) in enumerate([("x", 1), ("y", 1), ("z", 0), ("x", 1), ("y", 1)])
            ],
        ),
        (
            "failures after a long run",
            lambda history: [history.run(job, 100 + each, 300, code=1) for each, job in enumerate("xyz")],
        ),
    ],
)
def test_failures_that_may_be_the_tasks_own_are_no_fault_of_the_host(history, case, spoils):
    for job_id in "xyz":
        history.job(job_id, tasks=6)
    spoils(history)
    assert HostFaults(history.table).rows == set(), case
    assert HostFaults(history.table).at(("x", 9, 9), "h1", 110 * S) == NEVER
