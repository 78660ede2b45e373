"""A scenario by seed: a small cell with more to do than it can, of everything a little."""

import random
from typing import Any

from paceline.simulate.scenario.random_life import draw_life
from paceline.simulate.scenario.scenario import Scenario

POOLS = ("/a", "/a/x", "/a/y", "/b")
LEAVES = ("/a/x", "/a/y", "/b")
NOT_OF_DAEMONS = ("instances", "preemptible", "strategy")
ACT_MS = 600
"""Mean time between two things that users do."""


def draw_scenario(seed: int, acts: int) -> Scenario:
    """Users that do so many things, on three groups of hosts of which one comes and goes."""
    draw = random.Random(f"{seed}/scenario")
    end = acts * ACT_MS
    jobs: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = []
    for at in sorted(draw.randrange(end) for _ in range(acts)):
        what = draw.random()
        if what < 0.75 or not jobs:
            jobs.append(_job(draw, f"job-{len(jobs)}", at))
        elif what < 0.9:
            events.append({"at": f"{at}ms", "stop": draw.choice(jobs)["job_id"]})
        elif what < 0.96:
            events.append({"at": f"{at}ms", "pool": _pool(draw, draw.choice(POOLS))})
        elif what < 0.98:
            events.append({"at": f"{at}ms", "remove_pool": draw.choice(POOLS)})
        else:
            events.append({"at": f"{at}ms", "cell": _settings(draw)})
    leaves = draw.randrange(end // 4, end)
    away: dict[str, Any] = {"fails": f"{leaves}ms"}
    if draw.random() < 0.7 and (back := leaves + draw.randrange(1, 200_000)) <= end:
        away["returns"] = f"{back}ms"
    groups = [_hosts("few", 2), _hosts("more", 3, gpu=2), _hosts("some", 2) | away]
    if draw.random() < 0.5:  # one for itself
        silent = draw.randrange(end)
        events.append({"at": f"{silent}ms", "silent": "more-2"})
        if (back := silent + draw.randrange(1, 200_000)) <= end:
            events.append({"at": f"{back}ms", "returns": "more-2"})
    events += draw_life(seed, jobs, end)
    return Scenario.model_validate(
        {
            "name": f"drawn-{seed}",
            "seed": seed,
            "end": f"{end}ms",
            "cell": _settings(draw),
            "hosts": groups,
            "pools": [_pool(draw, path) for path in POOLS],
            "jobs": jobs,
            "events": events,
        }
    )


def _hosts(name: str, count: int, gpu: int = 0) -> dict[str, Any]:
    resources = {"cpu": 2, "memory": "4GiB", "disk": "10000MiB", "gpu": gpu}
    return {"name": name, "count": count, "resources": resources, "attributes": {"kind": name}}


def _settings(draw: random.Random) -> dict[str, Any]:
    return {
        "preemption_delay": draw.choice(["0s", "5s"]),
        "forget_after": draw.choice(["20s", "1m"]),
        "host_lost_after": draw.choice(["1m", "5m"]),
    }


def _job(draw: random.Random, job_id: str, at: int) -> dict[str, Any]:
    instances = draw.choice([1, 3, 10])
    service = draw.random() < 0.25
    sim = {
        "duration": f"{draw.randrange(60_000)}ms",
        "exit_code": draw.choice([0, 0, 0, 1]),
        "fail_runs": draw.choice([0, 0, 1]),
        "ignores_stop": draw.random() < 0.1,
    }
    job: dict[str, Any] = {
        "at": f"{at}ms",
        "job_id": job_id,
        "pool": draw.choice(LEAVES),
        "instances": instances,
        "resources": {
            "cpu": draw.choice(["50m", "200m", "700m"]),
            "memory": draw.choice(["16MiB", "256MiB"]),
            "disk": draw.choice(["0MiB", "0MiB", "100MiB", "4000MiB"]),
            "gpu": draw.choice(["500m", "1"]) if draw.random() < 0.15 else 0,
        },
        "ports": ["http"] if draw.random() < 0.2 else [],
        "priority": draw.randrange(3),
        "preemptible": draw.random() < 0.9,
        "strategy": draw.choice(["pack", "spread"]),
        "sim": sim,
    }
    if draw.random() < 0.1:
        job["constraints"] = [{"attribute": "kind", "values": draw.choice([["few"], ["more", "some"]])}]
    kind = draw.choice(["stateless", "stateless", "stateful", "daemon"]) if service else "batch"
    if kind == "daemon":
        return {name: job[name] for name in job if name not in NOT_OF_DAEMONS} | {"kind": kind}
    if service:
        return job | {"kind": kind, "sla": {"max_unavailable": 1}}
    gang = draw.choice([instances, instances, 2]) if draw.random() < 0.2 and instances > 1 else 0
    return job | {"gang": {"min": gang}, "retries": {"max": draw.randrange(3)}}


def _pool(draw: random.Random, path: str) -> dict[str, Any]:
    reserved = draw.choice([0, 1000, 5000]) * (2 if path == "/a" else 1)
    limit = draw.choice([None, None, max(4, reserved // 1000)])
    return {
        "path": path,
        "reservation": {
            "cpu": f"{reserved}m",
            "memory": f"{reserved}MiB",
            "disk": f"{reserved}MiB",
            "gpu": f"{reserved // 5}m",
        },
        "limit": {"cpu": limit},
        "share": draw.choice([1, 1, 2]),
    }
