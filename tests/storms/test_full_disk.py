"""A cell on the embedded log whose disk is full for a while: it says so, and with room again nothing is lost."""

import signal
from pathlib import Path

import pytest

from tests.helpers.real_cell import CellProcess, verify
from tests.helpers.small_disk import can_mount, small_disk

pytestmark = pytest.mark.skipif(not can_mount(), reason="a disk of a test's own is for root to mount")
DISK_MIB = 192


@pytest.mark.parametrize("left_mib", [32, 0], ids=["almost full", "full"])
def test_a_cell_whose_disk_is_full_loses_nothing(tmp_path: Path, left_mib: int) -> None:
    """Below 64 MiB the log takes nothing, and the cell waits; one that finds no room at all where it writes ends."""
    with small_disk(tmp_path / "disk", DISK_MIB) as disk:
        cell = CellProcess(tmp_path / "disk" / "cell")
        cell.output = tmp_path / "said"
        cell.start()
        cell.pool("/p")
        cell.submit("before", 20)
        cell.submit("running", 20, duration="4s")
        disk.fill(left_mib)
        if left_mib:
            cell.until(lambda: "has less than 64 MiB free: make room there" in cell.output.read_text())
            spec = {"job_id": "refused", "pool": "/p", "command": ["true"]}
            assert cell.request("POST", "/v1/jobs", spec).status_code == 503
        else:
            cell.until(lambda: "ake room" in cell.output.read_text())
            if cell.process is not None and cell.process.poll() is None:
                code = cell.kill(signal.SIGTERM)
                last = cell.output.read_text().splitlines()[-1]
                assert code == 0 or (code == 1 and "Make room" in last), last  # what it writes as it ends found none
            else:
                assert cell.until_ended() == 1
            cell.launch()
            assert cell.until_ended() == 1
            assert "Make room" in cell.output.read_text().splitlines()[-1]
        disk.make_room()
        if not left_mib:
            cell.start()
        else:
            cell.until(lambda: "has room again" in cell.output.read_text())
        cell.until(lambda: cell.get("/readyz").status_code == 200)
        cell.submit("after", 20)
        for job_id in ("before", "running", "after"):
            cell.until(lambda job_id=job_id: cell.state(job_id) == "SUCCEEDED", 120)
        assert cell.state("refused") == ""
        cell.stop()
        found = verify(cell)
        assert (found["succeeded"], found["live"]) == (60, 0)
