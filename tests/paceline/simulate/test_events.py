"""Whatever a scenario lets happen does happen, as the machines decide it."""

import pytest

from tests.helpers.play import CELL, play, verdicts

LONG = "jobs: [{job_id: a, pool: /p, instances: 4, resources: {cpu: 1}, sim: {duration: 20s}}]\n"


def holds(text: str):
    """All expectations of a scenario hold, and something was expected."""
    found = verdicts(text)
    assert found
    assert [each for each in found if not each[0]] == []


@pytest.mark.parametrize("what", ["fails", "leaves"])
def test_a_host_that_is_gone_is_declared_lost_and_its_tasks_run_again(what):
    happens = f"events: [{{at: 5s, {what}: h-1}}]\n"
    session = play(
        f"{CELL}{LONG}{happens}"
        """expect:
  - {at: 4s, that: host h-1 runs == 2}
  - {by: 2m, that: host h-1 is LOST}
  - {by: 3m, that: job a is SUCCEEDED}
  - {by: 3m, that: 'events HostSilent, HostLost, RunsEnded, TasksPlaced'}
"""
    )
    assert not session.failed()
    assert session.jobs.lost == 2


def test_a_host_that_failed_returns_with_nothing_on_it():
    holds(
        f"{CELL}{LONG}"
        """events: [{at: 5s, fails: h-1}, {at: 10s, returns: h-1}]
expect:
  - {at: 11s, that: host h-1 is UP}
  - {by: 1m, that: job a is SUCCEEDED}
  - never: host h-1 is LOST
"""
    )


def test_tasks_of_a_silent_host_go_on_and_are_there_when_it_returns():
    session = play(
        f"{CELL}{LONG}"
        """events: [{at: 5s, silent: h-1}, {at: 40s, returns: h-1}]
expect:
  - {at: 39s, that: host h-1 is SILENT}
  - {at: 41s, that: host h-1 is UP}
  - {by: 41s, that: job a is SUCCEEDED}
  - never: job a tasks SUCCEEDED > 4
"""
    )
    assert not session.failed()
    assert session.jobs.lost == 0


def test_an_operator_confirms_that_a_silent_host_is_lost():
    holds(
        f"{CELL}{LONG}"
        """events: [{at: 5s, silent: h-1}, {at: 40s, confirm_loss: h-1}]
expect:
  - {at: 39s, that: host h-1 is SILENT}
  - {at: 40s, that: host h-1 is LOST}
"""
    )


def test_a_host_that_has_left_is_removed_in_time_or_by_an_operator_and_may_come_again():
    """h-2 is given up after a minute and removed ten seconds later; h-1 is removed as soon as its loss is confirmed."""
    holds(
        f"{CELL}{LONG}"
        """cell: {host_removed_after: 10s}
events: [{at: 5s, silent: h-1}, {at: 40s, confirm_loss: h-1}, {at: 41s, remove: h-1}, {at: 60s, returns: h-1}]
expect:
  - {at: 40s, that: host h-1 is LOST}
  - {at: 42s, that: host h-1 is ABSENT}
  - {by: 70s, that: host h-1 is UP}
"""
    )


def test_a_whole_group_comes_fails_and_returns_at_its_times():
    holds(
        """
hosts: [{name: g, count: 3, resources: {cpu: 1}, joins: 10s, fails: 40s, returns: 50s, leaves: 90s}]
pools: [{path: /p}]
end: 100s
jobs: [{job_id: a, pool: /p, instances: 3, resources: {cpu: 1}, sim: {duration: 25s}}]
expect:
  - {at: 9s, that: host g-1 is ABSENT}
  - {at: 9s, that: job a waits for NO_HOSTS}
  - {at: 12s, that: cell tasks RUNNING == 3}
  - {at: 52s, that: host g-3 is UP}
  - {by: 60s, that: job a is SUCCEEDED}
"""
    )


@pytest.mark.parametrize("part", ["gateway", "lifecycle", "entitlement", "placement", "sla"])
def test_a_process_is_lost_and_another_takes_its_place(part):
    session = play(
        CELL
        + f"""jobs: [{{job_id: a, pool: /p, at: 5s, instances: 4, resources: {{cpu: 1}}, sim: {{duration: 2s}}}}]
events: [{{at: 4s, lose: {part}}}, {{at: 30s, heal: {part}}}]
expect:
  - {{by: 1m, that: job a is SUCCEEDED}}
"""
    )
    assert not session.failed()
    [verdict] = session.run.watch.verdicts()
    needed = part != "sla"
    assert (verdict.at_ms > 30_000) is needed, "a job needs all of them but sla"


def test_a_process_is_lost_in_the_middle_and_nothing_runs_twice():
    session = play(
        CELL
        + """jobs: [{job_id: a, pool: /p, instances: 20, resources: {cpu: 1}, sim: {duration: 10s}}]
events: [{at: 15s, lose: lifecycle}, {at: 15s, heal: lifecycle}, {at: 25s, lose: gateway}, {at: 26s, heal: gateway}]
expect: [{by: 2m, that: job a is SUCCEEDED}]
"""
    )
    assert not session.failed()
    assert session.jobs.first[0].runs == 20


def test_a_job_is_submitted_and_stopped():
    holds(
        CELL
        + """events:
  - at: 5s
    submit: {job_id: late, pool: /p, resources: {cpu: 1}, sim: {duration: 1h}}
  - {at: 20s, stop: late}
expect:
  - {at: 4s, that: job late is ABSENT}
  - {at: 19s, that: job late is RUNNING}
  - {by: 21s, that: job late is KILLED}
"""
    )


def test_a_pool_is_changed_and_removed():
    holds(
        CELL
        + """jobs: [{job_id: a, pool: /p, instances: 8, resources: {cpu: 1}, sim: {duration: 10s}}]
events:
  - {at: 5s, pool: {path: /p, limit: {cpu: 1}}}
  - {at: 5s, remove_pool: /q}
expect:
  - {at: 4s, that: pool /p allocation cpu == 4}
  - {at: 15s, that: pool /p allocation cpu == 1}
  - {at: 15s, that: job a waits for LIMIT_REACHED}
  - {at: 15s, that: pool /q entitlement cpu == 0}
"""
    )


def test_what_is_refused_is_told():
    session = play(
        CELL
        + """jobs: [{job_id: a, pool: /p, sim: {duration: 1m}}, {job_id: b, pool: /r, resources: {cpu: 1}}]
events: [{at: 1s, remove_pool: /p}]
"""
    )
    noes = [text.split(": ")[:2] for text in session.log_summary.refusals]
    assert noes == [["job b", "NO_SUCH_POOL"], ["pool /p", "POOL_IN_USE"]]
    assert session.log_summary.rejected == 1


def test_a_setting_of_the_cell_is_changed():
    holds(
        f"cell: {{host_lost_after: 20s}}\n{CELL}{LONG}"
        """events: [{at: 5s, fails: h-1}, {at: 5m, cell: {host_lost_after: 10m}}, {at: 6m, fails: h-2}]
end: 10m
expect:
  - {by: 1m, that: host h-1 is LOST}
  - {at: 9m, that: host h-2 is SILENT}
"""
    )


def test_tasks_are_played_as_the_scenario_says():
    session = play(
        """
hosts: [{name: h, resources: {cpu: 10}}]
pools: [{path: /p}]
end: 5m
jobs:
  - {job_id: each, pool: /p, instances: 3, sim: {durations: [10s, 20s, 30s]}}
  - {job_id: code, pool: /p, sim: {duration: 1s, exit_code: 3}}
  - {job_id: third, pool: /p, retries: {max: 2}, sim: {duration: 1s, fail_runs: 2}}
  - {job_id: slow, pool: /p, sim: {duration: 50s, ready: 40s}}
  - {job_id: deaf, pool: /p, stop_grace: 15s, sim: {duration: 1h, ignores_stop: true}}
events: [{at: 10s, stop: deaf}]
expect:
  - {at: 15s, that: job each tasks SUCCEEDED == 1}
  - {at: 25s, that: job each tasks SUCCEEDED == 2}
  - {by: 5s, that: job code is FAILED}
  - {by: 4m, that: job third is SUCCEEDED}
  - {at: 39s, that: job slow tasks RUNNING == 0}
  - {at: 41s, that: job slow tasks RUNNING == 1}
  - {at: 24s, that: job deaf is KILLING}
  - {at: 26s, that: job deaf is KILLED}
"""
    )
    assert not session.failed(), session.failed()


def test_durations_are_drawn_by_seed_and_job():
    text = """
hosts: [{name: h, resources: {cpu: 100}}]
pools: [{path: /p}]
jobs:
  - {job_id: u, pool: /p, instances: 50, sim: {draw: {uniform: [10s, 20s]}}}
  - {job_id: e, pool: /p, instances: 50, sim: {draw: {exponential: 10s}}}
  - {job_id: l, pool: /p, instances: 50, sim: {draw: {lognormal: {median: 10s, p90: 1m}}}}
expect:
  - {at: 9s, that: job u tasks SUCCEEDED == 0}
  - {by: 20s, that: job u is SUCCEEDED}
"""
    first, again, other = play(f"seed: 1{text}"), play(f"seed: 1{text}"), play(f"seed: 2{text}")
    assert not first.failed()
    assert first.body()["hash"] == again.body()["hash"] != other.body()["hash"]
    ended = {job.job_id: job.ended_ms for job in first.jobs.first}
    assert ended["e"] > ended["u"] < ended["l"], "these have a long tail"
