"""Processes that share work: Ctrl-C is for the one that started them, which ends them at once."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import active_children


@contextmanager
def starting() -> Iterator[None]:
    """Processes that are started meanwhile never hear a Ctrl-C; here it is heard afterwards, as half of a process could
    not be ended. For the main thread.
    """
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))  # other threads may be told
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, before)
        if heard:
            signal.raise_signal(signal.SIGINT)


@contextmanager
def ended_by_ctrl_c() -> Iterator[None]:
    """Of an interrupt all processes are killed: nobody wants what they would still find."""
    try:
        yield
    except KeyboardInterrupt:
        for worker in active_children():
            worker.kill()
        raise
