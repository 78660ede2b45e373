"""Names for a shell that waits for Tab: in time or not at all, and never a word about our troubles."""

import re
import threading
from collections.abc import Callable
from contextlib import suppress

WHOLE_S = 1.0
"""Seconds for all that it takes, such as the address of a server, whatever the server does."""
_NAME = re.compile(r"[A-Za-z0-9._/-]+")
"""Names have only these characters, which no shell takes for more than a word."""


def in_time(names: Callable[[], list[str]]) -> list[str]:
    """The names that are found, those that a shell may have; none where they don't come in time or something fails."""
    result: list[str] = []

    def find() -> None:
        with suppress(Exception):
            there = names()
            result.extend([each for each in there if _NAME.fullmatch(each)] if isinstance(there, list) else ())

    finding = threading.Thread(target=find, daemon=True)
    finding.start()
    finding.join(WHOLE_S)
    return [] if finding.is_alive() else result
