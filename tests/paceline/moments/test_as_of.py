"""Every answer of the API as it was."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from events.topics import ALL
from tests.helpers.drawn import seeds
from tests.paceline.moments.conftest import Server, then

PARAMETERS = {
    "job_id": ("nightly", "tiles", "huge"),
    "host_id": ("small-1", "large-1"),
    "path": ("batch", "maps"),
    "instance": ("0",),
    "machine": ("lifecycle", "placement"),
    "number": ("3",),
    "version": ("1",),
    "maintenance_id": ("kernel",),
    "what_if_id": ("w",),
    "window_id": ("night",),
    "name": ("front",),
    "subject:path": ("huge", "paceline.lifecycle:2"),
    "subject": ("huge", "paceline.lifecycle:2"),
}


def reads(server: Server) -> list[str]:
    """The paths of all reads of a moment, as the API describes them."""
    paths = server.client.get("/openapi.json").json()["paths"]
    return [path for path, methods in paths.items() if path.startswith("/v1/") and "get" in methods]


def addresses(server: Server) -> Iterator[str]:
    """All of them with names that are there, but for streams and what hosts are asked for now."""
    for path in reads(server):
        if path == "/v1/events" or path.endswith(("/out", "}/usage")):
            continue
        filled = [path]
        for name, values in PARAMETERS.items():
            filled = [each.replace("{" + name + "}", value) for each in filled for value in values]
        assert not any("{" in each for each in filled), f"the test knows no name for {path}"
        yield from sorted(set(filled))


def body(answer: Any) -> Any:
    return answer.json() if "json" in answer.headers["content-type"] else answer.content


@seeds(3, 1)
def test_every_answer_is_that_of_a_log_that_ended_then(server: Server, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    topic = draw.choice([topic.name for topic in ALL if server.log.bounds(topic.name)[1] > 5])
    at = f"0/{topic}:{draw.randrange(server.log.bounds(topic)[1])}"
    ends = server.moments.resolve(at).ends[0]
    fresh = then(server.log, ends, tmp_path / "then")
    for address in addresses(server):
        shown, expected = server.get(address, at=at), fresh.get(address)
        assert (shown.status_code, address) == (expected.status_code, address)
        if address.endswith(("/ledger", "/v1/waits")) and shown.is_success:  # counted until now, or until then
            assert body(shown)["until"].startswith("2023-11-14T22:1")
        elif address not in ("/v1/cell", "/v1/sign-in"):  # they tell of this process too
            assert body(shown) == body(expected), address
            if shown.is_success:
                assert shown.headers["Log-Position"] == expected.headers["Log-Position"]
        if shown.is_success:
            assert shown.headers["At"] == at
            assert shown.headers["As-Of"].startswith("2023-11-14T22:1")


def test_every_read_is_described_with_a_moment(server: Server) -> None:
    paths = server.client.get("/openapi.json").json()["paths"]
    for path in reads(server):
        assert [each["name"] for each in paths[path]["get"]["parameters"]].count("at") == 1, path


def test_a_round_a_position_and_a_time_may_name_one_moment(server: Server) -> None:
    of_round = server.get("/v1/jobs", at="lifecycle/round/100")
    record = server.client.get("/v1/rounds/lifecycle/100").json()
    at_position = server.get("/v1/jobs", at=record["position"].removeprefix("paceline."))
    assert of_round.json() == at_position.json()
    assert of_round.headers["As-Of"] == at_position.headers["As-Of"] == record["at"]
    assert (of_round.headers["At"], at_position.headers["At"]) == (
        "0/lifecycle/round/100",
        f"0/{record['position']}",
    )
    assert server.get("/v1/jobs", at=record["at"]).headers["At"] == record["at"]
    assert (
        server.get("/v1/jobs", at=record["at"].replace("Z", "+00:00")).json()
        == server.get(
            "/v1/jobs",
            at=record["at"].replace("Z", " 00:00"),  # a plus that was not escaped
        ).json()
    )


def test_the_cell_as_it_was_tells_the_last_rounds_then(server: Server) -> None:
    cell = server.get("/v1/cell", at="lifecycle/round/100").json()
    assert cell["machines"]["lifecycle"] == {"epoch": 2, "round": 100}


@pytest.mark.parametrize(
    ("at", "problem"),
    [
        ("", (400, "BAD_MOMENT", "names no moment; a moment is a time such as 2026-08-21T10:44:07Z, a round")),
        ("yesterday", (400, "BAD_MOMENT", "'yesterday' names no moment")),
        ("2023-11-14T22:13:40", (400, "BAD_MOMENT", "names no moment")),
        ("2023-13-14T22:13:40Z", (400, "BAD_MOMENT", "is no time: month must be in 1..12")),
        ("9999-12-31T23:59:59-23:59", (400, "BAD_MOMENT", "is no time")),
        ("0001-01-01T00:00:00+23:59", (400, "BAD_MOMENT", "is no time")),
        ("lifecycle/round/٣", (400, "BAD_MOMENT", "names no moment")),
        ("lifecycle:5\r\nSet-Cookie: a=b", (400, "BAD_MOMENT", "names no moment")),
        ("<script>alert(1)</script>", (400, "BAD_MOMENT", "names no moment")),
        ("x" * 10_000, (400, "BAD_MOMENT", "names no moment")),
        ("cats/round/1", (400, "BAD_MOMENT", "'cats' is no machine; there are lifecycle, entitlement, placement, sla")),
        ("0/cats:1", (400, "BAD_MOMENT", "'cats' is no topic; there are paceline.jobs, ")),
        ("7/lifecycle:1", (409, "WRONG_CELL", "belongs to cell 7; this server serves cell 0")),
        ("9000-01-01T00:00:00Z", (400, "FUTURE_MOMENT", "is in the future: it is 20")),
        ("2001-01-01T00:00:00Z", (404, "NO_SUCH_MOMENT", "the log begins at 2023-11-14T22:13:20.000Z")),
        ("lifecycle:99999", (404, "NO_SUCH_MOMENT", "its last record is paceline.lifecycle:")),
        ("lifecycle:999999999999999999", (404, "NO_SUCH_MOMENT", "its last record is paceline.lifecycle:")),
        ("lifecycle/round/99999", (404, "NO_SUCH_MOMENT", "its last round is ")),
        ("lifecycle/round/0", (404, "NO_SUCH_MOMENT", "has no round 0")),
    ],
)
def test_moments_that_are_none_are_refused(server: Server, at: str, problem: tuple[int, str, str]) -> None:
    status, code, detail = server.problem(at)
    assert (status, code) == problem[:2]
    assert problem[2] in detail
    assert len(detail) < 400


def test_the_past_takes_no_commands(server: Server) -> None:
    answer = server.client.post("/v1/jobs", params={"at": "lifecycle:5"}, json={"pool": "/batch"})
    assert (answer.status_code, answer.json()["code"]) == (405, "READ_ONLY")


def test_health_and_metrics_are_always_of_now(server: Server) -> None:
    assert server.client.get("/livez", params={"at": "yesterday"}).status_code == 200
    assert server.client.get("/metrics", params={"at": "yesterday"}).status_code == 200


def test_what_was_written_since_is_not_waited_for(server: Server) -> None:
    headers = {"At-Least-Position": "paceline.jobs:99999"}
    answer = server.client.get("/v1/jobs", params={"at": "lifecycle/round/100"}, headers=headers)
    assert answer.status_code == 200


@pytest.mark.parametrize("address", ["/v1/jobs/nightly/usage", "/v1/hosts/small-1/usage"])
def test_what_only_hosts_can_tell_now_is_refused_of_then(server: Server, address: str) -> None:
    at = f"0/paceline.lifecycle:{server.log.bounds('paceline.lifecycle')[1] - 1}"
    answer = server.get(address, at=at)
    assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_REQUEST")
    assert answer.json()["detail"].startswith("hosts tell what live runs use now; leave out the parameter at.")
    assert server.get("/v1/usage", at=at).status_code == 200
