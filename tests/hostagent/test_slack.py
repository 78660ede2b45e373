"""What a host lends, who is idle beside others, and who ends first where memory is short."""

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.codes import RunReport
from events.records.jobs import JobSubmitted
from hostagent import agent, slack
from hostagent.agent_settings import AgentSettings
from hostagent.groups import GroupFault, Limits, Tree
from hostagent.kernel import status_of
from hostagent.pressure import Candidate, first_to_end, is_short
from hostagent.run_record import Launch, Process, RunKey, Standing, read_json
from hostagent.runs import Runs, stop_all
from hostagent.slack import Asked, SlackMeter, need_of, slack_of
from tests.helpers.waiting import until
from tests.hostagent.test_agent import Site
from tests.hostagent.test_groups import REFUSED
from tests.hostagent.test_load import facts, rows

MINUTE_MS, SAMPLE_MS = 60_000, 5_000
KEY = RunKey("j", 0, 1)
MILLI = st.integers(0, 8000)


def test_a_young_run_needs_all_that_it_asked_for_and_then_less_and_less() -> None:
    need = need_of(4000, 4000, 500, True, SAMPLE_MS)
    assert need == 4000
    needs = [need := need_of(need, 4000, 500, False, SAMPLE_MS) for _ in range(240)]
    assert needs[11] < 3500
    assert needs[59] < 2000
    assert needs[-1] in range(625, 800), "the most that it used, and a quarter"
    assert need_of(need, 4000, 2000, False, SAMPLE_MS) == 2500, "at once"
    assert need_of(need, 4000, 9000, False, SAMPLE_MS) == 4000, "never more than it asked for"


@given(st.lists(st.tuples(MILLI, MILLI, st.integers(0, 10**6)), max_size=8), st.integers(1, 64_000), st.data())
def test_what_is_lent_is_within_what_was_asked_for_and_not_needed(
    runs: list[tuple[int, int, int]], capacity: int, data: st.DataObject
) -> None:
    needs = [data.draw(st.integers(0, request)) for request, _, _ in runs]
    requests = [request for request, _, _ in runs]
    lent = slack_of(requests, needs, capacity)
    assert 0 <= lent <= sum(requests)
    assert lent == 0 or lent + sum(needs) + capacity // 20 == sum(requests)
    for (request, peak, passed_ms), need in zip(runs, needs, strict=True):
        after = need_of(need, request, peak, False, passed_ms)
        assert 0 <= after <= request
        assert after >= min(request, peak), "who uses it keeps it"


def lend(meter: SlackMeter, used: list[int], age_ms: int = 10 * MINUTE_MS, start: int = 0) -> list[int]:
    """The steps that a host of 16 cores lends at each sample; two runs of it asked for 8 cores each."""
    return [
        meter.sample(
            [Asked(f"j/{at}/1", 8000, each, age_ms, False) for at in (0, 1)], 16_000, (start + number) * SAMPLE_MS
        )
        for number, each in enumerate(used)
    ]


def test_a_host_lends_more_when_three_samples_say_so_and_less_at_once(tmp_path: Path) -> None:
    said = lend(SlackMeter(tmp_path / "slack.json"), [800] * 480 + [8000, 800])
    assert said[0] == 0
    assert said[479] == 13, "16 cores, less two runs of 1 and 5 % of the host"
    assert said[480:] == [0, 0]
    assert said[:480] == sorted(said[:480])


def test_an_agent_that_is_started_anew_lends_what_it_lent(tmp_path: Path) -> None:
    before = lend(SlackMeter(tmp_path / "slack.json"), [800] * 240)[-1]
    assert abs(lend(SlackMeter(tmp_path / "slack.json"), [800], start=240)[0] - before) <= 1
    (tmp_path / "slack.json").write_text('["nonsense"]')
    assert lend(SlackMeter(tmp_path / "slack.json"), [800])[0] == 0


def test_young_runs_are_lent_nothing_of(tmp_path: Path) -> None:
    assert lend(SlackMeter(tmp_path / "slack.json"), [0] * 20, age_ms=MINUTE_MS)[-1] == 0


def candidate(job_id: str, used: int, asked: int, **more: object) -> Candidate:
    fields = {"revocable": False, "preemptible": True, "priority": 0, "started_ms": 0, **more}
    return Candidate(key=RunKey(job_id, 0, 1), memory_kib=used, asked_kib=asked, **fields)  # type: ignore[arg-type]


def test_revocable_runs_end_first_then_those_beyond_what_they_asked_for_and_nobody_else() -> None:
    firm = candidate("firm", 900, 100, preemptible=False)
    within, beyond = candidate("within", 90, 100), candidate("beyond", 200, 100, priority=5)
    low = candidate("low", 150, 100, priority=-1)
    spare = [candidate(f"spare-{at}", 100 + at, 100, revocable=True) for at in (1, 2)]
    order, runs = [], [firm, within, beyond, low, *spare]
    while (key := first_to_end(runs)) is not None:
        order.append(key.job_id)
        runs = [each for each in runs if each.key != key]
    assert order == ["spare-2", "spare-1", "low", "beyond"]
    assert {each.key.job_id for each in runs} == {"firm", "within"}


PLENTY = "MemTotal: 8000000 kB\nMemAvailable: 4000000 kB\n"


def test_memory_is_short_where_little_is_left_or_everything_stands_still_for_it() -> None:
    calm = "some avg10=80.00 avg60=0.00 total=1\nfull avg10=9.99 avg60=0.00 total=1\n"
    assert is_short(calm, PLENTY) == ""
    assert is_short("", PLENTY) == is_short("", "") == ""
    assert "12.5" in is_short(calm.replace("9.99", "12.50"), PLENTY)
    assert is_short(calm, PLENTY.replace("4000000", "200000")).startswith("195 MiB")


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    made = Runs(tmp_path)
    yield made
    made.close()
    assert stop_all(tmp_path)[1] == 0


def begin(runs: Runs, revocable: bool) -> int:
    """Starts a run that lasts, and returns its pid."""
    standing = Standing(cpu=1000, memory=64 << 20, revocable=revocable)
    runs.start(KEY, Launch(("sleep", "1000"), dict(os.environ), 1000, standing=standing))
    until(lambda: runs.poll() or runs.alive()[0].state == RunReport.STARTED, "the run to start")
    until(lambda: runs.alive()[0].state == RunReport.STARTED or (runs.poll() and False), "the run to start")
    process = read_json(runs.alive()[0].folder / "process.json", Process)
    assert process is not None
    return process.pid


@pytest.mark.parametrize("revocable", [True, False])
def test_a_revocable_run_leaves_the_cpu_to_all_others(runs: Runs, revocable: bool) -> None:
    pid = begin(runs, revocable)
    fields = status_of(pid)
    assert fields
    policy, nice = int(fields[38]), int(fields[16])
    assert (policy, nice) == (
        (os.SCHED_IDLE, 19) if revocable else (os.SCHED_OTHER, os.getpriority(os.PRIO_PROCESS, 0))
    )
    group = Path(f"/proc/{pid}/autogroup")
    if revocable and group.exists() and os.access(group, os.R_OK):
        assert group.read_text().split()[-1] == "19"


def test_a_revoked_run_is_told_so_with_the_reason(runs: Runs) -> None:
    begin(runs, True)
    runs.revoke(KEY, "195 MiB of memory were left on its host")
    until(lambda: not runs.alive() or (runs.poll() and not runs.alive()), "the run to end")
    (state,) = runs.unreported()
    assert (state.state, state.reason) == (RunReport.REVOKED, "195 MiB of memory were left on its host")


@pytest.mark.skipif(bool(REFUSED), reason=REFUSED)
def test_the_group_of_a_revocable_run_has_the_least_weight(tmp_path: Path) -> None:
    tree = Tree.take(f"idle-{os.getpid()}")
    group = tree.group("run")
    try:
        group.make(Limits(cpu_millis=4000, cpu_limit_millis=0, memory_bytes=64 << 20, processes=10, idle=True))
        weights = [Path(folder) / name for folder in group.folders.values() for name in ("cpu.shares", "cpu.weight")]
        assert max(int(path.read_text()) for path in weights if path.exists()) <= 3
    except GroupFault as fault:
        pytest.skip(str(fault))
    finally:
        group.remove()
        tree.remove()


def test_the_next_agent_knows_what_a_run_is_worth(tmp_path: Path, runs: Runs) -> None:
    begin(runs, True)
    (alive,) = Runs(tmp_path).alive()
    assert alive.standing is not None
    assert (alive.standing.revocable, alive.standing.cpu, alive.standing.memory) == (True, 1000, 64 << 20)


class IdleSite(Site):
    """A host of which a task asks for all."""

    def settings(self) -> AgentSettings:
        return replace(super().settings(), resources={"cpu": 4000, "memory": 1000})


def test_the_log_says_what_a_real_host_lends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "SAMPLE_S", 0.1)
    for name, value in (("YOUNG_MS", 0), ("YOUNG_BATCH_MS", 0), ("FALL_MS", 100)):
        monkeypatch.setattr(slack, name, value)
    site = IdleSite(tmp_path / "agent")
    site.start_agent()
    try:
        idle = (sys.executable, "-c", "import time; time.sleep(1000)")
        site.run(JobSubmitted(job_id="j", pool="/p", command=idle, resources={"cpu": 4000}))
        site.cell.until(lambda: any(rows(fact)[0][4] for fact in facts(site.cell)))
        steps = [rows(fact)[0][4] for fact in facts(site.cell)]
        assert max(steps) in range(1, 16)
    finally:
        site.stop_agent()
        assert stop_all(site.folder)[1] == 0
        site.cell.turn()
        site.cell.gateway.close()
        site.server.stop()
