"""Starts the keepers of a host and replaces those that die: `python -I -S -E holder.py FOLDER COUNT LOCK_FD FILES`.

The interpreter is isolated and finds nothing but the standard library; what is Paceline's is found behind that. It
keeps no state, so nothing is lost with it: keepers go on and take starts. What a dead keeper leaves of its runs comes
to this process, and is ended. LOCK_FD: `holder.lock`, held as long as it lives, with its pid and the digest of its
code. FILES: how many files a run may have open.
"""

import gc
import os
import resource
import signal
import sys
import time
from contextlib import suppress

sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
from hostagent import kernel
from hostagent.keeper import system
from hostagent.keeper.code import digest
from hostagent.keeper.loop import Keeper

AGAIN_S = 1.0
"""A keeper that died younger than this is replaced so much later."""


class Holder:
    """The parent of the keepers."""

    def __init__(self, folder: str, count: int, lock: int, files: int) -> None:
        self._folder, self._lock, self._files = folder, lock, files
        self._code = digest()
        os.pwrite(lock, f"{os.getpid()} {self._code}".encode(), 0)
        self._keepers: dict[int, tuple[int, float]] = {}
        """The slot of each keeper by its pid, and when it was forked."""
        for slot in range(count):
            self._fork(slot)

    def run(self) -> None:
        """Replaces keepers until all have ended by themselves."""
        while self._keepers:
            pid, status = os.wait()
            slot, born_s = self._keepers.pop(pid, (-1, 0.0))
            if slot >= 0 and os.waitstatus_to_exitcode(status):
                os.write(2, f"keeper {pid} died: {os.waitstatus_to_exitcode(status)}\n".encode())
                if time.monotonic() - born_s < AGAIN_S:
                    time.sleep(AGAIN_S)
                self._fork(slot)
            self._end_orphans()

    def _fork(self, slot: int) -> None:
        pid = os.fork()
        if pid:
            self._keepers[pid] = slot, time.monotonic()
            return
        code = 1
        try:
            os.close(self._lock)
            self._keepers = {}
            Keeper(self._folder, slot, self._code, self._files).run()
            code = 0
        except BaseException:
            system.say_trouble()
        finally:
            os._exit(code)

    def _end_orphans(self) -> None:
        """Kills what a dead keeper has left; what that leaves comes here too and is killed when it does."""
        for pid in kernel.children():
            if pid not in self._keepers:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def main() -> None:
    """Runs; the agent has made this process the leader of a session."""
    folder, count, lock, files = sys.argv[1], *map(int, sys.argv[2:5])
    os.set_inheritable(lock, False)
    os.chdir("/")
    os.umask(0o077)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (system.most_files(hard), hard))
    system.adopt_orphans()
    gc.disable()
    gc.freeze()
    Holder(folder, count, lock, files).run()


if __name__ == "__main__":
    main()
