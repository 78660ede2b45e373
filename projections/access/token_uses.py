"""Notes in the log that issued tokens are used: of each once an hour at most, so that one that nobody uses is seen."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from events.log.port import LogError
from events.records.pools import TokenUsed

EVERY_S = 3600.0
"""So often the use of a token is noted, by each server to which it is shown."""


class TokenUses:
    """Has `append` write that a token is used, in a thread of its own: no request waits for it. What can't be written
    is tried again with the next use.
    """

    def __init__(self, append: Callable[[TokenUsed], object], clock: Callable[[], float] = time.monotonic) -> None:
        self._append = append
        self._clock = clock
        self._noted: dict[str, float] = {}

    def note(self, token_id: str) -> None:
        """Notes a use."""
        now = self._clock()
        last = self._noted.get(token_id)
        if last is None or now - last >= EVERY_S:
            self._noted[token_id] = now
            threading.Thread(target=self._write, args=(token_id,), name="token-use", daemon=True).start()

    def _write(self, token_id: str) -> None:
        written = False
        with suppress(LogError):
            self._append(TokenUsed(token_id=token_id))
            written = True
        if not written:
            self._noted.pop(token_id, None)
