"""A scenario of sharing by seed: a small cell over hours, with more wanted than there is, and what makes that hard."""

import random
from typing import Any

from events.topics import MACHINES, rounds_of
from paceline.simulate.scenario.scenario import Scenario

HOURS = 7
ARRIVALS_MIN = 120
"""All that users and hosts do happens up to this minute; after that the cell must come to rest."""
STREAM_MINUTES = 60
DELAY_MAX_MS = 8000
SIZES = (1, 1, 1, 2, 3, 4)


def draw_sharing(seed: int) -> Scenario:
    """A scenario. Of every two seeds the even one has only work that may be preempted, and no limits."""
    return Scenario.model_validate(_drawn(seed))


def draw_slack(seed: int) -> Scenario:
    """The same cell, whose hosts lend what they say now and then, and some jobs of which are revocable."""
    fields, draw = _drawn(seed), random.Random(f"{seed}/slack")
    for pool in fields["pools"]:
        pool |= {"slack_percent": percent} if (percent := draw.choice([None, 0, 30, 100])) is not None else {}
    jobs = fields["jobs"]
    for job in jobs:
        job["resources"]["memory"] = f"{draw.choice([64, 256, 1024])}MiB"
        cannot = {"controller", "preemptible"} & job.keys()
        job |= {"revocable": True} if not cannot and draw.random() < 0.5 else {}
    jobs.append(_for_ever(draw, draw.choice(jobs)["pool"]))
    lent = [_load(draw, group) for group in fields["hosts"] for _ in range(draw.randint(1, 12))]
    switches = sorted(draw.sample(range(1, ARRIVALS_MIN), 2 * draw.choice([0, 0, 1])))
    turns = [{"at": f"{at}m", "cell": {"slack": bool(turn % 2)}} for turn, at in enumerate(switches)]
    return Scenario.model_validate(
        fields
        | {
            "name": f"slack-{seed}",
            "cell": fields["cell"] | {"slack": True},
            "events": [*fields["events"], *lent, *turns],
        }
    )


def _for_ever(draw: random.Random, pool: str) -> dict[str, Any]:
    """A revocable job that takes whatever is lent."""
    need = {"cpu": 1, "memory": "64MiB"}
    return {"job_id": "idle", "pool": pool, "at": "1m", "revocable": True, "instances": draw.choice([4, 20]),
            "resources": need, "gang": {"min": draw.choice([1, 1, 3])}, "sim": {"duration": "100h"}}  # fmt: skip


def _load(draw: random.Random, group: dict[str, Any]) -> dict[str, Any]:
    """A host, or all of a group, says at some time what it lends."""
    count, size = group["count"], group["resources"]["cpu"]
    one = f"{group['name']}-{draw.randint(1, count)}" if count > 1 and draw.random() < 0.7 else group["name"]
    slack = draw.choice([0, size // 4, size // 2, size])
    return {"at": _minute(draw), "load": {"host": one, "cpu_used": size - slack, "slack": slack}}


def _drawn(seed: int) -> dict[str, Any]:
    """The fields of a scenario of sharing."""
    draw = random.Random(f"{seed}/sharing")
    plain = seed % 2 == 0
    sizes = [draw.randint(2, 8) for _ in range(draw.choice([1, 1, 2]))]
    hosts = [_hosts(draw, f"h{at}", size) for at, size in enumerate(sizes)]
    leaves, pools = _pools(draw, sum(group["count"] * size for group, size in zip(hosts, sizes, strict=True)), plain)
    jobs = [_job(draw, f"job-{at}", leaves, max(sizes), plain) for at in range(draw.randint(4, 12))]
    return {
        "name": f"sharing-{seed}",
        "seed": seed,
        "end": f"{HOURS}h",
        "cell": {"host_lost_after": "20s", "host_lost_percent_per_minute": 100},
        "hosts": hosts,
        "pools": pools,
        "jobs": jobs,
        "events": _events(draw, jobs, pools, leaves, plain),
    }


def draw_streams(seed: int) -> Scenario:
    """A scenario in which short tasks of odd sizes stream past: they leave a part of each host over, for which others
    wait behind them.
    """
    draw = random.Random(f"{seed}/streams")
    size = draw.choice([4, 6, 8, 10])
    paths = ["/a", "/b"][: draw.randint(1, 2)]
    count, mean_s = draw.randint(2, 4), draw.choice([45, 90, 180])
    wide = draw.randint(size // 2 + 1, size - 1)
    needs = [wide, draw.randint(1, size - wide), draw.randint(1, size - 1)]
    running = STREAM_MINUTES * 60 // mean_s * count
    jobs = [
        {
            "job_id": f"job-{at}",
            "at": f"{at}s",
            "pool": paths[0] if at < 2 else paths[-1],
            "instances": min(3000, 2 * running * size // cpu),
            "resources": {"cpu": cpu},
            "sim": {"draw": {"exponential": f"{mean_s}s"}},
        }
        for at, cpu in enumerate(needs)
    ]
    reserved = [draw.choice([0, 0, count * size // len(paths)]) for _ in paths]
    return Scenario.model_validate(
        {
            "name": f"streams-{seed}",
            "seed": seed,
            "end": f"{STREAM_MINUTES}m",
            "hosts": [{"name": "h", "count": count, "resources": {"cpu": size}}],
            "pools": [
                {"path": path, "reservation": {"cpu": cpu, "memory": f"{cpu}GiB"}, "share": draw.choice([1, 1, 2])}
                for path, cpu in zip(paths, reserved, strict=True)
            ],
            "jobs": jobs,
        }
    )


def draw_delays(seed: int) -> dict[str, dict[str, int]]:
    """Draws, in half of the cells, how much later machines see what others write."""
    draw = random.Random(f"{seed}/delays")
    if draw.random() < 0.5:
        return {}
    return {
        machine: {rounds_of(other): draw.randrange(DELAY_MAX_MS) for other in MACHINES if other != machine}
        for machine in MACHINES
    }


def _minute(draw: random.Random) -> str:
    return f"{draw.randint(1, ARRIVALS_MIN)}m"


def _hosts(draw: random.Random, name: str, cpu: int) -> dict[str, Any]:
    group: dict[str, Any] = {
        "name": name,
        "count": draw.randint(1, 4),
        "resources": {"cpu": cpu},
        "attributes": {"kind": name},
    }
    if name != "h0" and draw.random() < 0.4:
        fails = draw.randint(5, ARRIVALS_MIN - 30)
        group |= {"fails": f"{fails}m", "returns": f"{fails + draw.randint(1, 30)}m"}
    return group


def _pools(draw: random.Random, cpu: int, plain: bool) -> tuple[list[str], list[dict[str, Any]]]:
    """The paths of pools for jobs, and all pools."""
    paths = ["/a", "/b", "/c", "/d"][: draw.randint(2, 4)]
    tree = [*paths, "/a/x", "/a/y"] if draw.random() < 0.3 else paths
    leaves = [path for path in tree if not (path == "/a" and "/a/x" in tree)]
    return leaves, [_pool(draw, path, cpu // len(tree), plain) for path in tree]


def _pool(draw: random.Random, path: str, part: int, plain: bool) -> dict[str, Any]:
    cpu = 0 if path.count("/") > 1 else draw.choice([0, 0, part // 2, part])
    reserved = {"cpu": cpu, "memory": f"{cpu}GiB"}
    pool: dict[str, Any] = {"path": path, "reservation": reserved, "share": draw.choice([0, 1, 1, 1, 2, 3])}
    if plain:
        return pool
    if draw.random() < 0.3:
        pool["limit"] = {"cpu": cpu + draw.randint(2, 6)}
    if cpu and draw.random() < 0.2:
        pool["static"] = ["cpu"]
    if draw.random() < 0.2:
        pool["controllers_percent"] = draw.choice([25, 50])
    if draw.random() < 0.2:
        pool["preemption_delay"] = draw.choice(["10m", "never"])
    return pool


def _job(draw: random.Random, job_id: str, leaves: list[str], largest: int, plain: bool) -> dict[str, Any]:
    cpu = min(draw.choice((*SIZES, largest)), largest)
    job: dict[str, Any] = {
        "job_id": job_id,
        "at": "0s" if draw.random() < 0.3 else _minute(draw),
        "pool": draw.choice(leaves),
        "instances": draw.choice([1, 2, 4, 8, 20, 60]),
        "priority": draw.choice([0, 0, 0, 1, 2]),
        "strategy": draw.choice(["pack", "pack", "spread"]),
        "resources": {"cpu": cpu},
        "sim": {"duration": draw.choice(["30s", "2m", "5m", "20m", "50m", "100h"])},
    }
    if draw.random() < 0.15:
        job["constraints"] = [{"attribute": "kind", "values": ["h0"]}]
    kind = draw.random()
    if kind < 0.3:
        size = draw.randint(2, 6)
        return job | {"instances": size, "gang": {"min": size}}
    if plain:
        return job
    if kind < 0.4:
        most = {"max_unavailable": draw.choice([0, 1, 2])}
        return job | {"kind": "stateless", "instances": draw.randint(2, 6), "sla": most, "sim": {"duration": "100h"}}
    if kind < 0.5:
        return job | {"preemptible": False}
    if kind < 0.6:
        return job | {"controller": True}
    return job | ({"on_preempt": "fail"} if kind < 0.65 else {})


def _events(
    draw: random.Random, jobs: list[dict[str, Any]], pools: list[dict[str, Any]], leaves: list[str], plain: bool
) -> list[dict[str, Any]]:
    """Draws further actions of users and operators."""
    events: list[dict[str, Any]] = []
    if draw.random() < 0.3:
        events.append({"at": _minute(draw), "stop": draw.choice(jobs)["job_id"]})
    if draw.random() < 0.3:
        change = {"job_id": draw.choice(jobs)["job_id"], "priority": draw.randrange(4)}
        events.append({"at": _minute(draw), "priority": change})
    if not plain and draw.random() < 0.2:
        pool = next(pool for pool in pools if pool["path"] == draw.choice(leaves[:1]))
        closed = draw.randint(1, ARRIVALS_MIN - 20)
        events.append({"at": f"{closed}m", "pool": pool | {"closed": True}})
        events.append({"at": f"{closed + draw.randint(1, 20)}m", "pool": pool})
    return events
