"""Calls and streams of an actor have limits that the cell sets, and the use of a token is noted once an hour."""

import time
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest

from events.codec import decode
from events.log.port import LogUnavailable
from events.records.entitlement import PoolAnswered
from events.records.pools import CellConfigured, TokenIssued, TokenUsed
from paceline.client.proof import ISSUED
from projections.access.identity import Identity
from projections.access.quotas import BURST_S, CallQuota, StreamQuota, actor_key
from projections.access.token_uses import EVERY_S, TokenUses
from projections.api.problems import Problem
from tests.projections.conftest import Api

CI = f"{ISSUED}ci_{'x' * 43}"


class Clock:
    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s


def test_an_actor_calls_as_often_as_it_may_whatever_others_do():
    clock = Clock()
    quota = CallQuota(clock)
    for _ in range(3 * BURST_S):
        quota.take("ci", 3)
    with pytest.raises(Problem) as refused:
        quota.take("ci", 3)
    assert (refused.value.status, refused.value.code, refused.value.headers) == (
        429,
        "TOO_MANY_CALLS",
        {"Retry-After": "1"},
    )
    quota.take("ann", 3)
    clock.s += 0.34
    quota.take("ci", 3)
    with pytest.raises(Problem):
        quota.take("ci", 3)
    clock.s += 60
    for _ in range(3 * BURST_S):
        quota.take("ci", 3)
    with pytest.raises(Problem):
        quota.take("ci", 3)


def test_streams_end_with_what_holds_them():
    quota = StreamQuota()
    with quota.one("ci", 1):
        with pytest.raises(Problem) as refused, quota.one("ci", 1):
            pass
        assert (refused.value.status, refused.value.code) == (429, "TOO_MANY_STREAMS")
        with quota.one("ann", 1):
            pass
    with quota.one("ci", 1):
        pass


def test_who_shows_nothing_is_counted_by_address_and_runs_by_themselves():
    scope = {"client": ("10.0.0.7", 1)}
    assert actor_key(Identity(), scope) == "address 10.0.0.7"
    assert actor_key(Identity("ci", how="token"), scope) != actor_key(Identity("ci", how="oidc"), scope)
    assert actor_key(Identity("job/a/task/0/run/1", how="run", run=("a", 0, 1)), scope) == "run a/0/1"


@pytest.fixture
def api(tmp_path) -> Iterator[Any]:
    held = Api(tmp_path)
    issued = TokenIssued(command_id="t", token_id="ci", subject="ci", token_hash=sha256(CI.encode()).digest())
    for fact in (issued, CellConfigured(command_id="c", calls_per_s=2)):
        at = held.cell.fact(fact)
        held.cell.decide(
            "entitlement", PoolAnswered(path="/", pools_offset=at, command_id=fact.command_id, code="DONE")
        )
    held.fold()
    yield held
    held.close()


def test_the_setting_of_the_cell_counts_and_its_own_token_is_free(api):
    ci = {"Authorization": f"Bearer {CI}"}
    answers = [api.client.get("/v1/jobs", headers=ci).status_code for _ in range(100)]
    assert answers[:2] == [200, 200]
    assert 429 in answers, "a hundred calls took forty seconds"
    assert {api.client.get("/v1/jobs").status_code for _ in range(20)} == {200}
    assert api.client.get("/livez", headers=ci).status_code == 200


def test_the_use_of_a_token_stands_in_the_log_once(api):
    for _ in range(2):
        api.client.get("/v1/jobs", headers={"Authorization": f"Bearer {CI}"})
    deadline = time.monotonic() + 20
    while not (uses := [each for each in facts(api) if isinstance(each, TokenUsed)]):
        assert time.monotonic() < deadline
    assert [each.token_id for each in uses] == ["ci"]
    api.fold()
    assert [each["used_at"] is not None for each in api.get("/v1/tokens")["tokens"]] == [True]


def facts(api: Any) -> list[Any]:
    return [decode(record.value) for record in api.cell.log.scan("paceline.pools", 0)]


def test_a_use_is_noted_again_after_an_hour_and_after_a_fault():
    clock, written, away = Clock(), list[TokenUsed](), [True]

    def append(used: TokenUsed) -> None:
        if away.pop() if away else False:
            raise LogUnavailable("no broker")
        written.append(used)

    uses = TokenUses(append, clock)
    uses._write("ci")
    assert not written
    uses.note("ci")
    uses.note("ci")
    deadline = time.monotonic() + 20
    while not written:
        assert time.monotonic() < deadline
    clock.s = EVERY_S - 1
    uses.note("ci")
    clock.s = EVERY_S
    uses.note("ci")
    while len(written) < 2:
        assert time.monotonic() < deadline
    assert [each.token_id for each in written] == ["ci", "ci"]
