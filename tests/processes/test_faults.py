"""A fault of each kind, at each kind of process, under load."""

import resource
from pathlib import Path

import pytest

from events.topics import MACHINES
from tests.helpers.broker import Broker
from tests.helpers.site import Site, empty
from tests.processes.storm import AGENT, KINDS, POOLS, storm

FAULTS = [
    *(("kill -9", kind) for kind in KINDS),
    ("kill -9", "broker"),
    ("kill -9 holder of", AGENT),
    ("kill -9 keepers of", AGENT),
    ("SIGSTOP", "placement"),
    ("SIGSTOP", "gateway.0"),
    ("SIGTERM", "projector"),
    *(("gone", kind) for kind in (*MACHINES, "fanout", "gateway.0")),
    ("rebalance", "lifecycle"),
    ("away", "broker"),
    ("foreign store", "entitlement"),
]
FILE_MAX = 16 * 1024
"""No file grows beyond it: more than what the process says, less than what it keeps of a big job."""


def test_each_kind_of_process_may_die_freeze_or_lose_its_cell(broker: Broker, tmp_path: Path) -> None:
    empty(broker, len(POOLS))
    found = storm(tmp_path, broker, FAULTS, seed=1)
    assert (found.lost, found.doubled, found.hash_mismatches, found.violations) == (0, 0, 0, 0), found
    assert len(found.times_s) == len(FAULTS)


@pytest.mark.parametrize("name", ["lifecycle", "projector"])
def test_a_cell_whose_disk_is_full_says_so_goes_on_with_room_and_nothing_is_lost(
    broker: Broker, tmp_path: Path, name: str
) -> None:
    site = Site(tmp_path, empty(broker, 1))
    try:
        site.begin()
        site.pool("/p")
        before = resource.prlimit(site.processes.pid(name), resource.RLIMIT_FSIZE)
        resource.prlimit(site.processes.pid(name), resource.RLIMIT_FSIZE, (FILE_MAX, before[1]))
        site.submit("late", 2000)
        site.until(lambda: "can't be written" in site.status(name, 0).get("failed", ""), f"{name} to say why")
        assert "stopped: The " in site.said(name)
        resource.prlimit(site.processes.pid(name), resource.RLIMIT_FSIZE, before)
        site.until_ready(name)
        assert "works again" in site.said(name)
        site.finish("late")
        site.end()
    finally:
        site.processes.stop_all()
    assert site.verify()["ordered"] == 2000
