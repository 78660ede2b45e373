"""The output of runs: followed while it is written, kept in part, lost on a full disk."""

import asyncio
import errno
import os
import time
from pathlib import Path

import pytest

from events.records.jobs import JobSubmitted
from events.records.parts import Isolation
from hostagent import output_waits
from hostagent.kept_output import Output
from hostagent.messages import LogLine, LogPage
from hostagent.run_output import read_output
from hostagent.run_record import RunKey
from hostagent.runs import stop_all
from paceline.client.output_ask import OutputAsk
from tests.helpers.small_disk import can_mount, small_disk
from tests.hostagent.test_agent import Site, shell, site

__all__ = ("site",)


def ask(site: Site, offset: int, wait_ms: int = 20_000, stream: str = "stdout", other: int = -1) -> LogPage:
    asked = site.cell.gateway.log_of(OutputAsk("j", 0, 1, stream, offset, 100_000, wait_ms, other))
    site.cell.until(asked.done)
    return asked.result()


def waiting(site: Site, tmp_path: Path, script: str) -> Path:
    """A run that has written `in`, and does the rest once a file is there: that file."""
    go = tmp_path / "go"
    site.start_agent()
    site.run(shell("j", f"echo in; while [ ! -e {go} ]; do sleep 0.01; done; {script}"))
    site.says("j", 0, 1, "STARTED", 0)
    assert ask(site, 0).data == b"in\n"
    return go


def test_a_question_for_more_is_answered_once_there_is_more(site: Site, tmp_path: Path) -> None:
    go = waiting(site, tmp_path, "echo out; sleep 0.3; echo err >&2; exec sleep 60")
    asked = site.cell.gateway.log_of(OutputAsk("j", 0, 1, "stdout", 3, 1000, 20_000))
    began = time.monotonic()
    assert ask(site, 3, 100).data == b""
    assert 0.1 <= time.monotonic() - began < 5
    assert not asked.done()
    go.touch()
    site.cell.until(asked.done)
    assert asked.result()[1:4] == (b"out\n", 7, False)
    page = ask(site, 7, other=0)  # nothing more comes there
    assert (page.data, page.end, page.other_end) == (b"", 7, 4)
    assert ask(site, 0, 0, "stderr").data == b"err\n"


def test_a_question_for_more_is_answered_when_the_run_ends(site: Site, tmp_path: Path) -> None:
    go = waiting(site, tmp_path, "exit 0")
    asked = site.cell.gateway.log_of(OutputAsk("j", 0, 1, "stdout", 3, 1000, 20_000))
    site.cell.until(lambda: bool(site.agent and site.agent._output_waits._waiting))
    began = time.monotonic()
    go.touch()
    site.cell.until(asked.done)
    assert asked.result()[1:4] == (b"", 3, True)
    assert time.monotonic() - began < 5


def test_where_the_kernel_has_no_watches_left_it_is_looked_now_and_then(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_waits, "IN_MODIFY", 0)
    monkeypatch.setattr(output_waits, "IN_MOVED_TO", 0)
    monkeypatch.setattr(output_waits, "IN_CREATE", 0)  # it refuses to watch for nothing
    go = waiting(site, tmp_path, "echo out; exec sleep 60")
    asked = site.cell.gateway.log_of(OutputAsk("j", 0, 1, "stdout", 3, 1000, 20_000))
    go.touch()
    site.cell.until(asked.done)
    assert asked.result().data == b"out\n"


def test_the_agent_reads_nothing_while_nothing_is_written(site: Site, tmp_path: Path) -> None:
    waiting(site, tmp_path, "exec sleep 60")
    assert site.agent is not None
    reads: list[LogLine] = []
    page_of = site.agent._output_waits._page

    def counted(line: LogLine) -> LogPage | None:
        reads.append(line)
        return page_of(line)

    site.agent._output_waits._page = counted  # type: ignore[method-assign]
    assert ask(site, 3, 1500).data == b""
    assert len(reads) <= 5


def test_a_job_says_how_much_of_its_output_is_kept(site: Site) -> None:
    site.start_agent()
    count = "i=0; while [ $i -lt 1000 ]; do printf '%099d\\n' $i; i=$((i+1)); done"
    apart = Isolation(output_head=8, output_tail=16)
    site.run(JobSubmitted(job_id="j", pool="/p", command=("sh", "-c", count), isolation=apart))
    site.says("j", 0, 1, "EXITED", 0)
    sizes = {int(path.name.split(".")[1]): path.stat().st_size for path in site.file("j", "").glob("stdout.*")}
    assert (min(sizes), sizes[0]) == (0, 8192)
    assert 8192 <= sum(sizes.values()) - sizes[0] <= 16_384
    page = ask(site, 8192)
    first = int(page.data.split(b"\n")[0])
    assert page.offset == 100 * first  # no half line
    data = page.data
    while page.next_offset < page.end:
        page = ask(site, page.next_offset)
        data += page.data
    assert data == b"".join(b"%099d\n" % number for number in range(first, 1000))
    assert page.end == page.next_offset == 100_000


class Disk:
    """Takes so many bytes, then none until it is given more."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.write_ = os.write

    def write(self, file: int, data: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "full")
        written = self.write_(file, data[: self.room])
        self.room -= written
        return written


def test_a_full_disk_loses_output_and_all_else_keeps_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(350)
    monkeypatch.setattr("hostagent.kept_output.os.write", disk.write)
    kept = Output(str(tmp_path), "stdout", -1, 4096, 8192)
    for number in range(50):
        kept.write(b"%099d\n" % number)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["stdout.0"]
    disk.room = 1 << 20
    for number in range(50, 60):
        kept.write(b"%099d\n" % number)
    kept.close()
    assert kept.lost == 5000 - 350
    first = read_output(tmp_path, "stdout", 0, 10_000, True)
    assert (first.data[:200], len(first.data), first.ended) == (b"%099d\n%099d\n" % (0, 1), 350, False)
    rest = read_output(tmp_path, "stdout", first.next_offset, 10_000, True)
    assert rest.data.splitlines()[-1] == b"%099d" % 59
    assert rest.offset == 100 * int(rest.data[:99])
    assert rest.next_offset == rest.end == 6000


@pytest.mark.outside
@pytest.mark.skipif(not can_mount(), reason="a disk of a test's own is for root to mount")
def test_what_a_full_disk_of_the_host_did_not_take_is_told_with_the_end(tmp_path: Path) -> None:
    go, over, on = (tmp_path / name for name in ("go", "over", "on"))
    script = f"seq 1000; until [ -e {go} ]; do sleep 0.02; done; seq 5000; touch {over}"
    script += f"; until [ -e {on} ]; do sleep 0.02; done; echo on"
    with small_disk(tmp_path / "agent") as disk:
        site = Site(tmp_path / "agent")
        try:
            site.start_agent()
            site.run(shell("j", script))
            site.says("j", 0, 1, "STARTED", 0)
            site.cell.until(lambda: ask(site, 0).end == 3893)
            disk.fill()
            go.touch()
            site.cell.until(lambda: over.exists() and ask(site, 0).end == 4096)  # as far as its page goes
            assert ask(site, 4096, 500).data == b""
            disk.make_room()
            on.touch()
            site.says("j", 0, 1, "EXITED", 0)
            page = ask(site, 4096)
            assert (page.data, page.offset, page.ended) == (b"on\n", 3893 + 23_893, True)
            assert page.lost == 3893 + 23_893 - 4096
        finally:
            site.stop_agent()
            assert stop_all(tmp_path / "agent")[1] == 0


def test_a_run_that_lost_output_says_how_much(site: Site) -> None:
    site.start_agent()
    site.run(shell("j", "echo out"))
    site.says("j", 0, 1, "EXITED", 0)
    assert ask(site, 0).lost == 0
    exit_json = site.file("j", "exit.json")
    exit_json.write_text(exit_json.read_text().replace("}", ', "output_lost": 17}'))
    site.stop_agent()
    page = site.start_agent().runs.read(RunKey("j", 0, 1), "stdout", 0, 100)
    assert page is not None
    assert (page.data, page.lost) == (b"out\n", 17)


def test_nobody_waits_when_there_is_no_session() -> None:
    async def dropped() -> int:
        sent: list[LogLine] = []

        async def send(line: LogLine, page: LogPage | None) -> None:
            sent.append(line)

        class Runs:
            def read(self, *_: object) -> LogPage:
                return LogPage(0, b"", 0, False, 0, 0)

            def get(self, _: object) -> object:
                return type("Run", (), {"folder": Path("/proc")})

        async with output_waits.OutputWaits(Runs(), send) as waits:  # type: ignore[arg-type]
            waits.answer(LogLine("1", "j", 0, 1, "stdout", 0, 10, 20_000))
            await asyncio.sleep(0.05)
            waits.drop_all()
            await asyncio.sleep(0.05)
            assert not waits._waiting
        return len(sent)

    assert asyncio.run(dropped()) == 0
