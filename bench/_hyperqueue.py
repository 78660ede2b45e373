"""Runs a second of HyperQueue on this machine: `python bench/_hyperqueue.py COUNT PROGRAM SIDE_BY_SIDE`.

It needs the wheel (`pip install hyperqueue`), and exits with `MISSING` where that isn't installed.
"""

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

MISSING = 3


def main() -> int:
    """Prints the rate as its last line."""
    try:
        from hyperqueue import Job, LocalCluster
        from hyperqueue.cluster import WorkerConfig
    except ImportError:
        return MISSING
    count, program, side_by_side = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    with TemporaryDirectory() as output, LocalCluster() as cluster:
        cluster.start_worker(WorkerConfig(cores=side_by_side))
        client, job = cluster.client(), Job(default_workdir=Path(output))
        for _ in range(count):
            job.program([program])
        begin = time.perf_counter()
        client.wait_for_jobs([client.submit(job)])
        rate = count / (time.perf_counter() - begin)
    print(f"\n{rate}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
