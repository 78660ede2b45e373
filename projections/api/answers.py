"""The types of the answers of the API, as its description has them. The types are those of the client; queries make
values of them (decision 064).
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from paceline.client.cause_models import Causes
from paceline.client.cell_models import (
    CellInfo,
    CellOperations,
    CellSeries,
    LogPage,
    Marks,
    PoolSeries,
    Readiness,
    RoundReplay,
    SkippedRecord,
)
from paceline.client.explanation_models import Explanation
from paceline.client.host_models import Host, Volume
from paceline.client.models import (
    Answer,
    Diff,
    HistoryEntry,
    Job,
    JobAnswer,
    JobCheck,
    Run,
    SubmittedJob,
    Task,
    Update,
    UpdateCheck,
    UpdateSteps,
    Version,
)
from paceline.client.pool_models import Entitlement, Pool, PoolAnswer, PoolPlans, PoolTree, Queue

REF = "#/components/schemas/{name}"


class Body(NamedTuple):
    """The body of an answer: a value of a type or, where `field` is given, an object with a list of them there."""

    type: Any
    field: str = ""
    paged: bool = False
    """Whether `next_page_token` leads on."""
    model: str = ""
    """The name of the specification that it has the form of."""

    def schema(self, of_type: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON schema of the body; `of_type`: that of the type."""
        if not self.field:
            return {"$ref": REF.format(name=self.model)} if self.model else dict(of_type)
        properties: dict[str, Any] = {self.field: {"type": "array", "items": of_type}}
        if self.paged:
            properties["next_page_token"] = {"type": "string", "description": "Empty on the last page."}
        return {"type": "object", "properties": properties, "required": list(properties)}


ANSWERS: Mapping[str, Body] = {
    "/livez": Body(dict[str, bool]),
    "/readyz": Body(Readiness),
    "/v1/causes/{subject}": Body(Causes),
    "/v1/cell": Body(CellInfo),
    "/v1/cell/operations": Body(CellOperations),
    "/v1/cell/settings": Body(dict[str, Any], model="CellSpec"),
    "/v1/entitlements/{path}": Body(Entitlement),
    "/v1/hosts": Body(Host, "hosts", paged=True),
    "/v1/hosts/{host_id}": Body(Host),
    "/v1/hosts/{host_id}/tasks": Body(Task, "tasks", paged=True),
    "/v1/jobs": Body(Job, "jobs", paged=True),
    "/v1/jobs/{job_id}": Body(Job),
    "/v1/jobs/{job_id}/diff": Body(Diff),
    "/v1/jobs/{job_id}/explanation": Body(Explanation),
    "/v1/jobs/{job_id}/history": Body(HistoryEntry, "events", paged=True),
    "/v1/jobs/{job_id}/tasks": Body(Task, "tasks", paged=True),
    "/v1/jobs/{job_id}/tasks/{instance}/runs": Body(Run, "runs"),
    "/v1/jobs/{job_id}/updates": Body(Update, "updates"),
    "/v1/jobs/{job_id}/updates/{number}": Body(Update),
    "/v1/jobs/{job_id}/updates/{number}/steps": Body(UpdateSteps, "steps", paged=True),
    "/v1/jobs/{job_id}/versions": Body(Version, "versions"),
    "/v1/jobs/{job_id}/versions/{version}": Body(Version),
    "/v1/log": Body(LogPage),
    "/v1/log/quarantine": Body(SkippedRecord, "records", paged=True),
    "/v1/marks": Body(Marks),
    "/v1/pool-series/{path}": Body(PoolSeries),
    "/v1/pools": Body(PoolTree),
    "/v1/pools/{path}": Body(Pool),
    "/v1/queues/{path}": Body(Queue),
    "/v1/rounds/{machine}/{number}": Body(dict[str, Any]),
    "/v1/series": Body(CellSeries),
    "/v1/throttled-tasks": Body(Task, "tasks", paged=True),
    "/v1/volumes": Body(Volume, "volumes", paged=True),
}
"""By path, of those that answer with JSON."""


WRITES: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "POST /v1/jobs": {"200": (Job, JobCheck), "202": (SubmittedJob,)},
    "POST /v1/jobs/{job_id}/updates": {"200": (JobAnswer, UpdateCheck), "202": (Answer,)},
    "POST /v1/pool-plans": {"200": (PoolPlans,)},
    "POST /v1/rounds/{machine}/{number}/replays": {"200": (RoundReplay,), "202": (RoundReplay,)},
}
"""By method and path the types of answers to writes and dry runs that differ from those to commands."""


def of_write(method: str, path: str) -> Mapping[str, tuple[Any, ...]]:
    """The types that a write may be answered with, by status."""
    command = JobAnswer if path.startswith("/v1/jobs/") else PoolAnswer if path.startswith("/v1/pools/") else Answer
    return WRITES.get(f"{method} {path}") or {"200": (command,), "202": (command,)}


def describe(paths: Mapping[str, Mapping[str, Any]], components: dict[str, Any]) -> None:
    """Adds the schemas of answers to the description of paths, and their types to its components."""
    bodies = [(paths[path]["get"]["responses"]["200"], body) for path, body in ANSWERS.items() if path in paths]
    schemas, types = _schemas([body.type for _, body in bodies])
    for (answer, body), schema in zip(bodies, schemas, strict=True):
        answer["content"] = {"application/json": {"schema": body.schema(schema)}}
    components.update(types)
    for path, methods in paths.items():
        for method in sorted(methods.keys() & {"delete", "patch", "post", "put"}):
            for status, kinds in of_write(method.upper(), path).items():
                schemas, types = _schemas(kinds)
                components.update(types)
                schema = schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}
                answer = methods[method]["responses"].setdefault(status, {"description": "Decided."})
                answer["content"] = {"application/json": {"schema": schema}}


def _schemas(types: Iterable[Any]) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    schemas, components = msgspec.json.schema_components(types, ref_template=REF)
    for component in components.values():
        component["description"] = " ".join(component.get("description", "").split())
    for name in {"Job", "Version"} & components.keys():
        components[name]["properties"]["spec"] = {"$ref": REF.format(name="JobSpec")}
    return schemas, components
