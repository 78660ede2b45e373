"""Carries out all attacks at all levels of this machine, and writes the table of `docs/security.md`."""

import sys
import time

from tests.hostile.suite import LEVELS, measured, refused
from tests.hostile.table import put, text


def main() -> None:
    """Some minutes; nothing is harmed, see `attacks.py`."""
    found: dict[str, dict[str, bool]] = {}
    for level in LEVELS:
        began_s = time.monotonic()
        if why := refused(level):
            print(f"{level.name} isn't there: {why}")  # noqa: T201
            continue
        found[level.name] = measured(level, short=False)
        works = [name for name, stopped in found[level.name].items() if not stopped]
        print(f"{level.name}: {len(works)} work, {time.monotonic() - began_s:.0f} s", *works, sep="\n  ")  # noqa: T201
    if len(found) < 4:
        sys.exit("the table is for a machine with control groups, and for root: it stays as it was")
    put(text(found))


if __name__ == "__main__":
    main()
