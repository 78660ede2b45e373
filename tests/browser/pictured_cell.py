"""The cell in the pictures of docs/ui.md: an afternoon of 60 hosts, simulated. Everything follows from a seed."""

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.browser.cells import Shown, simulated

SEED = 26
END_MIN = 180
RACKS, IN_RACK = 6, 10
SERVICE = {"kind": "stateless", "sla": {"max_unavailable": 6}, "update": {"batch": 4},
           "sim": {"duration": "24h", "ready": "20s"}}  # fmt: skip

TILES = {**SERVICE, "job_id": "tile-server", "owner": "maps-team", "labels": {"tier": "front"}}


@contextmanager
def pictured(folder: Path) -> Iterator[Shown]:
    """The cell at its end."""
    with simulated(folder, json.dumps(day())) as cell:
        yield cell


def day() -> dict[str, Any]:
    """The scenario."""
    return {"name": "day", "seed": SEED, "end": f"{END_MIN}m", "hosts": hosts(), "pools": pools(), "jobs": jobs(),
            "events": events()}  # fmt: skip


def hosts() -> list[dict[str, Any]]:
    """Racks of equal hosts, those of the last with GPUs."""
    out = []
    for rack in range(1, RACKS + 1):
        resources = {"cpu": 32, "memory": "128GiB"} | ({"gpu": 8} if rack == RACKS else {})
        disk = "nvme" if rack % 2 else "ssd"
        out.append({"name": f"r{rack:02}", "count": IN_RACK, "resources": resources,
                    "attributes": {"rack": f"r{rack:02}", "disk": disk}})  # fmt: skip
    return out


def pools() -> list[dict[str, Any]]:
    """Teams with a reservation each, and their pools."""
    shares = {"maps": 700, "search": 600, "research": 250, "batch": 150}
    out: list[dict[str, Any]] = [
        {"path": f"/{team}", "reservation": {"cpu": cpu}, "share": {"cpu": cpu}, "owners": [f"{team}-team"]}
        for team, cpu in shares.items()
    ]
    below = {"maps/tiles": 500, "maps/traffic": 160, "search/web": 480, "search/index": 100, "research/vision": 200,
             "research/robotics": 40, "batch/logs": 75, "batch/etl": 75}  # fmt: skip
    return out + [{"path": f"/{path}", "reservation": {"cpu": cpu}} for path, cpu in below.items()]


def jobs() -> list[dict[str, Any]]:
    """Services that run all day, and batch jobs that come and go."""
    draw = random.Random(SEED)
    out: list[dict[str, Any]] = [
        {**SERVICE, **task("search/web", 120, 4), "job_id": "search-frontend", "owner": "search-team"},
        {**TILES, **task("maps/tiles", 75, 8)},
        {**SERVICE, **task("maps/traffic", 40, 4), "job_id": "traffic-live", "owner": "maps-team"},
    ]  # fmt: skip
    for number in range(END_MIN // 6):
        pool, owner = draw.choice([("batch/logs", "logs"), ("batch/etl", "etl"), ("search/index", "search-team")])
        sim = {"draw": {"lognormal": {"median": "11m", "p90": "25m"}}}
        count = draw.randrange(10, 60)
        out.append({**task(pool, count, draw.choice([4, 8])), "job_id": f"{pool.partition('/')[2]}-{number:03}",
                    "at": f"{number * 6}m", "owner": owner, "sim": sim, "retries": {"max": 2}})  # fmt: skip
    for number in range(END_MIN // 16):
        gang = draw.choice([4, 8, 12])
        sim = {"duration": f"{draw.randrange(20, 70)}m"}
        out.append({**task("research/vision", gang, 8), "job_id": f"vision-{number:02}", "at": f"{number * 16 + 3}m",
                    "gang": {"min": gang}, "owner": "research-team", "sim": sim})  # fmt: skip
    nowhere = [{"attribute": "disk", "values": ["nvme"]}, {"attribute": "rack", "values": ["r09"]}]
    out.append({**task("research/robotics", 12, 2), "job_id": "lidar-fuse", "at": f"{END_MIN - 70}m",
                "constraints": nowhere})  # fmt: skip
    out.append({**task("batch/etl", 24, 1), "job_id": "clicks-nightly", "at": f"{END_MIN - 90}m", "owner": "etl",
                "sim": {"duration": "2m", "exit_code": 137}})  # fmt: skip
    return out


def task(pool: str, instances: int, cpu: int) -> dict[str, Any]:
    """A pool, and what so many tasks ask."""
    return {"pool": f"/{pool}", "instances": instances, "resources": {"cpu": cpu, "memory": f"{2 * cpu}GiB"}}


def events() -> list[dict[str, Any]]:
    """A rack is lost and comes back; a limit is cut by half; a machine is killed; a service gets a new version."""
    after = lambda minutes: f"{END_MIN - minutes}m"  # noqa: E731
    return [
        {"at": after(160), "fails": "r03"},
        {"at": after(125), "returns": "r03"},
        {"at": after(140), "lose": "entitlement"},
        {"at": after(139), "heal": "entitlement"},
        {"at": after(100), "pool": {"path": "/maps/tiles", "reservation": {"cpu": 500}, "limit": {"cpu": 640}}},
        {"at": after(95), "stop": "traffic-live"},
        {"at": after(60), "silent": "r05-7"},
        {"at": after(3), "update": {**TILES, **task("maps/tiles", 105, 8), "env": {"RELEASE": "47"}}},
    ]  # fmt: skip
