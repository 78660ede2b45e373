"""The description of the API that is kept is what the routes say, and what would break its clients is named."""

from copy import deepcopy
from typing import Any

import pytest
from openapi_spec_validator import validate

from tools.api_breaks import breaks
from tools.openapi import FILE, described, kept, text_of


@pytest.fixture(scope="module")
def whole() -> Any:
    return described()


def test_the_description_that_is_kept_is_what_the_routes_say(whole):
    broken = "\n".join(breaks(kept(), whole))
    assert FILE.read_text() == text_of(whole), f"run python -m tools.openapi. Breaking differences:\n{broken or 'none'}"


def test_the_description_is_one_of_openapi(whole):
    validate(whole)


def test_each_write_but_the_plan_of_pools_and_each_terminal_needs_the_token(whole):
    open_to_all = {
        f"{method} {path}"
        for path, operations in whole["paths"].items()
        for method, each in operations.items()
        if "security" not in each and method != "get"
    }
    assert open_to_all == {"post /v1/pool-plans"}
    guarded = [path for path, each in whole["paths"].items() if "security" in each.get("get", {})]
    assert guarded == ["/v1/jobs/{job_id}/tasks/{instance}/execs/{exec_id}/out"]
    assert whole["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"


def test_each_answer_has_its_status_and_a_type(whole):
    for path, operations in whole["paths"].items():
        for method, each in operations.items():
            for status, answer in each["responses"].items():
                assert status.isdigit(), (method, path, status)
                content = answer.get("content", {})
                assert content or status in ("204", "304") or "$ref" in answer, (method, path, status)
                assert all(kind["schema"] for kind in content.values()), (method, path, status)
            if "202" in each["responses"] and "replays" not in path:
                assert "Location" in each["responses"]["202"]["headers"], (method, path)


def schema_of(description: Any, name: str) -> Any:
    return description["components"]["schemas"][name]


def planted(description: Any, name: str) -> Any:
    new = deepcopy(description)
    paths, job, spec = new["paths"], schema_of(new, "Job"), schema_of(new, "JobSpec")
    stop = paths["/v1/jobs/{job_id}/stops"]["post"]
    match name:
        case "path":
            del paths["/v1/volumes"]
        case "method":
            del paths["/v1/pools/{path}"]["patch"]
        case "parameter":
            paths["/v1/volumes"]["get"]["parameters"] = []
        case "answer field":
            del job["properties"]["pool"]
            job["required"].remove("pool")
        case "answer type":
            job["properties"]["instances"] = {"type": "string"}
        case "answer may lack":
            job["required"].remove("state")
        case "required parameter":
            stop["parameters"].append({"in": "query", "name": "why", "required": True, "schema": {"type": "string"}})
        case "required field":
            spec["required"] = [*spec["required"], "owner"]
        case "narrower type":
            spec["properties"]["priority"] = {"type": "boolean"}
        case "narrower bound":
            schema_of(new, "Taint")["properties"]["value"]["maxLength"] = 3
        case "status":
            del paths["/v1/jobs"]["post"]["responses"]["201"]
        case "token":
            paths["/v1/jobs"]["get"]["security"] = [{"bearer": []}]
    return new


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("path", ["/v1/volumes is gone"]),
        ("method", ["PATCH /v1/pools/{path} is gone"]),
        ("parameter", ["GET /v1/volumes: the parameter host is gone"]),
        ("answer field", ["GET /v1/jobs: answer 200: jobs: each: the field pool is gone"]),
        ("answer type", ["GET /v1/jobs: answer 200: jobs: each: instances was integer, is string"]),
        ("answer may lack", ["GET /v1/jobs: answer 200: jobs: each: the field state may be missing"]),
        ("required parameter", ["POST /v1/jobs/{job_id}/stops: the new parameter why is required"]),
        ("required field", ["POST /v1/jobs: the body: the field owner is required"]),
        ("narrower type", ["POST /v1/jobs: the body: priority was integer, is boolean"]),
        ("narrower bound", ["POST /v1/hosts/{host_id}/taints: the body: value: maxLength is 3"]),
        ("status", ["POST /v1/jobs: no answer 201 any more"]),
        ("token", ["GET /v1/jobs needs a token"]),
    ],
)
def test_a_difference_that_breaks_clients_is_named(whole, name, told):
    found = breaks(whole, planted(whole, name))
    for each in told:
        assert any(line.startswith(each) for line in found), found


def test_what_is_added_breaks_nobody(whole):
    new = deepcopy(whole)
    new["paths"]["/v1/more"] = {"get": {"responses": {}}}
    parameters = new["paths"]["/v1/jobs"]["get"]["parameters"]
    parameters.append({"in": "query", "name": "more", "schema": {"type": "string"}})
    schema_of(new, "Job")["properties"]["more"] = {"type": "string"}
    schema_of(new, "Job")["required"].append("more")
    schema_of(new, "JobSpec")["properties"]["more"] = {"type": "string", "maxLength": 3}
    new["paths"]["/v1/jobs"]["get"]["responses"]["418"] = {"description": "tea"}
    assert breaks(whole, new) == breaks(whole, whole) == []
