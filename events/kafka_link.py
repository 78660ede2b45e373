"""Whether Kafka answers, as its clients see it."""

import sys
import threading
import time
from collections.abc import Callable

from confluent_kafka import KafkaError

RECENT_SECONDS = 1.0


def say_on_stderr(line: str) -> None:
    """The default of `on_trouble`."""
    sys.stderr.write(line + "\n")


class Link:
    """Whether the broker answers, as the clients of one log see it; says each change once."""

    def __init__(self, bootstrap: str, on_trouble: Callable[[str], None]) -> None:
        self.bootstrap = bootstrap
        self.away = False
        self._found = -RECENT_SECONDS
        self._doubted = 0.0
        self._on_trouble = on_trouble
        self._changing = threading.Lock()

    def on_error(self, error: KafkaError) -> None:
        """Takes what a client says about itself (`error_cb`)."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            return
        # Old news comes late, from clients that were not asked meanwhile: it counts when nothing answers after it.
        if time.monotonic() > self._found + RECENT_SECONDS:
            self.lost()
        elif not self._doubted:
            self._doubted = time.monotonic()

    def look(self) -> None:
        """Believes a doubt that nothing has dispelled for a while."""
        if self._doubted and time.monotonic() > self._doubted + RECENT_SECONDS:
            self._doubted = 0.0
            self.lost()

    def lost(self) -> None:
        """The broker doesn't answer."""
        with self._changing:
            said, self.away = self.away, True
        if not said:
            self._on_trouble(f"Kafka at {self.bootstrap} can't be reached: waiting for it.")

    def found(self) -> None:
        """The broker has answered."""
        self._found, self._doubted = time.monotonic(), 0.0
        if not self.away:
            return
        with self._changing:
            said, self.away = not self.away, False
        if not said:
            self._on_trouble(f"Kafka at {self.bootstrap} answers again.")
