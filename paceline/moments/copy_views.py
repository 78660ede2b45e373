"""Copies views: `python -m paceline.moments.copy_views`, started by `paceline.moments.copier`."""

import os
import sys
from pathlib import Path

from events.process.file_locks import hold
from paceline.moments.copier import CopyOrder
from paceline.moments.copies import copy, thin_out
from paceline.moments.ordered_work import read_order

NICE = 15


def main() -> int:
    """Makes the copy that standard input orders, and leaves out others."""
    order = read_order(CopyOrder, NICE)
    os.umask(0o077)
    folder = Path(order.folder)
    folder.mkdir(exist_ok=True)
    with hold(folder / "lock"):
        new_head = copy(Path(order.views), folder, order.work, order.log_bytes)
        if new_head is not None:
            thin_out(folder, order.log_times * new_head.log_bytes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
