"""The type of the answer of each GET, as the API's description has it. The types are those of the client; queries make
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
    SkippedRecord,
)
from paceline.client.explanation_models import Explanation
from paceline.client.host_models import Host, Volume
from paceline.client.models import Diff, HistoryEntry, Job, Run, Task, Update, UpdateSteps, Version
from paceline.client.pool_models import Entitlement, Pool, PoolTree, Queue

REF = "#/components/schemas/{name}"


class Answer(NamedTuple):
    """The body of an answer: a value of a type or, where `field` is given, an object with a list of them there."""

    type: Any
    field: str = ""
    paged: bool = False
    """Whether `next_page_token` leads on."""

    def schema(self, of_type: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON schema of the body; `of_type`: that of the type."""
        if not self.field:
            return dict(of_type)
        properties: dict[str, Any] = {self.field: {"type": "array", "items": of_type}}
        if self.paged:
            properties["next_page_token"] = {"type": "string", "description": "Empty on the last page."}
        return {"type": "object", "properties": properties, "required": list(properties)}


ANSWERS: Mapping[str, Answer] = {
    "/livez": Answer(dict[str, bool]),
    "/readyz": Answer(Readiness),
    "/v1/causes/{subject}": Answer(Causes),
    "/v1/cell": Answer(CellInfo),
    "/v1/cell/operations": Answer(CellOperations),
    "/v1/cell/settings": Answer(dict[str, Any]),
    "/v1/entitlements/{path}": Answer(Entitlement),
    "/v1/hosts": Answer(Host, "hosts", paged=True),
    "/v1/hosts/{host_id}": Answer(Host),
    "/v1/hosts/{host_id}/tasks": Answer(Task, "tasks", paged=True),
    "/v1/jobs": Answer(Job, "jobs", paged=True),
    "/v1/jobs/{job_id}": Answer(Job),
    "/v1/jobs/{job_id}/diff": Answer(Diff),
    "/v1/jobs/{job_id}/explanation": Answer(Explanation),
    "/v1/jobs/{job_id}/history": Answer(HistoryEntry, "events", paged=True),
    "/v1/jobs/{job_id}/tasks": Answer(Task, "tasks", paged=True),
    "/v1/jobs/{job_id}/tasks/{instance}/runs": Answer(Run, "runs"),
    "/v1/jobs/{job_id}/updates": Answer(Update, "updates"),
    "/v1/jobs/{job_id}/updates/{number}": Answer(Update),
    "/v1/jobs/{job_id}/updates/{number}/steps": Answer(UpdateSteps, "steps", paged=True),
    "/v1/jobs/{job_id}/versions": Answer(Version, "versions"),
    "/v1/jobs/{job_id}/versions/{version}": Answer(Version),
    "/v1/log": Answer(LogPage),
    "/v1/log/quarantine": Answer(SkippedRecord, "records", paged=True),
    "/v1/marks": Answer(Marks),
    "/v1/pool-series/{path}": Answer(PoolSeries),
    "/v1/pools": Answer(PoolTree),
    "/v1/pools/{path}": Answer(Pool),
    "/v1/queues/{path}": Answer(Queue),
    "/v1/rounds/{machine}/{number}": Answer(dict[str, Any]),
    "/v1/series": Answer(CellSeries),
    "/v1/throttled-tasks": Answer(Task, "tasks", paged=True),
    "/v1/volumes": Answer(Volume, "volumes", paged=True),
}
"""By path, of those that answer with JSON."""


def describe(paths: Mapping[str, Mapping[str, Any]], components: dict[str, Any]) -> None:
    """Adds the schemas of answers to the description of paths, and their types to its components."""
    there = [path for path in ANSWERS if path in paths]
    schemas, types = _schemas([ANSWERS[path].type for path in there])
    components.update(types)
    for path, schema in zip(there, schemas, strict=True):
        answer = paths[path]["get"]["responses"]["200"]
        answer["content"] = {"application/json": {"schema": ANSWERS[path].schema(schema)}}


def _schemas(types: Iterable[Any]) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    return msgspec.json.schema_components(types, ref_template=REF)
