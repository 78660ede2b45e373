"""A process that appends to an embedded log until it is killed or its disk fails.

`python -m tests.events.log.writer FOLDER [BYTES]` prints the offset of each acknowledged batch. With BYTES, no file of
it may grow beyond that.
"""

import random
import resource
import sys
from pathlib import Path

from events.log.embedded import EmbeddedLog
from events.log.port import AppendUnknown, LogFault, NewRecord

A, B = "contract.a", "contract.b"
BATCH = 3
REFUSED = 7
"""Exit code where an append failed and the next one was refused."""


def batch(first: int) -> list[NewRecord]:
    """The batch at an offset of A: all of it is there, or nothing."""
    filling = random.Random(first).randbytes(300)
    records = [NewRecord(A, b"", b"%d %d " % (first, number) + filling) for number in range(BATCH)]
    return [*records, NewRecord(B, b"", b"%d" % first)]


def write(log: EmbeddedLog) -> None:
    """Appends batch after batch."""
    while True:
        first = log.bounds(A)[1]
        log.append(batch(first))
        print(first, flush=True)  # noqa: T201


def main() -> int:
    """Ends only by a failure."""
    log = EmbeddedLog(Path(sys.argv[1]))
    if len(sys.argv) > 2:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
    try:
        write(log)
    except AppendUnknown:
        try:
            log.append(batch(0))
        except LogFault:
            return REFUSED
    return 1


if __name__ == "__main__":
    sys.exit(main())
