"""A scenario by seed: services with SLAs of all forms and batch work, on hosts that operators maintain meanwhile."""

import random
from collections.abc import Iterator
from typing import Any

from events.topics import MACHINES
from paceline.simulate.scenario.scenario import Scenario

ACT_MS = 20_000
"""So long a scenario lasts for each thing that users do."""
HOST_CPU = 4
POOLS = ("/a", "/a/x", "/b")
LEAVES = ("/a/x", "/b")


def draw_maintenance(seed: int, acts: int, hosts: int = 8) -> Scenario:
    """Users that do so many things, on so many hosts in racks of two. In half of the scenarios batch tasks fill nearly
    all that services leave.
    """
    draw = random.Random(f"{seed}/maintenance")
    end = acts * ACT_MS
    services = [_service(draw, f"web-{number}", end) for number in range(max(3, hosts // 2))]
    batch = [_batch(draw, f"batch-{number}", end) for number in range(acts // 8)]
    if draw.random() < 0.5:
        batch.append(_filler(draw, hosts))
    events = [event for service in services for event in _life(draw, service)]
    events += [*_lost_hosts(draw, hosts, end), *_lost_machines(draw, end), *_drains(draw, hosts, end)]
    events += _campaigns(random.Random(f"{seed}/campaigns"), hosts, end)
    events += _windows(random.Random(f"{seed}/windows"), hosts, end)
    events += _conditions(random.Random(f"{seed}/conditions"), hosts, end)
    events += _groups(random.Random(f"{seed}/groups"), services, end)
    return Scenario.model_validate(
        {
            "name": f"maintenance-{seed}",
            "seed": seed,
            "end": f"{end}ms",
            "cell": {
                "preemption_delay": draw.choice(["0s", "5s"]),
                "host_lost_after": draw.choice(["1m", "5m"]),
                "drain_force": draw.random() < 0.7,
                "restart_backoff": "2s",
                "restart_backoff_max": "10s",
                "drain_after": "30s",
                "release_after": "20s",
            },
            "hosts": [_rack(number, min(2, hosts - 2 * number)) for number in range((hosts + 1) // 2)],
            "pools": [{"path": path, "share": draw.choice([1, 1, 2])} for path in POOLS],
            "jobs": services + batch,
            "events": [event for event in events if _at(event) < end],
        }
    )


def _rack(number: int, count: int) -> dict[str, Any]:
    resources = {"cpu": HOST_CPU, "memory": "8GiB"}
    attributes = {"rack": f"r{number}", "kind": "odd" if number % 2 else "even"}
    return {"name": f"r{number}", "count": count, "resources": resources, "attributes": attributes}


def _service(draw: random.Random, job_id: str, end: int) -> dict[str, Any]:
    """A service that goes on until somebody stops it."""
    kind = draw.choice(["stateless", "stateless", "stateless", "stateful", "daemon"])
    job: dict[str, Any] = {
        "at": f"{draw.randrange(end // 4)}ms",
        "job_id": job_id,
        "pool": draw.choice(LEAVES),
        "kind": kind,
        "resources": {"cpu": draw.choice(["100m", "400m"]), "memory": "64MiB"},
        "priority": draw.randrange(3),
        "update": {"batch": draw.choice([0, 1, 3]), "max_failures": 3, "healthy": draw.choice(["0s", "3s"])},
        "sim": {"duration": "10h", "ready": draw.choice(["0s", "1s", "4s"])},
    }
    if kind == "daemon":
        return job | {"sla": _sla(draw, 4)}
    instances = draw.choice([1, 2, 3, 5, 8])
    job |= {"instances": instances, "strategy": draw.choice(["pack", "spread"]), "preemptible": draw.random() < 0.5}
    if draw.random() < 0.2:
        job["sim"] = {"durations": ["10h", "40s"], "exit_code": 1}
    return job | {"sla": _sla(draw, instances, replaces=kind == "stateless")}


def _sla(draw: random.Random, instances: int, replaces: bool = False) -> dict[str, Any]:
    """An SLA of a job, of which it may have none. `replaces`: it may have its instances replaced first."""
    sla: dict[str, Any] = {}
    if draw.random() < 0.1:
        return sla
    bound = draw.random()
    if bound < 0.5:
        sla["max_unavailable"] = draw.randrange(min(instances, 3) + 1)
    elif bound < 0.75:
        sla["max_unavailable"] = draw.choice(["10%", "34%", "100%"])
    if bound > 0.4:
        sla["min_available"] = draw.choice(["50%", "66%", "90%", max(0, instances - 1)])
    if draw.random() < 0.3:
        sla["min_healthy_time"] = draw.choice(["5s", "30s"])
    if draw.random() < 0.2:
        sla["max_disruptions_per_hour"] = draw.choice([2, "50%"])
    if replaces and draw.random() < 0.3:
        sla |= {"replace": "before", "surge": draw.randrange(1, 3), "replace_wait": draw.choice(["10s", "2m"])}
    return sla


def _batch(draw: random.Random, job_id: str, end: int) -> dict[str, Any]:
    instances = draw.choice([1, 3, 8])
    gang = instances if draw.random() < 0.2 and instances > 1 else 0
    sla = _sla(draw, instances) if draw.random() < 0.3 else {}
    return {
        "at": f"{draw.randrange(end)}ms",
        "job_id": job_id,
        "pool": draw.choice(LEAVES),
        "instances": instances,
        "resources": {"cpu": draw.choice(["200m", "700m", "1500m"]), "memory": "64MiB"},
        "priority": draw.randrange(3),
        "preemptible": draw.random() < 0.8,
        "gang": {"min": gang},
        "retries": {"max": draw.randrange(3)},
        "sla": sla,
        "sim": {"duration": f"{draw.randrange(1000, 120_000)}ms", "exit_code": draw.choice([0, 0, 0, 1])},
    }


def _filler(draw: random.Random, hosts: int) -> dict[str, Any]:
    """Batch tasks on half of all that hosts offer: together with the others nearly all."""
    sim = {"duration": f"{draw.randrange(60_000, 600_000)}ms"}
    resources = {"cpu": HOST_CPU // 4, "memory": "16MiB"}
    return {"job_id": "filler", "pool": "/b", "instances": 2 * hosts, "resources": resources, "sim": sim}


def _life(draw: random.Random, service: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Updates and restarts of a service, each while the one before may still go on, another size, another SLA."""
    at, job_id = _at(service), service["job_id"]
    for number in range(draw.randrange(8)):
        at += draw.randrange(4000, 120_000)
        what = draw.random()
        if what < 0.4:
            yield {"at": f"{at}ms", "restart": {"job_id": job_id, "batch": draw.choice([0, 2])}}
        elif what < 0.9:
            service = {name: value for name, value in service.items() if name != "at"} | {"command": [f"v{number}"]}
            if "instances" in service and draw.random() < 0.3:
                service["instances"] = max(1, service["instances"] + draw.choice([-1, 2]))
                service["sla"] = _sla(draw, service["instances"], replaces=service["kind"] == "stateless")
            yield {"at": f"{at}ms", "update": service}
        else:
            yield {"at": f"{at}ms", "stop": job_id}
            yield {"at": f"{at + draw.randrange(30_000)}ms", "start": job_id}


def _lost_hosts(draw: random.Random, hosts: int, end: int) -> Iterator[dict[str, Any]]:
    """Some hosts are silent for a while, others are gone, for a while or for good."""
    for host_id in draw.sample(_host_ids(hosts), hosts // 4):
        at = draw.randrange(end // 4, end)
        yield {"at": f"{at}ms", draw.choice(["silent", "silent", "fails"]): host_id}
        if draw.random() < 0.8:
            yield {"at": f"{at + draw.randrange(1, 120_000)}ms", "returns": host_id}


def _drains(draw: random.Random, hosts: int, end: int) -> Iterator[dict[str, Any]]:
    """Operators cordon hosts, empty some, one by one or a rack, and take most of them back."""
    for _ in range(hosts // 2):
        name = draw.choice([*_host_ids(hosts), *(f"r{number}" for number in range((hosts + 1) // 2))])
        at = draw.randrange(end // 10, end)
        drain: dict[str, Any] = {"host": name, "batch": draw.choice(["wait", "wait", "move"])}
        if draw.random() < 0.6:
            drain |= {"deadline": draw.choice(["20s", "2m"]), "escalate": draw.choice(["wait", "preempt", "force"])}
            drain |= {"force_after": draw.choice(["0s", "1m"])} if drain["escalate"] == "force" else {}
        elif draw.random() < 0.1:
            drain["force"] = True
        yield {"at": f"{at}ms", **({"cordon": name} if draw.random() < 0.2 else {"drain": drain})}
        if draw.random() < 0.2:  # once more, in another way
            yield {"at": f"{at + draw.randrange(60_000)}ms", "drain": {"host": name, "batch": "move"}}
        if draw.random() < 0.8:
            yield {"at": f"{at + draw.randrange(1, 300_000)}ms", "restore": name}


def _campaigns(draw: random.Random, hosts: int, end: int) -> Iterator[dict[str, Any]]:
    """Campaigns, which may name the same hosts, are paused, go on or are aborted."""
    for number in range(draw.randrange(3)):
        name, at = f"campaign-{number}", draw.randrange(end // 2)
        plan: dict[str, Any] = {
            "maintenance_id": name,
            "hosts": {"ids": draw.sample(_host_ids(hosts), draw.randrange(2, hosts + 1))},
            "at_a_time": draw.choice([1, 2, 4]),
            "per_rack": draw.choice([0, 1]),
            "order": draw.choice(["paced", "cheapest", "name"]),
            "drain": {"batch": draw.choice(["wait", "move"])},
            "work": {"kind": "time", "duration": draw.choice(["5s", "30s"])},
            "max_failed": draw.choice([0, 2]),
            "stuck": draw.choice(["1m", "2h"]),
        }
        yield {"at": f"{at}ms", "campaign": {"start": plan}}
        for _ in range(draw.randrange(3)):
            at += draw.randrange(1, 120_000)
            yield {"at": f"{at}ms", "campaign": {draw.choice(["pause", "resume", "resume", "abort"]): name}}


def _windows(draw: random.Random, hosts: int, end: int) -> Iterator[dict[str, Any]]:
    """Windows that open every few minutes, which may share hosts, are edited and removed; some are for campaigns."""
    for number in range(draw.randrange(3)):
        name, at = f"window-{number}", draw.randrange(end // 2)
        window: dict[str, Any] = {
            "window_id": name,
            "hosts": {"ids": draw.sample(_host_ids(hosts), draw.randrange(1, hosts // 2 + 1))},
            "schedule": f"{draw.choice(['*/4', '*/5', '1-59/7'])} * * * *",
            "duration": draw.choice(["1m", "90s", "2m"]),
            "escalate": draw.choice(["preempt", "force", "cordon"]),
        }
        if window["escalate"] != "cordon":
            window["lead"] = draw.choice(["0s", "30s", "100s"])
        yield {"at": f"{at}ms", "window": {"set": window}}
        if draw.random() < 0.5:
            plan = {"maintenance_id": f"in-{name}", "hosts": window["hosts"], "window": name}
            work = {"kind": "time", "duration": "10s"}
            yield {"at": f"{at + 1000}ms", "campaign": {"start": {**plan, "work": work, "stuck": "1m"}}}
        if draw.random() < 0.5:
            at += draw.randrange(1, 300_000)
            edited = {"duration": "1m", "hosts": {"ids": draw.sample(_host_ids(hosts), 1)}}
            yield {"at": f"{at}ms", "window": {"set": {**window, **draw.choice([edited, {"schedule": "*/6 * * * *"}])}}}
        if draw.random() < 0.3:
            yield {"at": f"{at + draw.randrange(1, 300_000)}ms", "window": {"remove": name}}


def _conditions(draw: random.Random, hosts: int, end: int) -> Iterator[dict[str, Any]]:
    """Checks find something on some hosts, for seconds or minutes, here and there on all at once."""
    for name in ("disk-full", "smart"):
        everywhere = draw.random() < 0.1
        for host_id in _host_ids(hosts) if everywhere else draw.sample(_host_ids(hosts), draw.randrange(3)):
            at = draw.randrange(end)
            for _ in range(draw.choice([1, 1, 4])):  # it may flap
                ill = {"host": host_id, "name": name, "code": "EXIT_7"}
                yield {"at": f"{at}ms", "condition": ill}
                at += draw.choice([3_000, 100_000])
                yield {"at": f"{at}ms", "condition": {**ill, "passes": True}}
                at += draw.choice([1_000, 30_000])


def _groups(draw: random.Random, services: list[dict[str, Any]], end: int) -> Iterator[dict[str, Any]]:
    """Some services share a budget, which is set before or after they come, and may be set again."""
    members = [service for service in services if service["sla"] and draw.random() < 0.5]
    if draw.random() < 0.5 or len(members) < 2:
        return
    for service in members:
        service["sla"] = {**service["sla"], "group": "front"}
    for at in (draw.randrange(end // 4), draw.randrange(end))[: draw.choice([1, 2])]:
        yield {"at": f"{at}ms", "sla_group": {"group": "front", "max_unavailable": draw.choice([1, 2, "30%"])}}


def _lost_machines(draw: random.Random, end: int) -> Iterator[dict[str, Any]]:
    """The process of each machine is gone for a while, one after the other or at the same time."""
    for machine in MACHINES:
        at = draw.randrange(end)
        yield {"at": f"{at}ms", "lose": machine}
        yield {"at": f"{min(end - 1, at + draw.randrange(60_000))}ms", "heal": machine}


def _host_ids(hosts: int) -> list[str]:
    return [f"r{number // 2}-{number % 2 + 1}" for number in range(hosts)]


def _at(part: dict[str, Any]) -> int:
    return int(part["at"].removesuffix("ms"))
