"""Moments that are hardly over: nobody is told what may still change."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from events.rounds import key_of
from events.topics import rounds_of
from paceline.moments import log_cut, resolver
from paceline.moments.log_cut import before, closed, write_time
from paceline.moments.resolver import SETTLE_MS, Past, Resolver
from projections.api.moments import NOT_OVER, Moments
from projections.api.problems import Problem
from tests.paceline.moments.conftest import Server


def newest_ms(server: Server) -> int:
    """When the last round was appended."""
    topic = rounds_of("lifecycle")
    return next(server.log.scan(topic, server.log.bounds(topic)[1] - 1)).at_ms


def removed(made: list[Path]) -> list[str]:
    """Which of the views of ``made`` this process has open although they are removed."""
    links = [f"/proc/self/fd/{each}" for each in os.listdir("/proc/self/fd")]
    named = {os.readlink(each) for each in links if os.path.islink(each)}
    return sorted(named & {f"{each} (deleted)" for each in made})


def test_a_time_is_answered_once_its_records_are_all_there(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    ms, age = newest_ms(server), SETTLE_MS - 1
    monkeypatch.setattr(resolver, "_age_ms", lambda at_ms: ms + age - at_ms)
    found = Resolver({0: Past(server.log)})
    with pytest.raises(Problem) as refused:
        found.resolve(write_time(ms))
    assert (refused.value.status, refused.value.code) == (503, NOT_OVER)
    age = SETTLE_MS
    assert found.resolve(write_time(ms)).ends[0] == closed(server.log, before(server.log, ms + 1))


def test_who_asks_for_a_moment_that_is_not_over_waits_for_it(server: Server) -> None:
    answers: list[Any] = [Problem(503, NOT_OVER, "may still come"), Problem(503, NOT_OVER, "may still come"), "there"]

    class Source:
        def resolve(self, text: str) -> Any:
            answer = answers.pop(0)
            if isinstance(answer, Problem):
                raise answer
            return answer

    assert asyncio.run(Moments({}, Source()).resolve("x", "anne")) == "there"  # type: ignore[arg-type]


def test_views_that_were_removed_are_closed_and_made_again(server: Server) -> None:
    assert server.get("/v1/jobs", at="lifecycle/round/60").status_code == 200
    made = list(server.moments._open)
    for path in made:
        path.unlink()
    assert removed(made)
    assert server.get("/v1/jobs", at="lifecycle/round/60").status_code == 200
    assert not removed(made)


def test_a_record_that_can_not_be_read_spoils_no_moment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = rounds_of("lifecycle")
    bad = [each for each in server.log.scan(topic, 0) if key_of(each) is not None][-1]
    plain = log_cut.decode

    def decode(value: bytes) -> Any:
        if value == bad.value:
            raise log_cut.CodecError("", "no such schema")
        return plain(value)

    ends = before(server.log, newest_ms(server) + 1)
    expected = closed(server.log, ends)
    monkeypatch.setattr(log_cut, "decode", decode)
    assert closed(server.log, ends).keys() == expected.keys()
