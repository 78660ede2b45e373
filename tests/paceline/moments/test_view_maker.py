"""Who has views made, and how many: readers can't keep a cell busy."""

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.moments import budget, view_maker
from paceline.moments.order import Progress
from paceline.moments.view_maker import MakerLimits, ViewMaker
from projections.api.moments import Asker
from projections.api.problems import Problem

WRITES = """
import sys, pathlib
pathlib.Path(sys.stdin.readline().strip()).write_bytes(bytes(1000))
"""
HANGS = """
import os, pathlib, sys
target = pathlib.Path(sys.stdin.readline().strip())
target.with_name("pid").write_text(str(os.getpid()))
print('{"done":3,"of":9}', flush=True)
sys.stdin.read()
"""
LEAVES = """
import pathlib, subprocess, sys
target = pathlib.Path(sys.stdin.readline().strip())
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=SESSION)
target.with_name("pid").write_text(str(child.pid))
print('{"done":9,"of":9}', flush=True)
sys.exit(7)
"""
FAILS = "import sys; sys.exit('the disk is full')"
ANNE, BERT, TRUSTED = Asker("anne", False), Asker("bert", False), Asker("carl", True)


class Makers:
    """Makers over a folder, with a clock that only the test moves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 0.0
        self._made: list[ViewMaker] = []

    def __call__(self, script: str, make_s: float = 100.0, kept_bytes: int = 10**9) -> ViewMaker:
        def order(ends: Mapping[str, int], target: Path) -> bytes:
            return str(target).encode()

        command = [sys.executable, "-c", script]
        maker = ViewMaker(self.folder, command, order, MakerLimits(make_s, kept_bytes), lambda: self.now)
        self._made.append(maker)
        return maker

    def pid(self) -> int:
        """That of the process at work."""
        [pid] = until(lambda: [pid for each in self.folder.glob("moments/*/pid") if (pid := each.read_text())])
        return int(pid)

    def close(self) -> None:
        for maker in self._made:
            maker.close()


@pytest.fixture
def makers(tmp_path: Path) -> Iterator[Makers]:
    made = Makers(tmp_path)
    yield made
    made.close()


def until(look: Callable[[], Any]) -> Any:
    """What is found, once it is there."""
    pause, deadline = threading.Event(), time.monotonic() + 30
    while not (found := look()):
        assert time.monotonic() < deadline
        pause.wait(0.01)
    return found


def made(maker: ViewMaker, end: int, asker: Asker = ANNE) -> Path:
    def look() -> Path | None:
        found = maker.ask({"t": end}, asker)
        return found if isinstance(found, Path) else None

    path: Path = until(look)
    return path


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def problem_of(maker: ViewMaker, end: int, asker: Asker) -> Problem:
    with pytest.raises(Problem) as raised:
        maker.ask({"t": end}, asker)
    return raised.value


def raised(maker: ViewMaker, end: int) -> Problem | None:
    try:
        maker.ask({"t": end}, ANNE)
    except Problem as problem:
        return problem
    return None


def test_who_waits_is_told_how_far_it_is(makers: Makers) -> None:
    maker = makers(HANGS)
    assert until(lambda: maker.ask({"t": 1}, ANNE) == Progress(3, 9))


def test_what_nobody_asks_for_any_more_is_ended(makers: Makers) -> None:
    maker = makers(HANGS)
    maker.ask({"t": 1}, ANNE)
    pid = makers.pid()
    makers.now += view_maker.LEASE_S + 1
    assert until(lambda: gone(pid))


def test_what_takes_too_long_is_ended_and_says_so(makers: Makers) -> None:
    maker = makers(HANGS, make_s=5)
    maker.ask({"t": 1}, ANNE)
    makers.pid()
    until(lambda: maker.ask({"t": 1}, ANNE) == Progress(3, 9))
    makers.now += 6

    def problem() -> Problem | None:
        try:
            maker.ask({"t": 1}, ANNE)
        except Problem as found:
            return found
        return None

    assert "took longer than 5 s, after 3 of 9 records" in until(problem).detail


def test_a_killed_process_is_a_problem_for_a_while_and_then_started_again(makers: Makers) -> None:
    maker = makers(HANGS)
    maker.ask({"t": 1}, ANNE)
    pid = makers.pid()
    os.kill(pid, signal.SIGKILL)
    second = until(lambda: makers.pid() if makers.pid() != pid else 0)  # it is tried once more
    os.kill(second, signal.SIGKILL)

    def failed() -> bool:
        try:
            maker.ask({"t": 1}, ANNE)
        except Problem as problem:
            return problem.code == "MOMENT_FAILED"
        return False

    assert until(failed)
    makers.now += view_maker.LEASE_S + 1
    assert failed()  # who asks slowly hears of it too
    makers.now += view_maker.ERROR_S
    maker.ask({"t": 1}, ANNE)
    assert until(lambda: makers.pid() not in {pid, second})


def test_what_fails_says_why(makers: Makers) -> None:
    maker = makers(FAILS)

    def problem() -> str:
        try:
            maker.ask({"t": 1}, ANNE)
        except Problem as found:
            return found.detail
        return ""

    assert until(problem) == "the views could not be made: the disk is full"


@pytest.mark.parametrize("session", [False, True], ids=["its own child", "one that left"])
def test_a_process_that_ends_is_over_even_where_others_hold_its_output(makers: Makers, session: bool) -> None:
    maker = makers(LEAVES.replace("SESSION", str(session)))
    maker.ask({"t": 1}, ANNE)
    child = makers.pid()
    try:
        problem = until(lambda: raised(maker, 1))
        assert problem.detail == "the views could not be made: exit code 7"
        assert session or until(lambda: gone(child))
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def test_a_folder_that_somebody_removed_is_made_again(makers: Makers) -> None:
    maker = makers(WRITES)
    shutil.rmtree(made(maker, 1).parent)
    path = made(maker, 2)
    makers(WRITES)  # removes what belongs to nobody
    assert path.exists()


def test_one_client_and_all_together_have_so_many_made_at_once(makers: Makers) -> None:
    maker = makers(HANGS)
    for end in range(view_maker.WANTED_OF_CLIENT_MAX):
        maker.ask({"t": end}, ANNE)
    refused = problem_of(maker, 99, ANNE)
    assert (refused.status, refused.code) == (429, "TOO_MANY_MOMENTS")
    for number in range(view_maker.WANTED_MAX - view_maker.WANTED_OF_CLIENT_MAX):
        maker.ask({"t": 100 + number}, Asker(f"client-{number}", True))
    refused = problem_of(maker, 99, BERT)
    assert (refused.status, refused.code) == (503, "TOO_MANY_MOMENTS")
    makers.now += view_maker.LEASE_S + 1  # nobody wants them any more
    maker.ask({"t": 99}, BERT)


def test_readers_without_the_token_share_a_budget_of_time(makers: Makers) -> None:
    maker = makers(HANGS, make_s=budget.BUDGET_S)
    maker.ask({"t": 1}, ANNE)
    makers.pid()
    makers.now += budget.BUDGET_S + 1

    until(lambda: maker._budgets.used_up_by("bert", makers.now))
    refused = problem_of(maker, 2, BERT)
    assert (refused.code, refused.status) == ("TOO_MANY_MOMENTS", 503)
    assert "without the token" in refused.detail
    maker.ask({"t": 3}, TRUSTED)
    makers.now += 100 * budget.BUDGET_S
    maker.ask({"t": 4}, ANNE)


def test_views_are_kept_within_bounds_the_ones_asked_for_last(makers: Makers) -> None:
    maker = makers(WRITES, kept_bytes=2500)
    first, second = made(maker, 1), made(maker, 2)
    os.utime(first, (1, 1))
    os.utime(second, (2, 2))
    maker.ask({"t": 1}, ANNE)
    third = made(maker, 3)
    until(lambda: not second.exists())
    assert first.exists()
    assert third.exists()


def test_a_disk_that_is_nearly_full_loses_kept_views_and_then_takes_no_more(
    makers: Makers, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = makers(WRITES)
    first, second = made(maker, 1), made(maker, 2)
    os.utime(first, (1, 1))

    def usage(_: Path) -> Any:
        return SimpleNamespace(free=view_maker.FREE_MIN - first.exists())

    monkeypatch.setattr("paceline.moments.view_maker.shutil.disk_usage", usage)
    assert made(maker, 3).exists()
    assert (first.exists(), second.exists()) == (False, True)
    monkeypatch.setattr("paceline.moments.view_maker.shutil.disk_usage", lambda _: SimpleNamespace(free=0))
    refused = problem_of(maker, 4, TRUSTED)
    assert (refused.status, refused.code) == (503, "MOMENT_FAILED")
    assert "MiB free" in refused.detail


def test_a_making_ends_where_the_disk_becomes_nearly_full(makers: Makers, monkeypatch: pytest.MonkeyPatch) -> None:
    maker = makers(HANGS)
    maker.ask({"t": 1}, ANNE)
    pid = makers.pid()
    monkeypatch.setattr("paceline.moments.view_maker.shutil.disk_usage", lambda _: SimpleNamespace(free=0))
    assert "MiB free" in until(lambda: raised(maker, 1)).detail
    assert until(lambda: gone(pid))


def test_who_has_the_token_has_places_and_is_served_first(makers: Makers) -> None:
    maker = makers(HANGS)
    maker.ask({"t": 0}, Asker("reader-0", False))
    first = makers.pid()
    for number in range(1, view_maker.WANTED_OF_READERS_MAX):
        maker.ask({"t": number}, Asker(f"reader-{number}", False))
    assert problem_of(maker, 99, BERT).code == "TOO_MANY_MOMENTS"
    maker.ask({"t": 99}, TRUSTED)
    makers.now += view_maker.LEASE_S - 1
    maker.ask({"t": 99}, TRUSTED)
    maker.ask({"t": 1}, Asker("reader-1", False))
    makers.now += 2  # nobody wants the first one any more
    until(lambda: makers.pid() != first)
    assert until(lambda: maker.ask({"t": 99}, TRUSTED) == Progress(3, 9))
    assert maker.ask({"t": 1}, Asker("reader-1", False)) == Progress(0, 0)


def test_what_readers_owe_is_bounded(makers: Makers) -> None:
    maker = makers(HANGS, make_s=10**6)
    maker.ask({"t": 1}, ANNE)
    makers.pid()
    makers.now += 10**5
    until(lambda: maker._budgets.used_up_by("bert", makers.now))
    makers.now += budget.DEBT_S / budget.BUDGET_SHARE + 1
    maker.ask({"t": 2}, BERT)
    assert "that anne may have" in problem_of(maker, 3, ANNE).detail


def test_one_address_leaves_time_to_others(makers: Makers) -> None:
    maker = makers(HANGS)
    maker.ask({"t": 1}, ANNE)
    makers.pid()
    makers.now += budget.BUDGET_S / 2 + 1
    until(lambda: maker._budgets.used_up_by("anne", makers.now))
    assert "that anne may have" in problem_of(maker, 2, ANNE).detail
    maker.ask({"t": 2}, BERT)


def test_what_others_left_behind_is_removed_and_what_they_use_stays(makers: Makers) -> None:
    left = makers.folder / "moments" / "1-dead"
    left.mkdir(parents=True)
    (left / "x.sqlite").touch()
    path = made(makers(WRITES), 1)
    makers(WRITES)
    assert not left.exists()
    assert path.exists()
