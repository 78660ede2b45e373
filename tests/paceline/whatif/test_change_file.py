"""Change files: each change gives what the cell does in which it is so, and what can't be is refused with its line."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from paceline.simulate.scenario.scenario import Scenario
from paceline.simulate.world.cell import START_MS, SimulatedCell
from paceline.simulate.world.hosts import SESSIONS
from paceline.simulate.world.scripted_actions import Action, actions
from paceline.whatif.added_hosts import loss_of
from paceline.whatif.branch import Branch, Change
from paceline.whatif.change_file import InvalidChange, read_change, with_file
from paceline.whatif.compare import Comparison, compare
from paceline.whatif.lengths import ADDED, DRAWN
from paceline.whatif.settings import change_of
from paceline.whatif.stretch import Stretch, read_stretch
from tests.helpers import ROOT
from tests.paceline.whatif.recorded import THREE_TEAMS, Order, of_file, orders, recording

FROM_MS = START_MS + 180_000
AT = "180s"


@pytest.fixture(scope="module")
def stretch() -> Stretch:
    log, end_ms = of_file(THREE_TEAMS)
    return read_stretch(log, FROM_MS, end_ms)


def change_in(stretch: Stretch, path: Path) -> Change:
    """What a change file says."""
    read = read_change(path)
    return with_file(stretch, change_of(stretch, read.settings, read.pools), read)


def branch_of(stretch: Stretch, tmp_path, file: dict[str, Any]) -> Branch:
    """A branch with what a change file says, at its end."""
    path = tmp_path / "change.yaml"
    path.write_text(yaml.safe_dump(file))
    branch = Branch(stretch, change_in(stretch, path), seed=1)
    branch.run()
    branch.close()
    return branch


def told(stretch: Stretch, tmp_path, file: dict[str, Any]) -> set[Order]:
    """The orders of that branch."""
    return orders(branch_of(stretch, tmp_path, file).table, FROM_MS, stretch.to_ms)


def true_orders(body: dict[str, Any], end_ms: int) -> set[Order]:
    """The orders of the whole scenario with something changed, from the same moment on."""
    log, truth_end_ms = recording(Scenario.model_validate(body | {"end": "1h"}))
    return orders(read_stretch(log, FROM_MS, truth_end_ms).runs, FROM_MS, end_ms)


def scenario() -> dict[str, Any]:
    """The scenario of the recording, as it is written."""
    body: dict[str, Any] = yaml.safe_load(THREE_TEAMS.read_text())
    return body


def since(body: dict[str, Any], keeps: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The scenario without the jobs that come from the start of the stretch on and that nobody keeps; of those that are
    open then and aren't kept each is stopped. The record says which are open.
    """
    log, end_ms = of_file(THREE_TEAMS)
    runs = read_stretch(log, FROM_MS, end_ms).runs
    later = {job_id for job_id, job in runs.jobs.items() if job.submitted_ms >= FROM_MS}
    jobs = [job for job in body["jobs"] if keeps(job) or job["job_id"] not in later]
    open_ids = [job["job_id"] for job in jobs if not keeps(job) and not 0 < runs.jobs[job["job_id"]].ended_ms < FROM_MS]
    stops = [{"at": AT, "stop": job_id} for job_id in sorted(open_ids)]
    assert stops
    assert len(jobs) < len(body["jobs"])
    return body | {"jobs": jobs, "events": stops}


JOB = {
    "job_id": "extra",
    "pool": "/c",
    "instances": 5,
    "resources": {"cpu": 1, "memory": "1GiB"},
    "retries": {"max": 2},
    "sim": {"durations": ["20s", "40s"], "fail_runs": 1, "ready": "2s"},
}
CHANGES: dict[str, tuple[dict[str, Any], Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "pools": (
        {"pools": [{"path": "/b", "share": 3}], "settings": {"preemption_delay": "5s"}},
        lambda body: (
            body
            | {
                "events": [
                    {"at": AT, "pool": {"path": "/b", "share": 3}},
                    {"at": AT, "cell": {"preemption_delay": "5s"}},
                ]
            }
        ),
    ),
    "priorities": (
        {"priorities": {"b-06": 7, "b-12": 3}},
        lambda body: (
            body
            | {
                "jobs": [job | ({"priority": 3} if job["job_id"] == "b-12" else {}) for job in body["jobs"]],
                "events": [{"at": AT, "priority": {"job_id": "b-06", "priority": 7}}],
            }
        ),
    ),
    "without jobs of an owner": (
        {"without": {"jobs": [{"owner": "ann"}]}},
        lambda body: since(body, lambda job: job["owner"] != "ann"),
    ),
    "without jobs by id": (
        {"without": {"jobs": ["b-0*", {"pool": "/b", "job_id": "b-1[0-3]"}]}},
        lambda body: since(body, lambda job: not job["job_id"] < "b-14" or job["pool"] != "/b"),
    ),
    "jobs": (
        {"jobs": [{"at": "30s", **JOB}]},
        lambda body: body | {"jobs": [*body["jobs"], {"at": "210s", **JOB}]},
    ),
    "hosts": (
        {"hosts": [{"name": "new", "count": 2, "joins": "1m", "resources": {"cpu": 2, "memory": "4GiB"}}]},
        lambda body: (
            body
            | {
                "hosts": [
                    *body["hosts"],
                    {"name": "new", "count": 2, "joins": "240s", "resources": {"cpu": 2, "memory": "4GiB"}},
                ]
            }
        ),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_change_gives_what_the_cell_does_in_which_it_is_so(stretch, tmp_path, name):
    file, truth = CHANGES[name]
    here = told(stretch, tmp_path, file)
    assert here == true_orders(truth(scenario()), stretch.to_ms)
    assert here != orders(stretch.runs, FROM_MS, stretch.to_ms), "the change does nothing"


def test_a_host_that_is_left_out_is_lost_with_what_runs_there(stretch, tmp_path, monkeypatch):
    def with_loss(scenario: Scenario, cell: SimulatedCell) -> Iterator[Action]:
        """Gateway and operator say in the moment in which the host fails that it is lost."""
        facts = [partial(cell.append, event, b"host-4") for event in loss_of("host-4", SESSIONS + 1)]
        lost = [Action(180_000, fact) for fact in facts]
        return iter(sorted([*actions(scenario, cell), *lost], key=lambda action: action.at_ms))

    monkeypatch.setattr("paceline.simulate.session.actions", with_loss)
    truth = true_orders(scenario() | {"events": [{"at": AT, "fails": "host-4"}]}, stretch.to_ms)
    for which in ("host-4", "hostname=host-4"):
        here = told(stretch, tmp_path, {"without": {"hosts": [which]}})
        assert here == truth
    assert not any(host == "host-4" for *_, host in here)


def test_the_length_of_an_added_job_that_says_none_is_drawn_among_its_owners(stretch, tmp_path):
    job = {name: JOB[name] for name in JOB if name != "sim"} | {"owner": "bob"}
    branch = branch_of(stretch, tmp_path, {"jobs": [job, JOB | {"job_id": "played"}]})
    assert branch.lengths.flags[DRAWN] == 5
    assert branch.lengths.flags[ADDED] == 10  # each of five tasks fails once
    extra = branch.table.jobs["extra"]
    ran = [run.reported_ms - run.started_ms for at in range(5) for run in branch.table.runs_of(extra, at)]
    bobs = {72, 73, 89, 103, 109, 120, 123, 126, 134, 137, 144, 148, 149, 152, 166, 175}
    assert {each // 1000 for each in ran} <= bobs


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ({"prioritys": {}}, "change.yaml:1:1: /prioritys.*did you mean priorities"),
        ({"priorities": {"b-99": 1}}, "no job of the stretch has this id; did you mean b-0"),
        ({"without": {"jobs": ["x-*"]}}, "/without/jobs/0: no job of the stretch is one of these"),
        ({"without": {"jobs": [{}]}}, "must say which jobs"),
        ({"without": {"hosts": ["hots-1"]}}, "no host of the stretch is hots-1; did you mean host-1"),
        ({"without": {"hosts": ["rack=r1"]}}, "no host of the stretch is rack=r1"),
        ({"jobs": [JOB | {"job_id": "b-01"}]}, "/jobs/0/job_id: b-01 is the id of another job"),
        ({"jobs": [JOB | {"pool": "/d"}]}, "/jobs/0/pool: there is no pool /d"),
        ({"jobs": [{"at": "5h", **JOB}]}, "/jobs/0/at: is after the end of the stretch"),
        ({"jobs": [{name: JOB[name] for name in JOB if name != "job_id"}]}, "job_id"),
        (
            {"hosts": [{"name": "host", "count": 2, "resources": {"cpu": 1}}]},
            "/hosts/0: host-1 is the name of another host",
        ),
        ({"hosts": [{"name": "n", "resources": {"cpu": 1}, "starts_per_second": 5}]}, "runs start as in history"),
        ({"hosts": [{"name": "n", "resources": {"cpu": 1}, "joins": "9h"}]}, "is after the end of the stretch"),
        ({"pools": [{"path": "/b"}, {"path": "/b"}]}, "/pools/1/path: is the path of another pool"),
        ({"settings": {"preemption_dely": "1s"}}, "did you mean preemption_delay"),
        ({"share": 2}, "/share"),
    ],
)
def test_what_cant_be_is_refused_with_its_place(stretch, tmp_path, file, why):
    path = tmp_path / "change.yaml"
    path.write_text(yaml.safe_dump(file))
    with pytest.raises(InvalidChange, match=why):
        change_in(stretch, path)


def test_the_file_on_the_page_is_the_example_and_holds_for_the_recording(stretch):
    example = ROOT / "examples" / "what-if" / "two_hosts_more.yaml"
    assert f"```yaml\n{example.read_text()}```" in (ROOT / "docs" / "what-if.md").read_text()
    assert change_in(stretch, example).lines == [
        "without 12 jobs",
        "job b-16 has priority 5",
        "job report is submitted to /c",
        "2 hosts new more",
    ]


def compared(stretch: Stretch, tmp_path, file: dict[str, Any]) -> Comparison:
    """Two pairs with what a change file says."""
    path = tmp_path / "change.yaml"
    path.write_text(yaml.safe_dump(file))
    return compare(stretch, change_in(stretch, path), 2, 1, 50)


def test_jobs_that_are_left_out_count_on_no_side(stretch, tmp_path):
    done = compared(stretch, tmp_path, {"without": {"jobs": [{"pool": "/c"}]}})
    figures = {(each.group, each.figure): each for each in done.effects if not each.resource}
    assert not any(
        each.recorded or each.again or each.changed for (group, _), each in figures.items() if group[1] == "/c"
    )
    assert not any(job.pool == "/c" for job in done.jobs)
    assert figures[("owner", "bob"), "begun"].recorded == figures[("pool", "/b"), "begun"].recorded > 0
    cell = [figures[group, "begun"].recorded for group in (("cell", ""), ("pool", "/a"), ("pool", "/b"))]
    assert cell[0] == cell[1] + cell[2]


def test_where_a_job_is_added_times_are_those_of_other_jobs(stretch, tmp_path):
    done = compared(stretch, tmp_path, {"jobs": [{"at": "30s", **JOB}]})
    within = {each.group: each.within for each in done.effects if each.figure == "mean_wait"}
    assert {group for group, each in within.items() if each is None} == {("cell", ""), ("pool", "/c")}
    assert all(each.changed_within is not None for each in done.effects)


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "{}\n"])
def test_an_empty_file_is_told_what_may_stand_in_it(tmp_path, text):
    path = tmp_path / "change.yaml"
    path.write_text(text)
    with pytest.raises(InvalidChange, match=r"empty; .*pools.* pools, settings, priorities, without, jobs, hosts"):
        read_change(path)
