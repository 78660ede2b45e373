"""Named resources in scenarios: what the cell knows, hosts offer, jobs ask for and expectations look at."""

from pathlib import Path

import pytest

from paceline.simulate.report.results import write_series
from paceline.simulate.report.series import main_resource
from paceline.simulate.scenario.parse import read_scenario
from paceline.simulate.session import RunOptions, of_scenario
from tests.helpers import ROOT
from tests.helpers.play import faults, play, verdicts

CELL = """
cell:
  resources: [{name: gpu/a100}, {name: scratch, unit: MiB}, {name: matlab, amount: 1}]
hosts:
  - {name: h, count: 2, resources: {cpu: 4, gpu/a100: 2, scratch: 4GiB, tpu: 1}}
pools:
  - {path: /p}
  - {path: /p/a}
  - {path: /p/b}
  - {path: /p/c}
jobs:
  - {job_id: a, pool: /p/a, instances: 5, resources: {cpu: 0.1, gpu/a100: 1}, sim: {duration: 10s}}
  - {job_id: b, pool: /p/b, instances: 3, resources: {cpu: 0.1, scratch: 3GiB}, sim: {duration: 10s}}
  - {job_id: c, pool: /p/c, instances: 2, resources: {cpu: 0.1, matlab: 1}, sim: {duration: 10s}}
"""


def test_the_example_with_two_gpus_and_a_licence_does_what_it_promises() -> None:
    path = str(ROOT / "examples" / "scenarios" / "two_gpus.yaml")
    session = of_scenario(read_scenario(path), "paceline simulate", RunOptions())
    session.run.run_to_end()
    session.finish()
    assert [each.text for each in session.run.watch.verdicts() if not each.holds] == []


def test_the_report_has_a_column_for_each_resource_and_plots_the_gpus_that_are_used_most(tmp_path: Path) -> None:
    session = play(CELL)
    write_series(session.series.samples, session.jobs, tmp_path)
    [head, *_] = (tmp_path / "series.csv").read_text().splitlines()
    assert head.endswith("gpu/a100_used,gpu/a100_capacity,scratch_used,scratch_capacity,matlab_used,matlab_capacity")
    assert "/p/b,scratch," in (tmp_path / "pools.csv").read_text()
    assert main_resource(session.series.samples) == "gpu/a100"
    assert session.body()["figures"]["mean_gpu/a100_used_percent"] > 50


def test_each_resource_is_counted_by_itself_and_a_licence_over_the_whole_cell() -> None:
    expect = """
expect:
  - {at: 5s, that: job a tasks RUNNING == 4}
  - {at: 5s, that: job b tasks RUNNING == 2}
  - {at: 5s, that: job c tasks RUNNING == 1}
  - {at: 5s, that: pool /p allocation gpu/a100 == 4}
  - {at: 5s, that: pool /p allocation scratch == 6GiB}
  - {at: 5s, that: pool /p allocation matlab == 1}
  - {at: 5s, that: pool /p allocation gpu == 0}
  - {by: 1m, that: job c is SUCCEEDED}
"""
    assert [observed for holds, observed, _ in verdicts(CELL + expect) if not holds] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cell: {resources: [{name: cpu}]}", "cpu is always there"),
        ("cell: {resources: [{name: cpus}]}", "cpus is too close to cpu"),
        ("cell: {resources: [{name: a, unit: GiB}]}", "must be 'milli' or 'MiB'"),
        ("hosts: [{name: g, resources: {cpu: 1, gpus: 8}}]", "did you mean gpu?"),
        ("pools: [{path: /p}]\nexpect: [{at: 1s, that: pool /p demand tpu == 1}]", "there is no resource tpu"),
    ],
)
def test_a_resource_that_makes_no_sense_is_named(text: str, message: str) -> None:
    assert any(message in each for each in faults(text)), faults(text)
