"""Takes snapshots of a machine at work, beside it."""

import shutil
import threading
import time
from collections.abc import Callable

from events.acceptance import Chain
from processors.machine import Machine
from processors.runtime.snapshots import NoRoundYet, put, stage, stored
from processors.runtime.store import RocksStore

RETRY_S = 60.0
"""So long after a snapshot that could not be taken the next is tried."""
PAUSE_SECONDS = 0.001
"""The machine's rounds go before: the check of the rows pauses for so long again and again."""


class Snapshotter:
    """Takes a snapshot whenever the rounds of a machine cover `every` offsets more than the newest one does: so much at
    most, and what comes while one is uploaded, must be read by an owner without a store. `url`: where they are kept.

    For the thread that steps the machine; all work is done in one beside it. What goes wrong is said, and tried again.
    """

    def __init__(self, url: str, cell: int, machine: Machine, every: int, say: Callable[[str], None]) -> None:
        self.round = 0
        """The round of the newest snapshot; 0: none is known."""
        self._url = url
        self._cell = cell
        self._machine = machine
        self._every = every
        self._say = say
        self._covered: int | None = None
        """The offsets that the newest snapshot covers; None: not looked up yet."""
        self._thread: threading.Thread | None = None
        self._retry_at = 0.0

    def check(self, store: RocksStore, own: Chain) -> None:
        """Between two turns of the machine: starts a snapshot of its open store where one is due."""
        covered = own.position + sum(own.inputs.values())
        if self._covered is not None and covered - self._covered < self._every:
            return
        if (self._thread is None or not self._thread.is_alive()) and time.monotonic() >= self._retry_at:
            self._thread = threading.Thread(target=self._work, args=(store, own.round), daemon=True)
            self._thread.start()

    def _work(self, store: RocksStore, round_: int) -> None:
        try:
            if self._covered is None:
                self._find_newest(round_)
            else:
                self._take(store)
        except NoRoundYet:
            return  # the first is on its way to the store
        except Exception as error:  # whatever it is, the machine goes on
            self._retry_at = time.monotonic() + RETRY_S
            self._say(f"no snapshot could be taken: {error}")

    def _find_newest(self, round_: int) -> None:
        """Looks up what the newest snapshot covers; one of a later round than the machine's is of another history."""
        manifests = (
            each.manifest for each in stored(self._url, self._cell, self._machine.name) if each.round <= round_
        )
        newest = next((manifest for manifest in manifests if manifest is not None), None)
        self.round, self._covered = (newest.round, newest.covered) if newest else (0, 0)

    def _take(self, store: RocksStore) -> None:
        folder = stage(store)
        try:
            manifest = put(folder, self._url, self._cell, self._machine, PAUSE_SECONDS)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        self.round, self._covered = manifest.round, manifest.covered
