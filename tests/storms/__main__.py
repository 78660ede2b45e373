"""`make storm`: so many kills, three tenths of them of a cell in one process on each log, the others of processes of
two cells with live tasks beside the load; among them other faults, one after the other.

    python -m tests.storms [KILLS [LIVE]]

Prints what each part counted, and all of it as JSON in the last line (`recovery_p99_s`: the longest p99 of the parts);
exits with 1 where anything was lost, doubled or differs, or the checker of simulations finds what must not be. Every
minute it says on stderr how far it is.
"""

import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from events.log.kafka.topics import create
from tests.helpers.broker import Broker
from tests.helpers.site import empty
from tests.helpers.stormed import KILLING, Stormed, percentile
from tests.processes import storm as processes
from tests.storms import storm as cells

SEED = 3
SAY_EVERY_S = 60.0
ONLY_BROKER = {"broker.session.timeout.ms": "2000"}
"""Killed, it isn't let in again before its own session has ended (docs/operations.md)."""


def until_killed(faults: Iterable[tuple[str, str]], kills: int) -> Iterator[tuple[str, str]]:
    """Faults, until so many of them were kills."""
    left, said = kills, time.monotonic()
    for way, name in faults:
        if time.monotonic() - said > SAY_EVERY_S:
            said = time.monotonic()
            print(f"{kills - left} of {kills} kills", file=sys.stderr, flush=True)  # noqa: T201
        yield way, name
        left -= way in KILLING
        if left <= 0:
            return


def main(kills: int = 100, live: int = 100_000) -> int:
    """Storms everywhere."""
    of_one = max(1, kills * 3 // 10)
    of_processes = max(1, kills - 2 * of_one)
    parts: list[Stormed] = []

    def add(found: Stormed) -> None:
        parts.append(found)
        print(found, end="\n\n", flush=True)  # noqa: T201

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        add(cells.storm(folder / "embedded", until_killed(cells.all_faults(SEED, True), of_one), 1))
        with Broker(folder / "kafka", ONLY_BROKER) as broker:
            create(broker.address, 1)
            faults = until_killed(cells.all_faults(SEED, False), of_one)
            add(cells.storm(folder / "on-kafka", faults, 2, broker.address))
            empty(broker, len(processes.POOLS))
            faults = until_killed(processes.all_faults(SEED), of_processes)
            add(processes.storm(folder / "site", broker, faults, SEED, live))
    back_s = {name: times for part in parts for name, times in part.back_s.items()}
    totals = {
        "faults": sum(map(len, back_s.values())),
        "kills": sum(len(each) for name, each in back_s.items() if name.startswith(KILLING)),
        **{
            name: sum(getattr(part, name) for part in parts)
            for name in ("tasks", "lost", "doubled", "hash_mismatches", "violations")
        },
        "recovery_p99_s": round(max(percentile(part.times_s, 99) for part in parts), 2),
    }
    print(json.dumps(totals))  # noqa: T201
    return int(any(totals[name] for name in ("lost", "doubled", "hash_mismatches", "violations")))


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
