"""The truth is known where a scenario with the change is simulated from its start: what-if on the log of the scenario
without it must agree.

Exactly, run by run, where history knows all lengths and no two things happen in one millisecond. Otherwise within
bounds: lengths that nobody has seen are drawn, stops of running jobs move with their jobs, and runs of several hosts
that end in one millisecond are reported in another order.
"""

import random
from typing import Any

from events.yaml_documents import Document
from paceline.simulate.scenario.random_scenario import draw_scenario
from paceline.simulate.scenario.scenario import Scenario
from paceline.simulate.world.cell import START_MS
from paceline.whatif.branch import Branch, Change
from paceline.whatif.change_file import ChangeFile, ReadFile, with_file
from paceline.whatif.figures import CELL, Measured
from paceline.whatif.lengths import OBSERVED
from paceline.whatif.settings import Setting, change_of
from paceline.whatif.stretch import Stretch, read_stretch
from tests.helpers.drawn import seeds
from tests.paceline.whatif.recorded import orders, recording

FROM_MS = 40_000
END = "900s"
POOLS = ("/a", "/b", "/c")


def drawn_body(draw: random.Random) -> dict[str, Any]:
    """A full cell: three pools, hosts of two sizes, gangs and single tasks. All times differ by milliseconds."""
    times = draw.sample(range(120_000), 24)
    lengths = iter(draw.sample(range(4_000, 90_000), 200))
    jobs = []
    for number, at in enumerate(sorted(times)):
        tasks = draw.choice([1, 1, 2, 4])
        jobs.append({
            "job_id": f"job-{number}",
            "at": f"{at}ms",
            "pool": draw.choice(POOLS),
            "owner": draw.choice(["ann", "bob"]),
            "instances": tasks,
            "priority": draw.randrange(3),
            "preemptible": draw.random() < 0.8,
            "resources": {"cpu": draw.choice([1, 2, 3]), "memory": "1GiB"},
            "gang": {"min": tasks if tasks > 1 and draw.random() < 0.3 else 0},
            "sim": {"durations": [f"{next(lengths)}ms" for _ in range(tasks)]},
        })  # fmt: skip
    return {
        "end": END,
        "cell": {"preemption_delay": draw.choice(["0s", "7s", "2m"])},
        "hosts": [
            {"name": "small", "count": 2, "resources": {"cpu": 3, "memory": "8GiB"}},
            {"name": "large", "count": 1, "resources": {"cpu": 6, "memory": "16GiB"}},
        ],
        "pools": [{"path": path, "reservation": {"cpu": draw.choice([0, 2, 4])}} for path in POOLS],
        "jobs": jobs,
    }


def changed(draw: random.Random, body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A change file, and the scenario in which it is so."""
    at = f"{FROM_MS}ms"
    later = [job for job in body["jobs"] if int(job["at"][:-2]) > FROM_MS]
    pool = draw.choice(body["pools"])
    what = draw.choice(["share", "limit", "reservation", "closed", "delay", "priority", "job", "hosts"])
    match what:
        case "share" | "limit" | "reservation" | "closed":
            value = {"share": 4, "limit": {"cpu": 3}, "reservation": {"cpu": 6}, "closed": True}[what]
            new = pool | ({"reservation": {}} if what == "limit" else {}) | {what: value}
            return {"pools": [new]}, body | {"events": [{"at": at, "pool": new}]}
        case "delay":
            settings = {"preemption_delay": "3s"}
            return {"settings": settings}, body | {"events": [{"at": at, "cell": settings}]}
        case "priority":
            job = draw.choice(later)
            jobs = [each | ({"priority": 9} if each is job else {}) for each in body["jobs"]]
            return {"priorities": {job["job_id"]: 9}}, body | {"jobs": jobs}
        case "job":
            job = {
                "job_id": "more",
                "pool": "/a",
                "instances": 3,
                "resources": {"cpu": 2},
                "sim": {"duration": "33333ms"},
            }
            after = draw.randrange(1, 60_000)
            there = {**job, "at": f"{FROM_MS + after}ms"}
            return {"jobs": [{**job, "at": f"{after}ms"}]}, body | {"jobs": [*body["jobs"], there]}
    group = {"name": "new", "count": 2, "resources": {"cpu": 4, "memory": "8GiB"}}
    joins = draw.randrange(1, 60_000)
    hosts = [*body["hosts"], group | {"joins": f"{FROM_MS + joins}ms"}]
    return {"hosts": [group | {"joins": f"{joins}ms"}]}, body | {"hosts": hosts}


def branched(stretch: Stretch, file: dict[str, Any]) -> Branch:
    """The branch with a change file, at its end."""
    settings = [Setting(CELL, name, "", value) for name, value in file.get("settings", {}).items()]
    pools = {each["path"]: {name: each[name] for name in each if name != "path"} for each in file.get("pools", [])}
    read = ReadFile(pools, settings, ChangeFile.model_validate(file), Document("", file, {"": (0, 0)}))
    branch = Branch(stretch, with_file(stretch, change_of(stretch, settings, pools), read), seed=1)
    branch.run()
    branch.close()
    return branch


@seeds(200, 6)
def test_a_change_gives_exactly_what_the_changed_scenario_gives(seed):
    draw = random.Random(f"{seed}/truth")
    body = drawn_body(draw)
    file, truth = changed(draw, body)
    log, end_ms = recording(Scenario.model_validate(body))
    stretch = read_stretch(log, START_MS + FROM_MS, end_ms)
    branch = branched(stretch, file)
    true_log, _ = recording(Scenario.model_validate(truth))
    true_runs = read_stretch(true_log, START_MS + FROM_MS, end_ms).runs
    assert orders(branch.table, stretch.from_ms, end_ms) == orders(true_runs, stretch.from_ms, end_ms), file


BOUNDS = {
    ("mean_wait", ""): (0.25, 6.0),
    ("use", "cpu"): (0.2, 0.3),
    ("begun", ""): (0.1, 2),
    ("ended", ""): (0.25, 2),
}
"""For each figure of the cell by how much of it, and by how much at least, what-if may be beside the truth."""


@seeds(4, 3)
def test_where_not_all_is_known_figures_are_within_bounds(seed):
    drawn = draw_scenario(seed, acts=60)
    scenario = drawn.model_copy(update={"end": (drawn.end or 0) + 150_000})
    from_ms = START_MS + 14_400
    log, end_ms = recording(scenario)
    stretch = read_stretch(log, from_ms, end_ms)
    for settings, event in (({}, None), ({"preemption_delay": "1s"}, "cell")):
        truth = scenario
        if event is not None:
            raw = scenario.model_dump(mode="json", by_alias=True, exclude_unset=True)
            raw["events"] = [{"at": "14400ms", event: settings}, *raw.get("events", [])]
            truth = Scenario.model_validate(raw)
        file = {"settings": settings} if settings else {}
        true_log, true_end_ms = (log, end_ms) if event is None else recording(truth)
        true = Measured(read_stretch(true_log, from_ms, true_end_ms).runs, from_ms, end_ms).figures[CELL, ""]
        told = Measured(branched(stretch, file).table, from_ms, end_ms).figures[CELL, ""]
        beside = {
            figure: (round(told[figure], 2), round(true[figure], 2))
            for figure, (share, least) in BOUNDS.items()
            if abs(told[figure] - true[figure]) > max(least, share * abs(true[figure]))
        }
        assert not beside, (seed, settings)


def test_without_a_change_all_lengths_are_those_of_history():
    log, end_ms = recording(Scenario.model_validate(drawn_body(random.Random("alike"))))
    stretch = read_stretch(log, START_MS + FROM_MS, end_ms)
    branch = Branch(stretch, Change(), seed=1)
    branch.run()
    branch.close()
    assert {*branch.lengths.flags} == {OBSERVED}
