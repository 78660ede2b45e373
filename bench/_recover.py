"""Recovers one machine from its store in a process of its own: python -m bench._recover FOLDER MACHINE."""

import json
import sys
import time
from pathlib import Path

import psutil

from events.clock import SystemClock
from events.embedded import EmbeddedLog
from paceline.machines import machines
from processors.driver import Driver
from processors.store import RocksStore


def main(folder: Path, name: str) -> None:
    """Prints the time until the machine decides again, and the memory of the process."""
    log = EmbeddedLog(folder / "log")
    begin = time.perf_counter()
    driver = Driver(machines()[name](), log, RocksStore(folder / "store" / name), SystemClock(), "bench")
    for _ in driver.recover():
        pass
    driver.run()
    seconds = time.perf_counter() - begin
    memory = psutil.Process().memory_info().rss / 2**20
    print(json.dumps({f"{name}_recover_s": seconds, f"{name}_memory_mib": memory}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
