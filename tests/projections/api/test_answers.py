"""What the API answers to each GET is a type that its description publishes, and the client has it."""

import re

import pytest

from paceline.client.page_models import HostsPage
from projections.api.answers import ANSWERS
from tests.helpers.answer_types import must_conform, type_of

OTHERWISE = {
    "/v1/jobs/{job_id}/tasks/{instance}/log",
    "/v1/jobs/{job_id}/tasks/{instance}/execs/{exec_id}/out",
    "/v1/events",
}
"""Paths that answer with bytes, or with a stream."""


def gets(api):
    schema = api.client.get("/openapi.json").json()
    return schema, {path: methods["get"] for path, methods in schema["paths"].items() if "get" in methods}


def test_the_answer_of_each_get_is_described(api):
    schema, paths = gets(api)
    assert paths.keys() - OTHERWISE == ANSWERS.keys()
    for path in ANSWERS:
        assert paths[path]["responses"]["200"]["content"]["application/json"]["schema"], path
    named = set(re.findall(r'"#/components/schemas/(\w+)"', api.client.get("/openapi.json").text))
    assert named <= schema["components"]["schemas"].keys()


def test_the_answers_of_writes_are_described(api):
    schema = api.client.get("/openapi.json").json()
    for path, methods in schema["paths"].items():
        for method in methods.keys() & {"post", "put", "patch", "delete"}:
            for status in methods[method]["responses"].keys() & {"200", "202"}:
                body = methods[method]["responses"][status]["content"]["application/json"]["schema"]
                assert body.keys() & {"$ref", "anyOf"}, (method, path, status)


def test_the_type_of_a_list_is_that_of_one(api):
    schema, paths = gets(api)
    listed = paths["/v1/jobs"]["responses"]["200"]["content"]["application/json"]["schema"]
    one = paths["/v1/jobs/{job_id}"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert listed == {"$ref": "#/components/schemas/JobsPage"}
    page = schema["components"]["schemas"]["JobsPage"]
    assert page["properties"]["jobs"]["items"] == one == {"$ref": "#/components/schemas/Job"}
    assert set(page["required"]) == {"jobs", "next_page_token"}
    assert schema["components"]["schemas"]["Job"]["properties"]["state"] == {"type": "string"}


def test_the_hosts_of_a_cell_are_as_they_are_described(api):
    api.cell.host()
    api.fold()
    host = api.get("/v1/hosts/h1")
    for wrong in ({**host, "colour": "red"}, {**host, "runs": "7"}, {k: v for k, v in host.items() if k != "runs"}):
        with pytest.raises((AssertionError, ValueError)):
            must_conform("GET", "/v1/hosts/h1", "200", wrong)
    assert type_of("/v1/hosts?page_size=1") is HostsPage
