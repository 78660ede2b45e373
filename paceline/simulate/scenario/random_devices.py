"""Draws a scenario by seed: jobs ask for devices, shares of them, cores and alternatives. Devices of hosts fail, are
disabled, are split into other parts, or are known as an amount alone.
"""

import random
from collections.abc import Iterator
from typing import Any

from paceline.simulate.scenario.scenario import Scenario

ACT_MS = 2000
"""So long a scenario lasts for each thing that users do."""
POOLS = ("/a", "/b")
CARDS = 4
WITHIN = ("link_group", "numa")


def draw_devices(seed: int, acts: int) -> Scenario:
    """Users that do so many things, on four groups of hosts in two host pools."""
    draw = random.Random(f"{seed}/devices")
    end = acts * ACT_MS
    jobs = [_job(draw, f"job-{number}", draw.randrange(end)) for number in range(acts)]
    events = [event for job in jobs if draw.random() < 0.2 for event in [_stop(draw, job, end)]]
    for _ in range(max(2, acts // 4)):
        events.append({"at": f"{draw.randrange(end)}ms", **_trouble(draw)})
    events += _drains(draw, end)
    return Scenario.model_validate(
        {
            "name": f"devices-{seed}",
            "seed": seed,
            "end": f"{end}ms",
            "cell": {
                "preemption_delay": draw.choice(["0s", "5s"]),
                "host_lost_after": draw.choice(["1m", "5m"]),
                "drain_force": draw.random() < 0.5,
            },
            "hosts": [
                _group("cards", 2) | {"devices": _cards(draw), "cores": {"nodes": 2, "cores": 4}},
                _group("parts", 1) | {"devices": _parts(draw), "cores": {"nodes": 1, "cores": 4}},
                _group("sums", 1, gpu=draw.choice([2, "2500m"])) | {"host_pool": "own"},
                _group("plain", 1) | {"cores": {"nodes": 2, "cores": 3}},
            ],
            "host_pools": [{"name": "own"}],
            "pools": [{"path": path, "share": draw.choice([1, 2]), **_pool(draw)} for path in POOLS],
            "jobs": jobs,
            "events": events,
        }
    )


def _group(name: str, count: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "count": count, "resources": {"cpu": 8, "memory": "8GiB", **more}}


def _pool(draw: random.Random) -> dict[str, Any]:
    pools = draw.choice([{}, {}, {"host_pools": ["own", "shared"]}])
    return {"reservation": {"cpu": draw.choice([0, 4]), "gpu": draw.choice([0, 2, 4])}, **pools}


def _cards(draw: random.Random) -> list[dict[str, Any]]:
    """Cards of two NUMA nodes and link groups; some are ill."""
    model = draw.choice(["a100", "h100"])
    return [
        {
            "id": f"g{number}",
            "kind": "gpu",
            "model": model,
            "memory": f"{draw.choice([16, 24])}GiB",
            "numa": number * 2 // CARDS,
            "link_group": f"l{number * 2 // CARDS}",
            "healthy": draw.random() < 0.9,
        }
        for number in range(CARDS)
    ]


def _parts(draw: random.Random) -> list[dict[str, Any]]:
    """A card with parts that exclude each other, and one without."""
    parts: dict[str, dict[str, Any]] = {
        name: {"id": f"m-{name}", "kind": f"gpu/{name}", "of": "m"} for name in ("7g", "4g", "2g")
    }
    parts["7g"]["excludes"] = ["m-4g", "m-2g"]
    some = [part for part in parts.values() if draw.random() < 0.8]
    ids = {part["id"] for part in some}
    for part in some:
        part["excludes"] = [name for name in part.get("excludes", ()) if name in ids]
    cards = [{"id": name, "kind": "gpu", "model": "a100", "memory": "24GiB"} for name in ("m", "n")]
    return [*cards, *some]


def _asks(draw: random.Random) -> dict[str, Any]:
    """Draws a request of a task."""
    what = draw.choice(["whole", "whole", "share", "share", "memory", "part", "cores", "both", "none"])
    devices: dict[str, Any] = {}
    if what in ("whole", "both") and draw.random() < 0.4:
        devices["within"] = draw.choice(WITHIN)
    if what != "part" and what != "cores" and draw.random() < 0.2:
        devices["models"] = {"gpu": draw.choice([["a100"], ["h100", "a100"]])}
    request: dict[str, Any] = {"resources": {"cpu": "100m", "memory": "64MiB"}}
    match what:
        case "whole":
            request["resources"]["gpu"] = draw.choice([1, 2, 2, 4])
        case "share":
            request["resources"]["gpu"] = draw.choice(["300m", "500m", "600m"])
        case "memory":
            request["resources"]["gpu_memory"] = draw.choice(["6GiB", "10GiB", "12GiB"])
        case "part":
            request["resources"][draw.choice(["gpu/7g", "gpu/4g", "gpu/2g"])] = 1
        case "cores":
            request["cores"] = draw.choice([1, 3, 5])
        case "both":
            request["resources"]["gpu"] = draw.choice([1, 2])
            request["cores"] = draw.choice([1, 2])
    if "cores" in request:
        request["resources"]["cpu"] = request["cores"]
    asks_gpu = {"gpu", "gpu_memory"} & request["resources"].keys()
    return request | ({"devices": devices} if devices and asks_gpu else {})


def _job(draw: random.Random, job_id: str, at: int) -> dict[str, Any]:
    instances = draw.choice([1, 2, 4])
    job: dict[str, Any] = {
        "at": f"{at}ms",
        "job_id": job_id,
        "pool": draw.choice(POOLS),
        "instances": instances,
        "priority": draw.randrange(3),
        "preemptible": draw.random() < 0.8,
        "sim": {"duration": f"{draw.randrange(60_000)}ms", "exit_code": draw.choice([0, 0, 1])},
        **_asks(draw),
    }
    if draw.random() < 0.25:
        requests = [_asks(draw) for _ in range(draw.choice([2, 3]))]
        job["any_of"] = [request for request in requests if request not in requests[: requests.index(request)]]
        job |= {"resources": {"memory": "64MiB"}}
        job.pop("devices", None)
        job.pop("cores", None)
    if draw.random() < 0.25:
        return job | {"kind": "stateless", "sla": {"max_unavailable": 1}, "update": {"healthy": "0s"}}
    gang = instances if instances > 1 and draw.random() < 0.3 else 0
    return job | {"gang": {"min": gang}, "retries": {"max": draw.randrange(3)}}


def _stop(draw: random.Random, job: dict[str, Any], end: int) -> dict[str, Any]:
    at = int(job["at"].removesuffix("ms"))
    return {"at": f"{draw.randrange(at, end)}ms", "stop": job["job_id"]}


def _trouble(draw: random.Random) -> dict[str, Any]:
    """Draws an event about the devices of a host."""
    what = draw.random()
    size: dict[str, Any] = {"cpu": 8, "memory": "8GiB"}
    if what < 0.3:
        cards = [card for card in _cards(draw) if draw.random() < 0.8]
        return {"offers": {"host": f"cards-{draw.choice([1, 2])}", "resources": size, "devices": cards}}
    if what < 0.5:
        return {"offers": {"host": "parts-1", "resources": size, "devices": _parts(draw)}}
    if what < 0.6:
        return {"offers": {"host": "sums-1", "resources": size | {"gpu": draw.choice([1, 2, 3])}}}
    if what < 0.7:
        return {"offers": {"host": "plain-1", "resources": size, "cores": {"nodes": 1, "cores": draw.choice([2, 6])}}}
    host, device = draw.choice([("cards-1", "g0"), ("cards-2", "g3"), ("parts-1", "m"), ("parts-1", "m-2g")])
    request = {"host": host, "device": device, "disabled": draw.random() < 0.6, "ends": draw.random() < 0.5}
    return {"device": request}


def _drains(draw: random.Random, end: int) -> Iterator[dict[str, Any]]:
    """A host is emptied, and perhaps given back; another one is silent for a while."""
    if draw.random() < 0.5:
        host, at = draw.choice(["cards-1", "parts-1"]), draw.randrange(end)
        yield {"at": f"{at}ms", "drain": {"host": host}}
        yield {"at": f"{draw.randrange(at, end)}ms", "restore": host}
    if draw.random() < 0.3:
        at = draw.randrange(end)
        yield {"at": f"{at}ms", "silent": "cards-2"}
        yield {"at": f"{draw.randrange(at, end)}ms", "returns": "cards-2"}
