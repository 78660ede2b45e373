"""`make storm`: the whole cell is killed under load, again and again, on each log; nothing may be lost or doubled.

python -m tests.storms.storm [KILLS]
"""

import random
import sys
import tempfile
import time
from pathlib import Path

from events.kafka_topics import create
from tests.broker import Broker
from tests.storms.cell import CellProcess, verify


def storm(data: Path, kills: int, seed: int, kafka: str = "") -> dict[str, int]:
    """Kills a cell `kills` times while jobs come in; waits for all of them; returns what was counted."""
    draw = random.Random(seed)
    cell = CellProcess(data, kafka)
    cell.start()
    cell.pool("/p")
    jobs: list[str] = []
    for _ in range(kills):
        for _ in range(draw.randrange(1, 4)):
            job_id = f"job-{len(jobs)}"
            cell.submit(job_id, draw.choice([1, 20, 200]), retries={"max": 1})
            jobs.append(job_id)
        time.sleep(draw.uniform(0.0, 1.0))
        cell.kill()
        cell.start()
    cell.until(lambda: all(cell.state(job_id) == "SUCCEEDED" for job_id in jobs[-3:]), 120)
    for job_id in jobs:
        cell.until(lambda job_id=job_id: cell.state(job_id) == "SUCCEEDED", 120)
    cell.stop()
    found = verify(cell)
    assert found["live"] == 0
    return {"kills": kills, "jobs": len(jobs), **found}


def main(kills: int) -> None:
    """Storms on both logs and prints what was counted."""
    with tempfile.TemporaryDirectory() as folder:
        print("embedded", storm(Path(folder) / "embedded", kills, seed=1), flush=True)  # noqa: T201
        with Broker(Path(folder) / "kafka") as broker:
            create(broker.address, partitions=1)
            print("kafka", storm(Path(folder) / "on-kafka", kills, 2, broker.address), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
