"""The matrix of roles and routes: what each role is answered on each route about its own pool and about another one.

`python -m tests.projections.access.matrix > matrix.csv` writes the table that the test compares with the one here; read
what has changed in it before you commit it. `+`: it may; `-`: 403; `?`: as if it weren't there; `!`: 401.
"""

import csv
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import msgspec

from events.codes import Stage, Step
from events.records.entitlement import PoolAnswered
from events.records.hosts import HostVolumes, MaintenanceRequested, MaintenanceWindowSet
from events.records.lifecycle import SlaGroupSet
from events.records.parts import Actor, DrainPlan, MaintenancePlan, Volume
from events.records.placement import MaintenanceChanged, MaintenanceWindowChanged
from events.records.pools import CellConfigured, RoleBound, TokenIssued
from events.roles import ROLES
from events.time_zones import offsets_of
from paceline.client.proof import ISSUED
from projections.api import context
from tests.helpers.maintenance import by_fact, stage_of
from tests.helpers.signed import key_told, signed
from tests.helpers.written_cell import job
from tests.projections.api.test_job_plans import PLAN
from tests.projections.conftest import LISTEN, TOKEN, Api, CheckedClient

TABLE = Path(__file__).with_name("matrix.csv")
OWN, OTHER = "/maps", "/ads"
ROLES_OVER_ALL = ("operator", "auditor", "admin")
"""Roles that are bound to / here; the others to one pool."""
ACTORS = ("nobody", *ROLES, "cell")
UNSEEN = ("/livez", "/readyz", "/problems/{code}", "/v1/events")
"""Routes that answer anybody, and the stream, which has no end."""
ACCESS = {"binding_id": "viewer", "token_id": "viewer"}
POOL_OF = {"own": OWN, "other": OTHER}
METHODS = ("get", "post", "put", "patch", "delete")
AWAY = ("NO_GATEWAY", "NO_REPLAYS", "NO_WHAT_IFS")
"""The codes of parts that aren't here."""
UNKNOWN = ("NO_SUCH_POOL", "VERSION_CONFLICT")
"""The codes that are answered about what isn't there, other than 404."""
JOB = {"job_id": "new", "command": ["true"], "resources": {"cpu": "1m"}}
HOSTS = {"hosts": {"ids": ["{host}"]}}
BODIES: dict[tuple[str, str], Any] = {
    ("PATCH", "/v1/cell/settings"): {"preemption_delay": "1m"},
    ("POST", "/v1/host-cordons"): HOSTS,
    ("POST", "/v1/host-drains"): HOSTS,
    ("POST", "/v1/host-invitations"): {"host_id": "new"},
    ("POST", "/v1/host-resumptions"): HOSTS,
    ("POST", "/v1/host-uncordons"): HOSTS,
    ("POST", "/v1/hosts/{host_id}/taints"): {"key": "slow"},
    ("POST", "/v1/hosts/{host_id}/devices"): {"device": "0"},
    ("POST", "/v1/hosts/{host_id}/volume-removals"): {"job_id": "{job}", "instance": 0, "name": "data"},
    ("POST", "/v1/bindings"): {"subject": "eve", "role": "viewer", "pool": "{pool}"},
    ("POST", "/v1/tokens"): {"subject": "eve"},
    ("POST", "/v1/job-batches"): {"jobs": [{**JOB, "pool": "{pool}"}]},
    ("POST", "/v1/job-plans"): {"jobs": [{**JOB, "pool": "{pool}"}]},
    ("POST", "/v1/jobs"): {**JOB, "pool": "{pool}"},
    ("POST", "/v1/jobs/{job_id}/prefetches"): {"image": f"busybox@sha256:{'0' * 64}"},
    ("POST", "/v1/jobs/{job_id}/priorities"): {"priority": 3},
    ("POST", "/v1/jobs/{job_id}/rebalances"): {},
    ("POST", "/v1/jobs/{job_id}/starts"): {"instances": "0"},
    ("POST", "/v1/jobs/{job_id}/tasks/{instance}/execs"): {"command": ["true"]},
    ("POST", "/v1/jobs/{job_id}/updates"): {"spec": {**JOB, "job_id": "{job}", "pool": "{pool}"}},
    ("PUT", "/v1/host-pools/{name}"): {},
    ("POST", "/v1/host-pools/{name}/assignments"): HOSTS,
    ("POST", "/v1/host-pools/{name}/moves"): {"source": "shared", "count": 1},
    ("PUT", "/v1/maintenance-windows/{window_id}"): {"schedule": "0 2 * * *", "duration": "1h", **HOSTS},
    ("POST", "/v1/maintenances"): {"maintenance_id": "other", **HOSTS},
    ("POST", "/v1/pool-plans"): {"pools": [{"path": "{pool}/x"}]},
    ("PUT", "/v1/pools/{path}"): {"reservation": {}},
    ("PATCH", "/v1/pools/{path}"): {"reservation": {}},
    ("POST", "/v1/what-ifs"): {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z", "changes": ["/x:share=2"]},
    ("PUT", "/v1/secrets/{name}"): {"value": "eA=="},
    ("PUT", "/v1/sla-groups/{name}"): {"max_unavailable": 1},
}
"""Bodies of writes that need one; {job} and {pool} are those asked about."""


def token_of(role: str) -> str:
    """The token that somebody with a role shows."""
    return f"{ISSUED}{role}_{'x' * 43}"


class Store:
    """A store of secrets with one of each pool."""

    async def versions(self) -> list[dict[str, Any]]:
        return [await self.find(name) for name in POOL_OF]

    async def find(self, name: str, version: int = 0) -> dict[str, Any]:
        return {"name": name, "version": 1, "digest": "d", "put_ms": 1, "pool": POOL_OF[name], "owner": "submitter"}

    async def put(self, name: str, value: bytes, actor: Actor | None = None, pool: str = "") -> dict[str, Any]:
        return await self.find(name)

    async def delete(self, name: str, version: int = 0, actor: Actor | None = None) -> list[int]:
        return [1]


class Matrix:
    """A cell with two pools, a job in each, and somebody with each role; the submitter has submitted the one."""

    def __init__(self, folder: Path) -> None:
        self.api = Api(folder, secrets=Store())
        for path in (OWN, OTHER, f"{OWN}/x", f"{OTHER}/x"):
            self.api.pool(path)
        for role in ROLES:
            pool = "/" if role in ROLES_OVER_ALL else OWN
            self._done(RoleBound(command_id=f"b-{role}", binding_id=role, subject=role, role=role, pool=pool))
            digest = sha256(token_of(role).encode()).digest()
            self._done(TokenIssued(command_id=f"t-{role}", token_id=role, subject=role, token_hash=digest))
        self._done(key_told())
        self._done(CellConfigured(command_id="c", access="roles", exec=True))
        cell = self.api.cell
        mine, others = ("own", f"{OWN}/x", "submitter", "h1"), ("other", f"{OTHER}/x", "somebody", "h2")
        for job_id, pool, subject, host in (mine, others):
            cell.host(host)
            fact = signed(msgspec.structs.replace(job(job_id, pool=pool), actor=Actor(subject, "token")))
            cell.accept(job_id, cell.fact(fact), pool=pool)
            cell.run(job_id, host_id=host)
            cell.fact(HostVolumes(host_id=host, session=1, volumes=(Volume(job_id, 0, "data", 1000),)))
        cell.decide("lifecycle", SlaGroupSet(group="front", max_unavailable=1))
        self._maintenance()
        self.api.plans.answer = PLAN
        self.api.fold()

    def _maintenance(self) -> None:
        """A campaign over both hosts, and a window."""
        cell, hosts = self.api.cell, ("h1", "h2")
        plan = MaintenancePlan(drain=DrainPlan())
        at = cell.fact(MaintenanceRequested(maintenance_id="kernel", command_id="m", host_ids=hosts, plan=plan))
        begins = MaintenanceChanged(
            maintenance_id="kernel", state="RUNNING", code="ASKED", host_ids=hosts, cause=by_fact(at)
        )
        mine = {"by": "campaign", "source": "kernel", "code": "CAMPAIGN", "cause": by_fact(at)}
        cell.decide("placement", begins, stage_of(Stage.UP, *hosts, step=Step.PENDING, **mine))
        window = {"window_id": "night", "schedule": "0 2 * * 2", "duration_ms": 3_600_000}
        zone = offsets_of("UTC", 1_790_000_000)
        at = cell.fact(MaintenanceWindowSet(command_id="w", host_ids=hosts, zone=zone, **window))
        times = {"opens_ms": 1_795_482_000_000, "closes_ms": 1_795_485_600_000}
        cell.decide("placement", MaintenanceWindowChanged(window_id="night", state="SET", cause=by_fact(at), **times))

    def _done(self, fact: Any) -> None:
        at = self.api.cell.fact(fact)
        answer = PoolAnswered(path="/", pools_offset=at, command_id=fact.command_id, code="DONE")
        self.api.cell.decide("entitlement", answer)
        self.api.fold()

    def routes(self) -> Iterator[tuple[str, str]]:
        """Methods and paths of all routes of the description, but for those that answer anybody, and the stream."""
        for path, methods in self.api.client.get("/openapi.json").json()["paths"].items():
            if path not in UNSEEN:
                yield from ((method.upper(), path) for method in methods if method in METHODS)

    def answer(self, actor: str, method: str, path: str, about: str) -> str:
        """What an actor is answered about its own pool, or another one."""
        pool, job_id, host = (OWN, "own", "h1") if about == "own" else (OTHER, "other", "h2")
        names = {"job_id": job_id, "path": f"{pool[1:]}/x", "host_id": host, "instance": "0"}
        names["name"] = job_id if "secrets" in path else "shared" if "host-pools" in path else "front"
        others = {
            "machine": "entitlement",
            "number": "1",
            "version": "1",
            "exec_id": "e",
            "what_if_id": "w",
            "subject": job_id,
        }
        url = path.format(**names, **others, maintenance_id="kernel", window_id="night", **ACCESS)
        token = TOKEN if actor == "cell" else token_of(actor)
        headers = {"If-Match": "*"} if method in ("PUT", "PATCH", "DELETE") else {}
        headers |= {} if actor == "nobody" else {"Authorization": f"Bearer {token}"}
        body = None
        if method in ("POST", "PUT", "PATCH"):
            headers["Content-Type"] = "application/json"
            body = msgspec.json.encode(BODIES.get((method, path), {})).decode()
            body = body.replace("{job}", job_id).replace("{pool}", f"{pool}/x").replace("{host}", host)
        client = CheckedClient(self.api.app, f"http://{LISTEN}", raise_server_exceptions=False)
        with patch.object(context, "POOL_WAIT_S", 0):  # nobody answers the facts here
            return mark_of(path, client.request(method, url, content=body, headers=headers))

    def rows(self) -> Iterator[list[str]]:
        """The lines of the table."""
        columns = [(actor, about) for actor in ACTORS for about in ("own", "other")]
        yield ["method", "route", *map(" ".join, columns)]
        for method, path in self.routes():
            yield [method, path, *(self.answer(actor, method, path, about) for actor, about in columns)]


def mark_of(path: str, answer: Any) -> str:
    """The mark of an answer."""
    status, told = answer.status_code, {}
    if "json" in answer.headers.get("content-type", ""):
        told = answer.json()
    if path == "/v1/job-batches" and status < 300:
        status, told = told["jobs"][0]["status"], told["jobs"][0].get("problem", {})
    if told.get("code") in AWAY:
        return "+"  # somebody would be asked
    if told.get("code") in UNKNOWN:
        return "?"
    return {401: "!", 404: "?", 403: "-"}.get(status, "+" if status < 500 else str(status))


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        csv.writer(sys.stdout, lineterminator="\n").writerows(Matrix(Path(folder)).rows())
