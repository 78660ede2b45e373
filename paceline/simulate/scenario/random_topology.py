"""Draws a scenario by seed: gangs are to be near each other, on racks of hosts with link groups of cards. Room is made
for some by moving others, and hosts go to another host pool and back by its load.
"""

import random
from typing import Any

from paceline.simulate.scenario.scenario import Scenario

ACT_MS = 8000
"""So long a scenario lasts for each thing that users do."""
POOLS = ("/a", "/b")
RACKS = 3
SIZES = (2, 2, 4, 4, 6, 8)
LEVELS = ("rack", "rack", "host", "link_group", "link_group")


def draw_topology(seed: int, acts: int) -> Scenario:
    """Users that do so many things, on three racks of two hosts each."""
    draw = random.Random(f"{seed}/topology")
    end = acts * ACT_MS
    jobs = [_job(draw, f"job-{number}", draw.randrange(end)) for number in range(acts)]
    moves = draw.random() < 0.5
    return Scenario.model_validate(
        {
            "name": f"topology-{seed}",
            "seed": seed,
            "end": f"{end}ms",
            "cell": {
                "topology": draw.choice([["rack", "host", "link_group"], ["rack"], []]),
                "preemption_delay": draw.choice(["0s", "5s"]),
                "reserve_after": draw.choice(["20s", "10m"]),
            },
            "hosts": [_rack(draw, number) for number in range(RACKS)] + [_extra(draw)],
            "host_pools": [{"name": "own", **({"elastic": [_elastic(draw)]} if moves else {})}],
            "pools": [{"path": path, "share": draw.choice([1, 2]), **_pool(draw)} for path in POOLS],
            "jobs": jobs,
            "events": [_act(draw, jobs, end) for _ in range(max(2, acts // 2))],
        }
    )


def _rack(draw: random.Random, number: int) -> dict[str, Any]:
    """Two hosts with cards, whose link groups differ from rack to rack."""
    gpus = {"count": draw.choice([4, 4, 6]), "link_groups": draw.choice([1, 2, 2, 3]), "model": "a100"}
    return {
        "name": f"rack{number}",
        "count": 2,
        "resources": {"cpu": draw.choice([4, 8]), "memory": "8GiB"},
        "attributes": {"rack": f"r{number}"},
        "devices": {"gpu": gpus | {"memory": "16GiB"}},
    }


def _extra(draw: random.Random) -> dict[str, Any]:
    """A host of the other host pool, in one of the racks."""
    return {
        "name": "extra",
        "resources": {"cpu": 4, "memory": "8GiB"},
        "attributes": {"rack": f"r{draw.randrange(RACKS)}"},
        "host_pool": "own",
    }


def _elastic(draw: random.Random) -> dict[str, Any]:
    return {"source": "shared", "above": draw.choice([40, 60]), "below": draw.choice([10, 30]), "lasts": "10s"}


def _pool(draw: random.Random) -> dict[str, Any]:
    pools = draw.choice([{}, {"host_pools": ["own", "shared"]}, {"host_pools": ["shared", "own"]}])
    return {"reservation": {"cpu": draw.choice([0, 8]), "gpu": draw.choice([0, 4, 8])}, **pools}


def _job(draw: random.Random, job_id: str, at: int) -> dict[str, Any]:
    gang = draw.random() < 0.7
    instances = draw.choice(SIZES) if gang else draw.choice([1, 2, 4])
    gpu = draw.choice([None, None, None, 1, 1, 1, 2, "500m", "500m", "300m"])
    job: dict[str, Any] = {
        "at": f"{at}ms",
        "job_id": job_id,
        "pool": draw.choice(POOLS),
        "instances": instances,
        "priority": draw.randrange(3),
        "preemptible": draw.random() < 0.85,
        "resources": {
            "cpu": draw.choice(["100m", "500m", 1, 2] if gpu else [1, 2, 3]),
            **({"gpu": gpu} if gpu else {}),
        },
        "sim": {"duration": f"{draw.randrange(10_000, 120_000)}ms", "exit_code": draw.choice([0, 0, 0, 1])},
        "retries": {"max": draw.randrange(3)},
    }
    if gang:
        job["gang"] = {"min": instances}
        job |= _nearness(draw, instances, gpu is not None)
    return job


def _nearness(draw: random.Random, instances: int, has_cards: bool) -> dict[str, Any]:
    """The rules by which the tasks of a gang are near each other, if any."""
    level = draw.choice([each for each in LEVELS if has_cards or each != "link_group"])
    segment = draw.choice([each for each in (2, 3) if instances % each == 0])
    match draw.choice(["near", "near", "within", "segments", "both", ""]):
        case "near":
            return {"near": level}
        case "within":
            return {"within": level}
        case "segments":
            return {"near": level, "segments": segment}
        case "both":
            lower = draw.choice(["host", "link_group"] if has_cards else ["host"])
            return {"within": "rack", "near": lower, **({"segments": segment} if draw.random() < 0.5 else {})}
    return {}


def _act(draw: random.Random, jobs: list[dict[str, Any]], end: int) -> dict[str, Any]:
    """Draws what operators and users do beside submitting. Room is asked for a job soon after it has come."""
    what, at, job = draw.random(), draw.randrange(end), draw.choice(jobs)
    if what < 0.5:
        soon = int(job["at"].removesuffix("ms")) + draw.choice([5000, 20_000])
        return {"at": f"{soon}ms", "rebalance": {"job_id": job["job_id"], "max_moves": draw.choice([0, 0, 3])}}
    if what < 0.65:
        return {"at": f"{at}ms", "stop": job["job_id"]}
    if what < 0.85:
        host, device = f"rack{draw.randrange(RACKS)}-{draw.choice([1, 2])}", f"gpu-{draw.randrange(4)}"
        aside = {"host": host, "device": device, "disabled": draw.random() < 0.6, "ends": False}
        return {"at": f"{at}ms", "device": aside}
    return {"at": f"{at}ms", "move": {"source": "shared", "target": "own", "count": 1}}
