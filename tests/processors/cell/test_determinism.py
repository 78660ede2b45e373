"""The same work gives the same log, byte for byte, whatever the seed of Python's hashes."""

import os
import subprocess
import sys

from tests.helpers import ROOT

SCRIPT = """
from hashlib import blake2b
from events.records.parts import Constraint, Simulated
from events.topics import ALL
from tests.helpers.whole_cell import Cell

cell = Cell(hosts=5)
for pool in ("/a", "/b", "/c"):
    cell.pool(pool, {"cpu": 2000})
for number in range(30):
    cell.submit(
        f"j{number}", pool="/" + "abc"[number % 3], instances=1 + number % 7, resources={"cpu": 300}, retries_max=1,
        labels={"x": "1", "y": "2"}, ports=("http", "admin"), strategy=("pack", "spread")[number % 2],
        constraints=(Constraint("hostname", "exists"), Constraint("gpu", "absent")),
        simulated=Simulated(duration_ms=400, fail_runs=number % 2),
    )
cell.run(20_000)
cell.verify()
hasher = blake2b()
for topic in ALL:
    for record in cell.log.scan(topic.name, 0):
        hasher.update(f"{topic.name} {record.offset} {record.at_ms}".encode() + record.value)
print(hasher.hexdigest())
"""


def test_the_seed_of_hashes_changes_nothing() -> None:
    found = set()
    for seed in ("0", "1", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, cwd=ROOT)
        assert done.returncode == 0, done.stderr
        found.add(done.stdout)
    assert len(found) == 1
