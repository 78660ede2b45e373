"""Draws, by the seed of a scenario, what users do to its jobs after they have submitted them: updates, good and bad,
more or fewer instances, stops and starts, commands that come at any time.
"""

import random
from collections.abc import Iterator
from typing import Any

ACTS_MAX = 4
"""So many things are done to a service at most; to a batch job one."""
ACT_MS = 20_000
"""At most so long lies between two of them."""
OF_UPDATES = ("pause", "resume", "resume", "abort", "roll_back", "promote")
OF_JOBS = ("stop", "start", "start", "hold", "release", "release", "delete")


def draw_life(seed: int, jobs: list[dict[str, Any]], end: int) -> list[dict[str, Any]]:
    """Gives the jobs policies, health checks and limits, and returns events that happen to them before `end`."""
    draw = random.Random(f"{seed}/life")
    events: list[dict[str, Any]] = []
    for job in jobs:
        batch = job.get("kind", "batch") == "batch"
        (_limit if batch else _serve)(draw, job)
        at = int(job["at"].removesuffix("ms"))
        for event in _acts(draw, job, draw.randrange(2 if batch else ACTS_MAX + 1)):
            at += draw.randrange(ACT_MS)
            if at < end:
                events.append({"at": f"{at}ms", **event})
    return events


def _acts(draw: random.Random, job: dict[str, Any], count: int) -> Iterator[dict[str, Any]]:
    batch = job.get("kind", "batch") == "batch"
    for _ in range(count):
        what = draw.random()
        if what < 0.3 or batch:
            yield _command(draw, job)
        elif what < 0.4:
            yield {"restart": {"job_id": job["job_id"], "batch": draw.choice([0, 2])}}
        elif what < 0.7:
            yield {draw.choice(OF_UPDATES): job["job_id"]}
        else:
            yield {"update": _next(draw, job)}


def _serve(draw: random.Random, job: dict[str, Any]) -> None:
    """A service has a policy, and perhaps a health check that fails sooner or later."""
    job["update"] = {
        "batch": draw.choice([0, 1, 3]),
        "max_failures": draw.choice([0, 1, 3]),
        "max_attempts": draw.choice([1, 3]),
        "roll_back": draw.random() < 0.5,
        "healthy": draw.choice(["0s", "3s"]),
        "canary": draw.choice([0, 0, 1]),
        "start_paused": draw.random() < 0.1,
        "promote_after": draw.choice(["0s", "5s"]),
        "blocked_after": draw.choice(["0s", "20s"]),
        "progress_deadline": draw.choice(["0s", "20s", "10m"]),
    }
    if draw.random() < 0.3:
        job["health"] = {"command": ["check"]}
        job["sim"] = job["sim"] | {"ready": draw.choice(["0s", "2s"])}
        if draw.random() < 0.5:
            job["sim"]["health"] = {"bad_at": f"{draw.randrange(20_000)}ms", "runs": draw.choice([0, 1])}


def _limit(draw: random.Random, job: dict[str, Any]) -> None:
    """A batch job may have limits, or a controller."""
    gang = job["gang"]["min"]
    if draw.random() < 0.15:
        job["max_running"] = max(gang, draw.choice([1, 2]))
    if draw.random() < 0.15:
        job["max_runtime"] = f"{draw.randrange(1, 30_000)}ms"
    if not gang and draw.random() < 0.1:
        job["controller"] = draw.choice([True, {"on_end": "wait"}])


def _command(draw: random.Random, job: dict[str, Any]) -> dict[str, Any]:
    what, job_id = draw.choice(OF_JOBS), job["job_id"]
    if what == "delete":
        return {what: {"job_id": job_id, "force": draw.random() < 0.7}}
    instances = job.get("instances", 1)
    if what in ("stop", "start") and instances > 1 and draw.random() < 0.7:
        first = draw.randrange(instances)
        return {what: {"job_id": job_id, "instances": f"{first}-{draw.randrange(first, instances)}"}}
    return {what: job_id}


def _next(draw: random.Random, job: dict[str, Any]) -> dict[str, Any]:
    """Another specification of a service."""
    new = {name: value for name, value in job.items() if name != "at"}
    new["command"] = [f"v{draw.randrange(4)}"]
    if "instances" in job:
        new["instances"] = max(1, job["instances"] + draw.choice([0, 0, -2, 3]))
    if draw.random() < 0.3:
        new["resources"] = job["resources"] | {"cpu": draw.choice(["50m", "200m", "700m"])}
    if draw.random() < 0.3:
        new["ports"] = draw.choice([[], ["http"], ["http", "admin"]])
    if draw.random() < 0.4:
        new["sim"] = {"duration": "1s", "exit_code": 1}
    if draw.random() < 0.2:
        checked = new.pop("health", None) is not None
        new["sim"] = {name: value for name, value in new["sim"].items() if name != "health"}
        new |= {} if checked else {"health": {"command": ["check"]}}
    return new
