"""The description of the API (OpenAPI): what handlers don't show of themselves. `python -m tools.openapi` keeps it in
docs/openapi.json.
"""

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from events.spec.job import JobSpec
from events.spec.pool import PoolSpec
from events.spec.settings import CellSpec
from paceline.client.json_type import Json
from projections.api import answers, job_batches, job_plans
from projections.api.as_of import describe as describe_moments
from projections.api.guards import PLANS, READS, STREAMED
from projections.api.problems import PROBLEM_SCHEMA

METHODS = ("get", "put", "post", "patch", "delete")
_BODIES: tuple[tuple[str, str, tuple[type[BaseModel], ...]], ...] = (
    ("/v1/jobs", "post", (JobSpec,)),
    ("/v1/job-batches", "post", (job_batches.JobsToSubmit,)),
    ("/v1/job-plans", "post", (JobSpec, job_plans.JobsToPlan)),
    ("/v1/pools/{path}", "put", (PoolSpec,)),
    ("/v1/pools/{path}", "patch", (PoolSpec,)),
    ("/v1/cell/settings", "patch", (CellSpec,)),
)
"""Bodies that handlers take as they come, to tell all problems by pointer."""
_BYTES = {"type": "string", "format": "binary"}
_TEXT = {"type": "string"}
OTHER_ANSWERS: Mapping[str, Json] = {
    "/v1/events": {"text/event-stream": {"schema": _TEXT}, "application/x-ndjson": {"schema": _TEXT}},
    "/v1/jobs/{job_id}/tasks/{instance}/log": {"application/octet-stream": {"schema": _BYTES}},
    "/v1/jobs/{job_id}/tasks/{instance}/execs/{exec_id}/out": {"application/octet-stream": {"schema": _BYTES}},
}
"""Answers that are not JSON."""
_HEADERS = {
    "Log-Position": (_TEXT, "Positions of the log that the answer is of, or of what was written: topic:offset,..."),
    "Log-Cell": ({"type": "integer"}, "The cell that answers, of a server of several."),
    "At": (_TEXT, "The moment that is shown, where the request names one."),
    "As-Of": (_TEXT, "The time of that moment."),
    "ETag": (_TEXT, "The version of the definition, for If-Match and If-None-Match."),
    "Location": (_TEXT, "The path of what was made, or of where the effect shows."),
    "Retry-After": ({"type": "integer"}, "Seconds after which the request may be sent again."),
    "WWW-Authenticate": (_TEXT, "Bearer."),
    "Allow": (_TEXT, "The methods that are allowed."),
    "Log-Offset": ({"type": "integer"}, "The place of the first byte in the output."),
    "Log-Next-Offset": ({"type": "integer"}, "The place to go on from."),
    "Log-Ended": ({"type": "integer"}, "1 where nothing more comes, else 0."),
    "Log-End": ({"type": "integer"}, "Bytes that this stream has."),
    "Log-Other-End": ({"type": "integer"}, "Bytes that the other stream has."),
    "Log-Lost": ({"type": "integer"}, "Bytes that the disk of the host didn't take."),
    "Log-Run": ({"type": "integer"}, "The number of the run."),
    "Output-As-Of": (_TEXT, "When the host had this."),
}
_OF_OUTPUT = ("Log-Offset", "Log-Next-Offset", "Log-Ended", "Log-End", "Log-Other-End", "Log-Lost", "Log-Run")
_OF_PROBLEMS = {401: ("WWW-Authenticate",), 405: ("Allow",), 429: ("Retry-After",), 503: ("Retry-After",)}
_ALWAYS = (403, 421, 422, 500)
"""Problems of each request: of its origin, its host, its parameters, and faults of ours."""
_OF_READS = (*_ALWAYS, 400, 401, 404, 409, 410, 429, 503)
_OF_WRITES = (*_ALWAYS, 400, 401, 404, 405, 409, 413, 415, 423, 429, 503)
_SUCCESS = {"200": "Done.", "201": "Made.", "202": "Written, and not decided yet.", "204": "Taken."}
_PROBLEM_REF = "#/components/schemas/Problem"


def install_description(app: FastAPI) -> None:
    """Completes the description of an app, when it is asked for first."""
    plain = app.openapi

    def described() -> Json:
        is_new = app.openapi_schema is None
        schema = plain()
        if is_new:
            _complete(schema)
        return schema

    app.openapi = described  # type: ignore[method-assign]


def needs_token(method: str, path: str) -> bool:
    """Whether a request needs the token: see `Guards`."""
    if STREAMED.fullmatch(re.sub(r"\{\w+\}", "1", path)):
        return True
    return method.upper() not in READS and path != PLANS


def _complete(schema: Json) -> None:
    paths = schema["paths"]
    components = schema.setdefault("components", {})
    parts = components.setdefault("schemas", {})
    describe_moments(paths)
    answers.describe(paths, parts)
    _describe_bodies(paths, parts)
    parts["Problem"] = {**PROBLEM_SCHEMA, "description": "A problem (RFC 9457)."}
    for name in ("HTTPValidationError", "ValidationError"):
        parts.pop(name, None)
    statuses = set[int]()
    for path, operations in paths.items():
        for method in METHODS:
            if method in operations:
                statuses.update(_describe_operation(method, path, operations[method]))
    bearer = {"type": "http", "scheme": "bearer", "description": "The token of the cell."}
    components["securitySchemes"] = {"bearer": bearer}
    components["responses"] = {f"Problem{status}": _problem(status) for status in sorted(statuses)}
    components["headers"] = {
        name: {"schema": kind, "description": text} for name, (kind, text) in sorted(_HEADERS.items())
    }
    _make_portable(schema)


def _describe_bodies(paths: Json, parts: Json) -> None:
    for path, method, models in _BODIES:
        for model in models:
            spec = model.model_json_schema(ref_template=answers.REF.format(name="{model}"))
            parts.update(spec.pop("$defs", {}))
            parts[model.__name__] = spec
        one_of = [{"$ref": answers.REF.format(name=model.__name__)} for model in models]
        content = paths[path][method]["requestBody"]["content"]
        content["application/json"]["schema"] = one_of[0] if len(one_of) == 1 else {"oneOf": one_of}


def _describe_operation(method: str, path: str, operation: Json) -> Iterable[int]:
    """Describes what an operation needs and answers, and tells its problems."""
    words = [
        re.sub(r"\{(\w+)\}", r"by_\1", word).replace("-", "_") for word in path.split("/") if word not in ("", "v1")
    ]
    operation["operationId"] = "_".join((method, *words))
    if needs_token(method, path):
        operation["security"] = [{"bearer": []}]
    declared = {each["name"] for each in operation.setdefault("parameters", [])}
    for name in re.findall(r"\{(\w+)\}", path):
        if name not in declared:
            operation["parameters"].append({"name": name, "in": "path", "required": True, "schema": _TEXT})
    if not operation["parameters"]:
        del operation["parameters"]
    problems = _problems_of(method, path)
    answered = {"200"} if method == "get" else answers.of_write(method.upper(), path).keys()
    responses = {status: each for status, each in operation["responses"].items() if status in answered}
    for status, response in responses.items():
        response["description"] = _SUCCESS[status]
        names = [*_headers_of(method, path, status)]
        if names:
            response["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in names}
    if path == "/problems/{code}":
        responses["200"]["content"]["text/html"] = {"schema": _TEXT}
    if path in OTHER_ANSWERS:
        responses["200"]["content"] = OTHER_ANSWERS[path]
    if (method, path) == ("get", "/v1/pools/{path}"):
        headers = {name: {"$ref": f"#/components/headers/{name}"} for name in ("ETag", "Log-Position")}
        responses["304"] = {"description": "The definition is that of If-None-Match.", "headers": headers}
    for status in problems:
        responses[str(status)] = {"$ref": f"#/components/responses/Problem{status}"}
    operation["responses"] = dict(sorted(responses.items()))
    return problems


def _problems_of(method: str, path: str) -> list[int]:
    """The statuses of the problems that an operation may answer with."""
    if not path.startswith("/v1/") and path != "/readyz":
        return sorted((*_ALWAYS, 404) if "{" in path else _ALWAYS)
    statuses = set(_OF_READS if method == "get" else _OF_WRITES)
    if path.startswith("/v1/pools/") and method != "get":
        statuses.add(412)
    if (method, path) == ("put", "/v1/pools/{path}"):
        statuses.add(428)
    if path == "/readyz":
        statuses -= {404, 410}
    return sorted(statuses)


def _headers_of(method: str, path: str, status: str) -> Iterable[str]:
    if not path.startswith("/v1/"):
        return
    yield "Log-Cell"
    if status in ("201", "202") and "execs" not in path and "replays" not in path:
        yield "Location"
    if path == "/v1/pools/{path}" and status in ("200", "201"):
        yield "ETag"
    if path.endswith("/log") and path != "/v1/log":
        yield from (*_OF_OUTPUT, "Output-As-Of")
    else:
        yield "Log-Position"
    if method == "get":
        yield from ("At", "As-Of")


def _make_portable(node: Any) -> None:
    """Says in words that each generator of clients knows what it may not: a default that is null, which a value that is
    left out has whether its type has null or not, and a constant number, which becomes one within bounds.
    """
    for each in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _make_portable(each)
    if not isinstance(node, dict):
        return
    if node.get("default", 0) is None:
        del node["default"]
    if type(node.get("const")) is int:
        only = node.pop("const")
        node.update({"type": "integer", "minimum": only, "maximum": only})


def _problem(status: int) -> Json:
    response: Json = {
        "description": HTTPStatus(status).phrase,
        "content": {"application/problem+json": {"schema": {"$ref": _PROBLEM_REF}}},
    }
    if status in _OF_PROBLEMS:
        response["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in _OF_PROBLEMS[status]}
    return response
