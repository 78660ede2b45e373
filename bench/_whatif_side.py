"""One side of a pair of `bench whatif`, as a process: `python -m bench._whatif_side HISTORY FROM_MS TO_MS JITTER_MS`.

HISTORY is a data folder, or a file of `paceline log export`. Prints as JSON the CPU of reading history and of a branch
without a change, and how like history that is.
"""

import gc
import json
import sys
import time
from pathlib import Path

from paceline.history.importer import imported_history
from paceline.history.open_log import open_log
from paceline.history.start_state import start_of
from paceline.services.process_setup import GC_THRESHOLDS
from paceline.services.settings import load
from paceline.whatif.branch import Branch, Change
from paceline.whatif.figures import Measured, share_on_same_host, share_within
from paceline.whatif.stretch import read_stretch
from tests.paceline.whatif.recorded import orders

NEAR_S = (1, 10, 60)


def main() -> None:
    """Runs it."""
    gc.set_threshold(*GC_THRESHOLDS)
    history, (from_ms, to_ms, jitter_ms) = Path(sys.argv[1]), map(int, sys.argv[2:])
    file, data = (history, None) if history.is_file() else (None, history)
    with imported_history(file, data) as folder:
        opened = load(None, data=folder)
        log = open_log(opened)
        began = time.process_time()
        stretch = read_stretch(log, from_ms, to_ms, lambda name: start_of(opened.data, name))
        _ = stretch.lengths  # learnt once, for all sides
        read_s = time.process_time() - began
        began = time.process_time()
        branch = Branch(stretch, Change(), 1, jitter_ms)
        branch.run()
        side_s = time.process_time() - began
        recorded = Measured(stretch.runs, from_ms, to_ms)
        again = Measured(branch.table, from_ms, to_ms)
        before, after = (orders(table, from_ms, to_ms) for table in (stretch.runs, branch.table))
        out = {
            "read_cpu_s": read_s,
            "side_cpu_s": side_s,
            "orders": len(before),
            "alike_percent": 100 * len(before & after) / max(1, len(before)),
            "same_host_percent": _percent(share_on_same_host(recorded.waits, again.waits)),
            "preempted": recorded.figures["cell", ""]["preempted", ""],
            "preempted_again": again.figures["cell", ""]["preempted", ""],
        }
        for near_s in NEAR_S:
            out[f"within_{near_s}_s_percent"] = _percent(share_within(recorded.waits, again.waits, near_s * 1000))
        branch.close()
        log.close()
    print(json.dumps(out))


def _percent(share: float | None) -> float:
    return float("nan") if share is None else 100 * share


if __name__ == "__main__":
    main()
