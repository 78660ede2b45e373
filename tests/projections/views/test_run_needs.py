"""What hosts and sums show of runs that hold something else than their job asks: by overrides, or by alternatives."""

from pathlib import Path
from typing import Any

from tests.helpers.play import play
from tests.projections.access.test_limited_reads import OF_MAPS, asking
from tests.projections.ui.sites import Site, site

CELL = """
end: {end}
hosts:
  - {{name: h, resources: {{cpu: 16}},
     devices: [{{id: "0", kind: gpu, model: a100}}, {{id: "1", kind: gpu, model: t4}}]}}
pools: [{{path: /maps, reservation: {{cpu: 12, gpu: 2}}}}, {{path: /ads, reservation: {{cpu: 4}}}}]
jobs:
  - {{job_id: own, pool: /maps, kind: stateless, instances: 4, resources: {{cpu: 3}}, sim: {{duration: 10h, ready: 1s}},
     overrides: [{{instances: "0-1", resources: {{cpu: 1}}}}, {{instances: "2", resources: {{cpu: 2}}}}]}}
  - {{job_id: any, at: 1m, pool: /maps, instances: 2, sim: {{duration: 4m}},
     any_of: [{{resources: {{cpu: 1, gpu: 1}}, devices: {{models: {{gpu: a100}}}}}}, {{resources: {{cpu: 2}}}}]}}
  - {{job_id: other, pool: /ads, resources: {{cpu: 2}}, overrides: [{{instances: "0", resources: {{cpu: 1}}}}],
     sim: {{duration: 4m}}}}
"""
STOP = """events:
  - {at: 7m, stop: {job_id: own, instances: "0"}}
"""
UPDATE = """
  - {at: 8m, update: {job_id: own, pool: /maps, kind: stateless, instances: 4, resources: {cpu: 1},
     overrides: [{instances: "3", resources: {cpu: 500m}}], sim: {duration: 10h, ready: 1s}}}
"""


def cell(end: str, folder: Path, events: str = "") -> Any:
    """The pages and the API over that cell at a time."""
    return site(play(CELL.format(end=end) + events).run.cell.log, folder)


def host(shown: Site) -> tuple[int, Any, Any]:
    body = shown.api("/v1/hosts/h-1")
    return body["runs"], {name: body["allocated"].get(name, 0) for name in ("cpu", "gpu")}, body["shrunk"]


def test_a_host_holds_what_overrides_say_and_alternatives_that_were_taken(tmp_path: Path) -> None:
    with cell("3m", tmp_path / "a") as shown:
        assert host(shown) == (7, {"cpu": 7 + 3 + 1, "gpu": 1}, None)
        with asking(OF_MAPS):
            seen = shown.client.get("/v1/hosts/h-1").json()
        assert (seen["runs"], seen["allocated"]["cpu"], seen["allocated"]["gpu"]) == (6, 10, 1)


def test_it_is_given_back_when_runs_end_and_updates_bring_other_amounts(tmp_path: Path) -> None:
    with cell("6m", tmp_path / "a") as shown:
        assert host(shown) == (4, {"cpu": 7, "gpu": 0}, None)
    with cell("8m", tmp_path / "b", STOP) as shown:
        assert host(shown) == (3, {"cpu": 6, "gpu": 0}, None)
    with cell("30m", tmp_path / "c", STOP + UPDATE) as shown:
        runs, amounts, _ = host(shown)
        instances = [each["instance"] for each in shown.api("/v1/hosts/h-1/tasks")["tasks"]]
        assert amounts["cpu"] == sum(0.5 if each == 3 else 1 for each in instances)
        assert runs == len(instances) >= 3


def test_usage_counts_what_runs_asked_for_themselves(tmp_path: Path) -> None:
    with cell("6m", tmp_path / "a") as shown:
        by_job = {each["job_id"]: each for each in shown.api("/v1/usage?by=job")["usage"]}
        assert by_job["any"]["asked_cpu_ms"] == (1 + 2) * 240_000
        assert by_job["other"]["asked_cpu_ms"] == 240_000
