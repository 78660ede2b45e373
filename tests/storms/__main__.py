"""`make storm`: kills of a cell in one process, fifty on each log, then faults one after the other on two cells
of processes with live tasks beside the load.

    python -m tests.storms [FAULTS [LIVE]]

Prints what each part counted, and all of it as JSON in the last line; exits with 1 where anything was lost, doubled or
differs, or the checker of simulations finds what must not be.
"""

import json
import sys
import tempfile
from itertools import islice
from pathlib import Path

from events.kafka_topics import create
from tests.broker import Broker
from tests.processes.storm import POOLS, all_faults
from tests.processes.storm import storm as storm_processes
from tests.storms.storm import storm
from tests.storms.stormed import Stormed, percentile

KILLS = 50
SEED = 3


def main(faults: int = 100, live: int = 100_000) -> int:
    """Storms everywhere."""
    parts: list[Stormed] = []

    def add(found: Stormed) -> None:
        parts.append(found)
        print(found, end="\n\n", flush=True)  # noqa: T201

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        add(storm(folder / "embedded", KILLS, 1))
        with Broker(folder / "kafka") as broker:
            create(broker.address, 1)
            add(storm(folder / "on-kafka", KILLS, 2, broker.address))
        with Broker(folder / "kafka-of-processes") as broker:
            create(broker.address, len(POOLS))
            add(storm_processes(folder / "site", broker, islice(all_faults(SEED), faults), SEED, live))
    back_s = {name: times for part in parts for name, times in part.back_s.items()}
    times = [each for part in parts for each in part.times_s]
    totals = {
        "faults": len(times),
        "kills": sum(len(each) for name, each in back_s.items() if name.startswith(("kill -9", "gone", "cold"))),
        **{
            name: sum(getattr(part, name) for part in parts)
            for name in ("tasks", "lost", "doubled", "hash_mismatches", "violations")
        },
        "recovery_p99_s": round(percentile(times, 99), 2),
    }
    print(json.dumps(totals))  # noqa: T201
    return int(any(totals[name] for name in ("lost", "doubled", "hash_mismatches", "violations")))


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
