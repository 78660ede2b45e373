"""Recovers one machine from its store in a process of its own: python -m bench._recover FOLDER MACHINE."""

import json
import sys
import time
from pathlib import Path

import psutil

from events.log.embedded import EmbeddedLog
from events.process.clock import SystemClock
from processors.cell_machines import machines
from processors.runtime.driver import Driver
from processors.runtime.store import RocksStore


def main(folder: Path, name: str) -> None:
    """Prints the time until the machine decides again, and the memory of the process; then how long it takes to read
    the same rows, and how much they are.
    """
    log = EmbeddedLog(folder / "log")
    begin = time.perf_counter()
    store = RocksStore(folder / "store" / name)
    driver = Driver(machines()[name](), log, store, SystemClock(), "bench")
    for _ in driver.recover():
        pass
    driver.run()
    seconds = time.perf_counter() - begin
    memory = psutil.Process().memory_info().rss / 2**20
    begin = time.perf_counter()
    size = sum(len(row or b"") for _, _, row in store.rows())
    beside = {f"raw_{name}_store_read_s": time.perf_counter() - begin, f"raw_{name}_store_mib": size / 2**20}
    figures = {f"{name}_recover_s": seconds, f"{name}_memory_mib": memory}
    print(json.dumps({"figures": figures, "references": beside}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
