"""Copies views: `python -m paceline.moments.copy_views`, started by `paceline.moments.copier`."""

import os
import sys
import threading
from pathlib import Path

import msgspec

from events.process.file_locks import hold
from paceline.moments.copier import CopyOrder
from paceline.moments.copies import copy, thin_out

NICE = 15


def main() -> int:
    """Makes the copy that standard input orders, and leaves out others."""
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=CopyOrder)
    threading.Thread(target=end_with_input, daemon=True).start()
    os.nice(NICE)
    os.umask(0o077)
    folder = Path(order.folder)
    folder.mkdir(exist_ok=True)
    with hold(folder / "lock"):
        new_head = copy(Path(order.views), folder, order.work, order.log_bytes)
        if new_head is not None:
            thin_out(folder, order.log_times * new_head.log_bytes)
    return 0


def end_with_input() -> None:
    """Ends this process when nobody is left who wants its work."""
    while os.read(sys.stdin.fileno(), 4096):  # not through the buffer, whose lock would be held when this process ends
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
