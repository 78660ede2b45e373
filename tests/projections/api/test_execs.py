"""What the API refuses of commands inside runs, before a gateway hears of it."""

import pytest

PATH = "/v1/jobs/a/tasks/0/execs"


@pytest.mark.parametrize(
    "body",
    [
        rb'{"command": ["\ud800"]}',
        rb'{"command": ["a\u0000b"]}',
        b'{"command": ["' + b"x" * 131_072 + b'"]}',
        rb'{"port": 70000}',
        rb'{"command": ["sh"], "rows": 65536}',
    ],
)
def test_what_no_program_can_be_started_with_is_refused(api, body: bytes) -> None:
    answer = api.client.post(PATH, content=body, headers={"Content-Type": "application/json"})
    api.problem(answer, 422, "INVALID_REQUEST")
