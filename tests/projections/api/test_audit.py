"""Who did what, allowed by which binding: out of the log, the newest first, and what an auditor may see of it."""

from typing import Any

import msgspec
import pytest

from events.records.jobs import JobStopRequested
from events.records.parts import Actor
from events.records.pools import PoolDefined, RoleBound
from projections.queries import audit
from tests.helpers.written_cell import job


def actor(subject: str, **more: Any) -> Actor:
    return Actor(subject, "token", "10.0.0.7", **more)


@pytest.fixture
def told(api):
    """A cell in which two have done something, of which one was allowed by a binding that the log has."""
    for path in ("/maps", "/ads"):
        api.cell.fact(PoolDefined(path=path, command_id=path, cell=0, actor=actor("root")))
    bound = RoleBound(
        command_id="b", binding_id="ci", subject="ci", role="submitter", pool="/maps", actor=actor("root")
    )
    api.ci = api.cell.fact(bound)
    for job_id, pool, subject in (("a", "/maps", "ci"), ("b", "/ads", "ann")):
        binding = {"binding": api.ci, "read_to": api.ci + 1} if subject == "ci" else {}
        api.cell.ms += 30_000
        fact = msgspec.structs.replace(job(job_id, pool=pool), actor=actor(subject, **binding))
        api.cell.accept(job_id, api.cell.fact(fact), pool=pool)
        api.cell.ms += 30_000
    api.cell.fact(JobStopRequested(job_id="a", command_id="s", reason="too many", actor=actor("ann")))
    api.cell.fact(JobStopRequested(job_id="a", command_id="t"))
    api.fold()
    return api


def found(api: Any, query: str = "") -> list[dict[str, Any]]:
    """All facts of a filter, page by page."""
    facts, token = [], ""
    while True:
        body = api.get(f"/v1/audit?page_size=2{query}&page_token={token}")
        facts += body["facts"]
        token = body["next_page_token"]
        if not token:
            return facts


def shown(facts: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["event"], each["actor"]["subject"]) for each in facts]


def test_facts_of_users_are_told_the_newest_first_with_what_allowed_them(told):
    facts = found(told)
    assert shown(facts) == [
        ("JobStopRequested", "ann"),
        ("JobSubmitted", "ann"),
        ("JobSubmitted", "ci"),
        ("RoleBound", "root"),
        ("PoolDefined", "root"),
        ("PoolDefined", "root"),
    ]
    stop, _, submitted = facts[:3]
    assert (stop["pools"], stop["role_position"], "too many" in stop["text"]) == (["/maps"], None, True)
    assert (submitted["role"], submitted["role_pool"], submitted["role_position"]) == (
        "submitter",
        "/maps",
        f"paceline.pools:{told.ci}",
    )
    assert submitted["actor"]["read_to"] == told.ci + 1


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("&actor=ann", ["JobStopRequested", "JobSubmitted"]),
        ("&actor=nobody", []),
        ("&kind=JobSubmitted", ["JobSubmitted", "JobSubmitted"]),
        ("&pool=/maps", ["JobStopRequested", "JobSubmitted", "RoleBound", "PoolDefined"]),
        ("&pool=ads&actor=ann", ["JobSubmitted"]),
        ("&pool=/", ["JobStopRequested", "JobSubmitted", "JobSubmitted", "RoleBound", "PoolDefined", "PoolDefined"]),
        ("&job=a", ["JobStopRequested", "JobSubmitted"]),
        ("&host=h", []),
        ("&since=2023-11-14T22:14:20Z", ["JobStopRequested", "JobSubmitted"]),
        ("&since=2023-11-14T22:14:20Z&until=2023-11-14T22:15:00Z", ["JobSubmitted"]),
    ],
)
def test_filters_hold_all_together(told, query, expected):
    assert [each["event"] for each in found(told, query)] == expected


def test_no_kind_of_that_name_is_told(told):
    body = told.problem(told.client.get("/v1/audit?kind=Nothing"), 422, "INVALID_REQUEST")
    assert body["errors"][0]["pointer"] == "/query/kind"


def test_an_auditor_of_a_pool_sees_what_is_about_it_alone(told):
    with told.projector.views.read() as connection:
        page = audit.page(connection, told.cell.log, audit.AuditFilter(tops=("/maps",)), 100)
    assert [each.kind for each in page.deeds] == ["JobStopRequested", "JobSubmitted", "RoleBound", "PoolDefined"]


def test_a_page_passes_a_bounded_part_of_the_log_and_leads_on(told, monkeypatch):
    monkeypatch.setattr(audit, "LOOKED_AT_MAX", 1)
    assert len(found(told)) == 6
    assert told.get("/v1/audit?page_size=2")["next_page_token"], "a page may have fewer than there are"


def test_records_that_can_not_be_read_are_passed(told):
    told.cell.put("paceline.jobs", b"nobody reads this")
    told.fold()
    assert len(found(told)) == 6
