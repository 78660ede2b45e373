"""Checks of hosts: health commands of a real agent, and what each agent looks at itself."""

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path

import pytest

from events.codes import RunReport
from events.records.hosts import HostHealthReported
from hostagent import conditions, host_checks, kernel
from hostagent.agent_settings import AgentSettings
from hostagent.conditions import Conditions, state_of
from hostagent.host_checks import REFUSED_MOST, HealthCommand, HostChecks, command_fault, disk_fault
from hostagent.messages import RunState
from tests.hostagent.test_agent import HOST, Site

SCRIPT = 'if [ -e "$0" ]; then echo "disk sdb: $(cat "$0") sectors gone"; exit 7; fi'


class CheckedSite(Site):
    """A host with a health command, which fails while a file is there."""

    health = True

    @property
    def ill(self) -> Path:
        return self.folder.with_name("ill")

    def settings(self) -> AgentSettings:
        command = HealthCommand("smart", ("sh", "-c", SCRIPT, str(self.ill)), 0.05, 5.0, failures=2)
        return replace(super().settings(), health=(command,) if self.health else ())

    def found(self) -> list[tuple[bool, str, str]]:
        """The results of the command in the log."""
        facts = self.cell.facts("paceline.hosts", HostHealthReported)
        reports = [fact for fact in facts if isinstance(fact, HostHealthReported) and fact.condition == "smart"]
        assert all(report.host_id == HOST and report.session > 0 for report in reports)
        return [(each.bad, each.code, each.text) for each in reports]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CheckedSite]:
    monkeypatch.setattr(conditions, "AGAIN_MS", 100)
    site = CheckedSite(tmp_path / "agent")
    yield site
    if site.agent is not None:
        site.stop_agent()
    site.cell.turn()
    site.cell.gateway.close()
    site.server.stop()


def test_the_cell_is_told_when_a_health_command_fails_and_when_it_passes_again(site: CheckedSite) -> None:
    site.ill.write_text("12")
    site.start_agent()
    bad = True, "EXIT_7", "disk sdb: 12 sectors gone"
    site.cell.until(lambda: site.found() == [bad])
    site.ill.write_text("13")  # the same result: nothing more is told, by no later agent either
    site.stop_agent()
    site.start_agent()
    site.ill.unlink()
    site.cell.until(lambda: (False, "", "") in site.found())
    assert [*dict.fromkeys(site.found())] == [bad, (False, "", "")]  # told again where the first agent wasn't answered


def test_a_health_command_that_was_taken_from_the_settings_is_bad_no_more(site: CheckedSite) -> None:
    site.ill.write_text("12")
    site.start_agent()
    site.cell.until(lambda: len(site.found()) == 1)
    site.stop_agent()
    site.health = False
    site.start_agent()
    site.cell.until(lambda: len(site.found()) > 1)
    assert site.found()[-1] == (False, "", "It isn't checked any more.")


def test_results_of_one_check_are_told_a_minute_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000]
    monkeypatch.setattr(kernel, "since_boot_ms", lambda: now[0])
    told = Conditions(tmp_path / "conditions.json", ["raid"], lambda: None)
    bad, well = state_of("raid", "EXIT_1", "one\n  disk "), state_of("raid", "", "")
    told.say(bad)
    assert told.untold() == [bad]
    assert bad.text == "one disk"
    told.told([bad])
    told.say(well)
    now[0] += 59_999
    assert told.untold() == []
    now[0] += 1
    assert told.untold() == [well]
    told.say(state_of("raid", "EXIT_1", "again"))  # it flaps: the cell knows already that it is bad
    assert told.untold() == []


@pytest.mark.parametrize(
    "script",
    ["sleep 61 & exit 1", "setsid sleep 61 & sleep 61", "(setsid setsid sleep 61 &) ; sleep 0.05; exit 1"],
    ids=["in its group", "in a session of its own", "with another parent"],
)
def test_a_health_command_leaves_nothing_behind(script: str, tmp_path: Path) -> None:
    async def look() -> str:
        command = HealthCommand("raid", ("sh", "-c", f"echo $$ >> {tmp_path}/pid; {script}"), timeout_s=0.4)
        return (await command_fault(command))[0]

    assert asyncio.run(look()) in ("EXIT_1", "TIMEOUT")
    mine = [pid for pid in _pids() if _is_from(pid, int((tmp_path / "pid").read_text()))]
    assert mine == []


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _is_from(pid: int, shell: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return words[:2] == [b"sleep", b"61"] and pid > shell
    except OSError:
        return False


def test_what_a_command_says_is_told_with_its_code() -> None:
    def found(*words: str, timeout_s: float = 5.0) -> tuple[str, str]:
        return asyncio.run(command_fault(HealthCommand("raid", words, timeout_s=timeout_s)))

    assert found("true") == ("", "")
    assert found("false") == ("EXIT_1", "It wrote nothing.")
    assert found("sh", "-c", "kill -9 $$")[0] == "SIGNAL_9"
    assert found("sleep", "61", timeout_s=0.05) == ("TIMEOUT", "sleep gave no answer within 0.05 s")
    assert found("/nowhere/raid") == ("NOT_STARTED", "/nowhere/raid: No such file or directory")
    assert found(sys.executable, "-c", "raise SystemExit('no disk')") == ("EXIT_1", "no disk")


def test_a_disk_that_takes_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert disk_fault(tmp_path) == ("", "")
    status = os.statvfs_result((4096, 4096, 1000, 19, 19, 1000, 900, 900, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: status)
    assert disk_fault(tmp_path) == ("FULL", f"1.9 % of the space of the disk of {tmp_path} are free")
    gone = tmp_path / "gone"
    assert disk_fault(gone) == ("FAILING", f"{gone} can't be written: No such file or directory")


def test_a_clock_that_differs_from_that_of_the_gateway_is_told(tmp_path: Path) -> None:
    checks = HostChecks(tmp_path, (), lambda: None)
    now = time.time()
    checks.answered(formatdate(now, usegmt=True), now)
    assert checks.skew() == ("", "")
    checks.answered(formatdate(now + 95, usegmt=True), now)
    code, text = checks.skew()
    assert code == "SKEWED"
    assert text.endswith("s behind that of the gateway.")
    checks.answered(formatdate(now - 95, usegmt=True), now)
    assert checks.skew()[1].endswith("s ahead of that of the gateway.")
    checks.answered("", now)  # a proxy took the header away
    assert checks.skew()[0] == "SKEWED"


def test_a_host_that_starts_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = HostChecks(tmp_path, (), lambda: None)
    refused = RunState("web", 0, 1, RunReport.NOT_STARTED, reason="no keeper answers")
    checks.told([refused] * (REFUSED_MOST - 1), [])
    assert checks.failing() == ("", "")
    checks.told([refused], [])
    assert checks.failing() == ("NOT_STARTED", "5 runs in a row could not be started, the last one: no keeper answers")
    checks.told([RunState("web", 0, 2, RunReport.STARTED)], [])
    assert checks.failing() == ("", "")
    checks.told([refused] * REFUSED_MOST, [])
    monkeypatch.setattr(host_checks, "REFUSED_S", -1.0)  # it was asked to start nothing for so long
    assert checks.failing() == ("", "")
