"""Services of drawn scenarios are updated at random under faults: with good and bad versions, more or fewer instances,
other resources and ports, restarts, and commands that come at any time.
"""

import random
from typing import Any

import pytest

from paceline.simulate.faults.injection import Faults
from paceline.simulate.faults.trial import Trial
from paceline.simulate.scenario.random_scenario import draw_scenario
from paceline.simulate.scenario.scenario import Scenario

ACTS = 60
COMMANDS = ("pause", "resume", "resume", "abort", "roll_back", "promote")


def draw_updates(scenario: Scenario) -> Scenario:
    """The scenario with policies for its services, and with what users do to them."""
    draw = random.Random(f"{scenario.seed}/updates")
    body = scenario.model_dump(mode="json", by_alias=True, exclude_unset=True)
    starts = {job.job_id: job.at for job in scenario.jobs}
    for job in body["jobs"]:
        if job.get("kind") == "stateless":
            job["update"] = _policy(draw)
            at = starts[job["job_id"]]
            for _ in range(draw.randrange(5)):
                at += draw.randrange(20_000)
                if at < (scenario.end or 0):
                    body["events"].append({"at": f"{at}ms", **_act(draw, job)})
    return Scenario.model_validate(body)


def _policy(draw: random.Random) -> dict[str, Any]:
    return {
        "batch": draw.choice([0, 1, 3]),
        "max_failures": draw.choice([0, 1, 3]),
        "max_attempts": draw.choice([1, 3]),
        "roll_back": draw.random() < 0.5,
        "healthy": draw.choice(["0s", "3s"]),
        "canary": draw.choice([0, 0, 1]),
        "start_paused": draw.random() < 0.1,
        "promote_after": draw.choice(["0s", "5s"]),
        "blocked_after": draw.choice(["0s", "20s"]),
    }


def _act(draw: random.Random, job: dict[str, Any]) -> dict[str, Any]:
    what = draw.random()
    if what < 0.15:
        return {"restart": {"job_id": job["job_id"], "batch": draw.choice([0, 2])}}
    if what < 0.6:
        return {draw.choice(COMMANDS): job["job_id"]}
    new = {name: value for name, value in job.items() if name != "at"}
    new["instances"] = max(1, job["instances"] + draw.choice([0, 0, -2, 3]))
    new["command"] = [f"v{draw.randrange(4)}"]
    if draw.random() < 0.3:
        new["resources"] = job["resources"] | {"cpu": draw.choice(["50m", "200m", "700m"])}
    if draw.random() < 0.3:
        new["ports"] = draw.choice([[], ["http"], ["http", "admin"]])
    if draw.random() < 0.4:
        new["sim"] = {"duration": "1s", "exit_code": 1}
    return {"update": new}


@pytest.mark.parametrize("seed", [*range(12), 50, 219])
def test_updates_under_faults_break_no_promise(seed: int) -> None:
    Trial(draw_updates(draw_scenario(seed, ACTS)), Faults(seed)).run()


def test_enough_is_drawn() -> None:
    events = [event for seed in range(12) for event in draw_updates(draw_scenario(seed, ACTS)).events]
    assert sum(event.update is not None for event in events) >= 20
    assert {name for event in events if (found := event.of_update()) for name in found[:1]} == {*COMMANDS}
