"""The command line of the benchmarks."""

import argparse
import gc
import importlib
import json
import math
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import CORES, LOGS, QUICK, Options, Result
from paceline.services.process_setup import GC_THRESHOLDS

HERE = Path(__file__).parent
NAMES = sorted(path.stem.replace("_", "-") for path in HERE.glob("[!_]*.py"))


def main() -> int:
    """Runs one bench and prints its figures."""
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--log", choices=LOGS, default="embedded")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    parser.add_argument("--processes", action="store_true", help="cell: each part a process of its own, on Kafka")
    parser.add_argument("--hosts", type=int, default=0, help="cell: one cell of so many hosts, full, on Kafka")
    parser.add_argument(
        "--seeds", type=int, default=0, help="placement-quality: so many orders of arrival instead of ten"
    )
    parser.add_argument("--workloads", type=int, default=0, help="placement-quality: the first so many instead of 17")
    parser.add_argument("--traces", type=Path, help="forecast: a folder with the trace of Metacentrum")
    parser.add_argument("--quick", action="store_true", help="on little work, to see that all of it runs")
    arguments = parser.parse_args()
    gc.set_threshold(*GC_THRESHOLDS)  # as the command does
    if arguments.quick:
        os.environ[QUICK] = "1"
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])  # and all that it starts
    with TemporaryDirectory(prefix="paceline-bench-") as folder:
        result: Result = importlib.import_module(f"bench.{arguments.name.replace('-', '_')}").run(
            arguments.log,
            Options(
                Path(folder),
                arguments.processes,
                arguments.hosts,
                arguments.seeds,
                arguments.workloads,
                arguments.traces,
            ),
        )
    if arguments.json:
        parts = {
            part: {name: number for name, number in numbers.items() if not math.isnan(number)}
            for part, numbers in (("figures", result.figures), ("references", result.references))
        }
        print(json.dumps({"bench": arguments.name, "log": arguments.log, **parts}))
        return 0
    for title, numbers in (("figures", result.figures), ("references", result.references)):
        print(f"{arguments.name} on {arguments.log}: {title}")
        for name, number in numbers.items():
            target = f"   target {result.targets[name]:,g}" if name in result.targets else ""
            print(f"  {name:<44} {'not here' if math.isnan(number) else f'{number:,.3f}':>14}{target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
