"""Whole cores on a real cell whose agent is told two NUMA nodes of eight cores, and a card at each."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.real_cell import CellProcess

HARDWARE = """\
devices:
  - {id: "0", kind: gpu, numa: 0}
  - {id: "1", kind: gpu, numa: 1}
cores: {nodes: 2, cores: 8}
"""


def submit(cell: CellProcess, job_id: str, **asked: Any) -> None:
    body = {"job_id": job_id, "pool": "/p", "command": ["sleep", "infinity"], "resources": {"memory": "16MiB"}} | asked
    answer = cell.request("POST", "/v1/jobs?wait=20s", body)
    assert answer.status_code == 201, answer.text


def nodes_of(cell: CellProcess, job_id: str) -> set[int]:
    """The NUMA nodes of the cores and cards that the running tasks of a job have."""
    tasks = cell.get(f"/v1/jobs/{job_id}/tasks").json()["tasks"]
    cores = {number // 8 for task in tasks for number in task.get("cores", ())}
    return cores | {int(device["id"]) for task in tasks for device in task.get("devices", ())}


def reason(cell: CellProcess, job_id: str) -> str:
    """Why a job waits, in words."""
    told: str = cell.get(f"/v1/jobs/{job_id}/explanation").json()["headline"]["message"]
    return told


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[CellProcess]:
    hardware = tmp_path / "hardware.yaml"
    hardware.write_text(HARDWARE)
    started = CellProcess(tmp_path / "cell", sim_hosts=0, agent=True, options=("--devices", str(hardware)))
    started.start()
    try:
        started.pool("/p")
        yield started
    finally:
        started.end()


def test_a_third_task_of_five_cores_waits_with_the_numbers_of_both_nodes_and_starts_when_one_ends(
    cell: CellProcess,
) -> None:
    for job_id in ("one", "two", "three"):
        submit(cell, job_id, cores=5, numa="one")
    cell.until(lambda: [cell.state(job_id) for job_id in ("one", "two")] == ["RUNNING", "RUNNING"])
    assert nodes_of(cell, "one") | nodes_of(cell, "two") == {0, 1}
    assert len(nodes_of(cell, "one")) == 1, "no task is over two nodes"
    cell.until(lambda: "node 0: 3" in reason(cell, "three"))
    assert "node 1: 3 of 5 cores" in reason(cell, "three")
    assert cell.get("/v1/jobs/three/tasks").json()["tasks"][0]["host_id"] is None
    assert cell.request("POST", "/v1/jobs/one/stops", {}).status_code in (200, 202)
    cell.until(lambda: cell.state("three") == "RUNNING")
    assert len(nodes_of(cell, "three")) == 1


def test_cores_and_a_card_are_of_one_node_or_the_task_waits_with_the_numbers_of_both(cell: CellProcess) -> None:
    submit(cell, "small", cores=1, numa="one", resources={"memory": "16MiB", "gpu": 1})
    cell.until(lambda: cell.state("small") == "RUNNING")
    assert len(nodes_of(cell, "small")) == 1
    submit(cell, "wide", cores=5, numa="one", instances=2)
    cell.until(lambda: len(nodes_of(cell, "wide")) == 2)
    submit(cell, "pair", cores=5, numa="one", resources={"memory": "16MiB", "gpu": 1})
    cell.until(lambda: "of 1 gpu and 5 cores" in reason(cell, "pair"))
    [small] = nodes_of(cell, "small")
    assert f"node {small}: 0 gpu and 2 cores" in reason(cell, "pair")
    assert f"node {1 - small}: 1 gpu and 3 cores" in reason(cell, "pair")
    assert cell.request("POST", "/v1/jobs/wide/stops", {}).status_code in (200, 202)
    cell.until(lambda: cell.state("pair") == "RUNNING")
    assert nodes_of(cell, "pair") == {1 - small}
