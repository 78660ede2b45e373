"""Where no file is left to open, keepers and agent wait until there is one: no run ends for that."""

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hostagent import keepers
from hostagent.keeper import timers
from hostagent.run_record import RunKey, is_held
from hostagent.runs import Runs, stop_all
from tests.hostagent.test_agent import Site, keeper_of, shell, site
from tests.hostagent.test_keepers import KEY, begin, ends, when

__all__ = ("site",)


@contextmanager
def no_file_left(pid: int) -> Iterator[None]:
    """A process can open no more files."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def test_a_keeper_without_files_keeps_its_runs_and_is_talked_to_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keepers, "KEEPERS", 1)
    runs = Runs(tmp_path)
    try:
        folder = begin(runs, "sleep", "600")
        keeper = keeper_of(folder / "process.json")
        with no_file_left(keeper):
            runs.close()
            runs = Runs(tmp_path)
            log = tmp_path / "holder.log"
            when(runs, lambda: "Too many open files" in log.read_text())
            assert len(runs.alive()) == 1
        when(runs, lambda: any(each.hello for each in runs.keepers._connections.values()))
        assert keeper_of(folder / "process.json") == keeper
        runs.stop(KEY)
        assert ends(runs) == [(0, 3, 143)]
    finally:
        stop_all(tmp_path)


def test_a_run_is_not_taken_for_lost_by_an_agent_without_files(site: Site) -> None:
    agent = site.start_agent()
    site.run(shell("j", "sleep 600"))
    site.says("j", 0, 1, "STARTED", 0)
    run = agent.runs.get(RunKey("j", 0, 1))
    assert run is not None
    with no_file_left(os.getpid()):
        assert is_held(run.folder)
        with pytest.raises(OSError, match="Too many open files"):
            agent.runs._learn_end(run, certain=True)
    assert run.alive


def test_what_an_agent_cannot_look_at_is_said_and_looked_at_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    agent = site.start_agent()
    monkeypatch.setattr(agent, "_say", said.append)
    poll = agent.runs.poll
    failed: list[int] = []

    def fails() -> bool:
        if len(failed) < 3:
            failed.append(1)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return poll()

    monkeypatch.setattr(agent.runs, "poll", fails)
    site.run(shell("j", "exit 3"))
    site.says("j", 0, 1, "EXITED", 3)
    looks = {each for each in said if "its runs" in each}
    assert looks == {"can't look at its runs: Too many open files. Tries again until it can."}


def test_a_call_that_fails_keeps_no_other_from_its_time(capfd: pytest.CaptureFixture[str]) -> None:
    due = timers.Timers()
    called: list[int] = []
    due.after(0.0, lambda: os.stat("/nowhere") and None)
    due.after(0.0, lambda: called.append(1))
    due.run()
    assert called == [1]
    assert "/nowhere" in capfd.readouterr().err
