"""Orders of any text and of any version: what an agent can't read or start is refused for its run alone."""

import asyncio
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from events.records.jobs import JobSubmitted
from events.spec.job import JobSpec
from hostagent.gateway import http
from hostagent.messages import JobOrder, LogLine, OrderKind, OrdersLine, PingLine, RunOrder
from hostagent.order_stream import read
from hostagent.run_record import RunKey
from paceline.client.lines import Lines, ascii_json
from paceline.client.output_ask import OutputAsk
from tests.hostagent import test_agent
from tests.hostagent.cell import ordered
from tests.hostagent.test_agent import HOST, Site

site = test_agent.site

EVERY = "".join(
    chr(code)
    for code in range(1, 0x110000)
    if unicodedata.category(chr(code)) in ("Cc", "Cf", "Zl", "Zp", "Zs", "Co")
    and (code < 0xE000 or code in (0xE000, 0xFEFF, 0xFFF9, 0xE0001, 0xF0000, 0x10FFFD))
)
"""Every control, format, bidirectional and separator character, some for private use, none of it NUL."""


def test_text_of_every_kind_reaches_the_process_as_it_was_written(site: Site) -> None:
    site.start_agent()
    job = JobSubmitted(
        job_id="j", pool="/p", command=("sh", "-c", 'printf %s "$0$MINE"', EVERY), env={"MINE": EVERY, EVERY: "x"}
    )
    site.run(job)
    site.says("j", 0, 1, "EXITED", 0)
    asked = site.cell.gateway.log_of(OutputAsk("j", 0, 1, "stdout", 0, 1 << 20))
    site.cell.until(asked.done)
    assert asked.result().data.decode() == 2 * EVERY


@pytest.mark.parametrize("text", ["\0", "a\0b", "\ud800"])
def test_a_command_that_no_process_can_have_is_refused_for_its_run_alone(
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
) -> None:
    """NUL may stand in a fact; half a surrogate can't, but a gateway could still send it."""
    site.start_agent()
    monkeypatch.setattr(http, "ascii_json", lambda value: ascii_json(value).replace(b"POISON", _escaped(text)))
    bad = JobSubmitted(job_id="bad", pool="/p", command=("true", "POISON"), env={"A": "POISON"})
    good = JobSubmitted(job_id="good", pool="/p", command=("true",))
    site.cell.submit(bad, good)
    site.cell.decide(ordered([("bad", 0, 1), ("good", 0, 1)], [HOST, HOST]))
    site.says("good", 0, 1, "EXITED", 0)
    site.says("bad", 0, 1, "CANNOT_START", 127)
    assert len(site.cell.inventories()) == 1, "the agent has kept its session"


def _escaped(text: str) -> bytes:
    return "".join(f"\\u{ord(each):04x}" for each in text).encode()


def change_orders(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Lets the gateway send orders as another version would write them."""

    def encode(value: Any) -> bytes:
        plain = msgspec.to_builtins(value)
        if isinstance(value, OrdersLine):
            change(plain)
        return ascii_json(plain)

    monkeypatch.setattr(http, "ascii_json", encode)


def test_an_order_of_an_unknown_kind_is_refused_for_its_run_and_named(
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def change(orders: dict[str, Any]) -> None:
        for item in orders["items"]:
            if orders["jobs"][item[1]]["job_id"] == "new":
                item[0] = 77

    change_orders(monkeypatch, change)
    site.start_agent()
    site.cell.submit(*(JobSubmitted(job_id=name, pool="/p", command=("true",)) for name in ("new", "old")))
    site.cell.decide(ordered([("new", 0, 1), ("old", 0, 1)], [HOST, HOST]))
    site.says("old", 0, 1, "EXITED", 0)
    site.says("new", 0, 1, "NOT_STARTED", 127)
    assert any("can't read the order" in why and "77" in why for why in site.cell.why())


def test_a_job_that_can_not_be_read_is_refused_and_its_runs_can_still_be_forgotten() -> None:
    line = OrdersLine(5, True, [], [RunOrder(OrderKind.START, 0, 1, 2), RunOrder(OrderKind.FORGET, 0, 3, 1)])
    plain = msgspec.to_builtins(line) | {"jobs": [{"job_id": "j", "command": {"image": "x"}}]}
    reading = read(ascii_json(plain))
    assert isinstance(reading.line, OrdersLine)
    assert [each.key for each in reading.refused] == [RunKey("j", 1, 2)]
    assert reading.line.items == [RunOrder(OrderKind.FORGET, 0, 3, 1)]
    assert reading.unnamed == []


@pytest.mark.parametrize(
    "items", [[[0]], ["start"], [[0, 4, 0, 1]], [[0, 0, -1, 1]], [[0, 0, 0, 2**31]], [[0, 0, 2**70, 1]], [{}], [None]]
)
def test_an_order_that_names_no_run_is_passed_over(items: list[Any]) -> None:
    good = [int(OrderKind.STOP), 0, 0, 1]
    plain = {"kind": "orders", "position": 5, "whole": False, "jobs": [{"job_id": "j"}], "items": [*items, good]}
    reading = read(ascii_json(plain))
    assert isinstance(reading.line, OrdersLine)
    assert reading.line.items == [RunOrder(OrderKind.STOP, 0, 0, 1)]
    assert len(reading.unnamed) == 1
    assert reading.refused == []


def test_an_order_for_what_can_be_no_job_is_passed_over() -> None:
    line = OrdersLine(
        5, False, [JobOrder("../j"), JobOrder("j")], [RunOrder(OrderKind.START, at, 0, 1) for at in (0, 1)]
    )
    reading = read(ascii_json(line))
    assert isinstance(reading.line, OrdersLine)
    assert reading.line.items == line.items[1:]
    assert "../j" in reading.unnamed[0]


def test_a_line_of_an_unknown_kind_is_passed_over_and_said() -> None:
    reading = read(b'{"kind": "weather", "sun": true}')
    assert reading.line is None
    assert "weather" in reading.unnamed[0]


def test_the_lines_of_today_are_read_as_they_are() -> None:
    for line in (PingLine(), LogLine("1", "j", 0, 1, "stdout", 0, 10)):
        assert read(ascii_json(line)).line == line


def test_what_another_version_sends_never_ends_runs_that_it_may_have_named(site: Site) -> None:
    agent = site.start_agent()
    site.run(JobSubmitted(job_id="j", pool="/p", command=("sleep", "600")))
    site.says("j", 0, 1, "STARTED", 0)
    site.stop_agent()
    whole = {"kind": "orders", "position": 1 << 40, "whole": True, "jobs": [], "items": [["?"]]}
    asyncio.run(agent._take(read(ascii_json(whole))))
    assert [run.key for run in agent.runs.alive()] == [RunKey("j", 0, 1)]


def test_lines_are_divided_at_newlines_only_however_the_bytes_come() -> None:
    text = "".join(f"a{each}b\n" for each in EVERY if each != "\n").encode()

    def pieces(size: int) -> Iterator[bytes]:
        lines = Lines()
        for first in range(0, len(text), size):
            yield from lines.feed(text[first : first + size])

    for size in (1, 7, len(text)):
        assert list(pieces(size)) == text.split(b"\n")[:-1]
    assert b"\n" not in ascii_json({EVERY: EVERY})
    assert ascii_json({EVERY: EVERY}).isascii()
    assert msgspec.json.decode(ascii_json({EVERY: EVERY})) == {EVERY: EVERY}


def test_the_reason_is_bounded(tmp_path: Path) -> None:
    plain = {"kind": "orders", "position": 5, "whole": False, "jobs": [{"job_id": "j", "command": 5}], "items": []}
    plain["items"] = [[0, 0, 0, 1]]
    [refusal] = read(ascii_json(plain)).refused
    assert len(refusal.reason) < 300


def test_each_task_is_started_with_its_own_command_and_environment(site: Site) -> None:
    site.start_agent()
    site.cell.submit(
        JobSpec.model_validate(
            {
                "job_id": "j",
                "pool": "/p",
                "instances": 3,
                "command": ["sh", "-c", 'test "$WHO" = some && exit 3; exit 2'],
                "overrides": [
                    {"instances": "1-2", "env": {"WHO": "some"}},
                    {"instances": "2", "command": ["sh", "-c", "exit 4"]},
                ],
            }
        ).to_event()
    )
    site.cell.decide(ordered([("j", 0, 1), ("j", 1, 1), ("j", 2, 1)], [HOST] * 3))
    for instance, code in ((0, 2), (1, 3), (2, 4)):
        site.says("j", instance, 1, "EXITED", code)
