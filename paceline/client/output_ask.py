"""The question that API, gateway and agent ask one another for the output of a run."""

from typing import NamedTuple

WAIT_MAX_MS = 20_000
"""So long a question may wait at a host until the run has written more."""


class OutputAsk(NamedTuple):
    """Asks for a piece of a stream, stdout or stderr, of a run's output: at most `limit` bytes from byte `offset` on; a
    negative offset counts from the end. Where there is nothing yet, the host waits for up to `wait_ms` until there is
    more, or until the other stream has more than `other_offset` bytes (negative: whatever the other has).
    """

    job_id: str
    instance: int
    run: int
    stream: str
    offset: int
    limit: int
    wait_ms: int = 0
    other_offset: int = -1
