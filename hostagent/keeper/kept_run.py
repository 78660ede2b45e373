"""One run in its keeper, from its order to its end on disk.

In `runs/JOB/INSTANCE/RUN/`, where no task works, it finds `order.json` and leaves

* `process.json`: that the run has begun, before the process runs any code; then pid, start time and boot id of it;
* `started`: the process runs;
* `stdout.N`, `stderr.N`: what the process wrote from byte N on (see `kept_output`);
* `exit.json`: how the run ended, on disk before anybody hears of it.

The lock that came with the start is held until `exit.json` is on disk. A file `stop` asks for the end of the run; its
text is the state to report.

A run of a stateful job begins when no other run of its task goes on; it holds the folder of its task until it ends. A
run with ports begins when no other run of this machine has one of them and nobody listens there; it holds them (see
`port_locks`) until it has ended.
"""

import fcntl
import json
import os
import resource
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from hostagent import kernel, port_locks
from hostagent.folders import remove
from hostagent.keeper import system
from hostagent.keeper.container import Container
from hostagent.keeper.control_group import ControlGroup
from hostagent.keeper.pipelines import Ending
from hostagent.keeper.process_group import CannotSpawn, ProcessGroup
from hostagent.keeper.timers import Timer
from hostagent.kept_output import Output
from hostagent.private_files import overwrite, read_file, sync, write, write_durably
from hostagent.redaction import CoveredOutput, Hidden, values_in

VERSION = 1
"""Orders up to this one are read."""
RETRY_S = 1.0
"""So often a file is tried again that a full disk doesn't take."""
DRAIN_S = 1.0
"""Seconds after the end of the process for which its pipes are read, in case a stranger to its group holds them open.
"""
TURN_S = 15.0
"""So long a run waits for its ports, which one that is being stopped may still have, and for such a run of its task."""
TURN_POLL_S = 0.1
GROUP_POLL_S = 0.05
"""So often it is looked whether all of a process group has obeyed a stop whose first process is over."""
CLEAR_S = 10.0
"""So long a run that is over waits until what held its processes is cleared away; then that is left to the agent."""
MAKE_S = 60.0
"""So long a container may take until its first process runs."""
READ_BYTES = 65_536
READS_MAX = 16
"""So many reads of one stream in a turn: others have theirs."""
EXITED, STOPPED, NOT_STARTED, SILENCED, VANISHED, CANNOT_START = 2, 3, 4, 5, 8, 10
"""`RunReport`, which can't be imported here."""
PROCESS_CHARS = 128
"""The length of `process.json`: a later one takes the place of an earlier one in a single write.
"""
LOST_CODE = 255
"""Exit code of a run of which nobody knows how it ended."""
STOPPED_EARLY = 143
"""Exit code of a run that is stopped before it starts: as if by SIGTERM."""
EARLY = "stopped before it started"
KEPT = ("stop_after_ms", "contact", "stop_signal", "stop_grace_ms")
"""The part of an order that is needed once its process runs: the rest may be large."""


class Keeper(Protocol):
    """The part of a keeper that its runs use."""

    root: str
    """The folder of all runs."""
    boot: str
    files: int
    """The number of open files that a run may have."""
    by_pid: "dict[int, KeptRun]"
    """The runs that have a process, by that of their first one."""
    making: set[int]
    """The processes among them that make the first process of a run."""

    def watch(self, fd: int, handler: Callable[[], None]) -> None:
        """Calls `handler` whenever there is something to read."""

    def unwatch(self, fd: int) -> None:
        """Closes what was watched."""

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Calls once so much later, unless it is cancelled."""
        ...

    def tell(self, letter: str, name: str) -> None:
        """Says to all who listen what became of a run."""

    def forget(self, run: "KeptRun") -> None:
        """A run has ended and all of it is on disk."""

    def guard(self, run: "KeptRun", call: Callable[[], None]) -> None:
        """Calls; whatever goes wrong is the end of this run alone."""


class KeptRun:
    """A run. `lock`: its locked file, `image`: that of its image, -1 without one; it takes them over."""

    def __init__(self, keeper: Keeper, name: str, lock: int, image: int = -1) -> None:
        self.name = name
        self.folder = f"{keeper.root}/{name}"
        self._keeper = keeper
        self._lock, self._image = lock, image
        self._order: dict[str, Any] = {}
        self._secrets = ""
        """The folder of its secrets; empty: it has none."""
        self._born_ms = kernel.since_boot_ms()
        self._turn_until_s = time.monotonic() + TURN_S
        self._ports = self._task = -1
        """The files by which it holds its ports, and its task."""
        self._level: ProcessGroup | None = None
        """Its processes, once there are any."""
        self._outputs: dict[int, Output | CoveredOutput] = {}
        self._output_lost = 0
        """Bytes of streams that are closed which the disk didn't take."""
        self._clear_until_s = 0.0
        """When it waits no longer for what held its processes to be cleared away; 0: it doesn't yet."""
        self._stop_state = 0
        self._terminated = False
        self._running = False
        self._draining = False
        """All of it is over, and only its output is waited for."""
        self._ending: dict[str, Any] = {}
        """The content of `exit.json`, once it has ended."""
        self._next: Timer | None = None
        """Its next step, where that is a matter of time."""
        self._kill: Timer | None = None
        self._silence: Timer | None = None
        self._rest: Timer | None = None
        self._refused: set[str] = set()
        """Files that the disk didn't take at first."""

    def begin(self) -> None:
        """Reads the order and starts the process as soon as that may be."""
        try:
            self._order = json.loads(read_file(f"{self.folder}/order.json"))
            if self._order["v"] > VERSION:
                raise ValueError(f"it is of version {self._order['v']}, this keeper reads up to {VERSION}")
            self._secrets = self._order.get("secrets", "")
        except (OSError, ValueError, KeyError, TypeError) as error:
            return self._end(NOT_STARTED, 127, f"the order of the run can't be read: {error}")
        return self._try_turn()

    def look_for_stop(self) -> None:
        """Somebody may have asked for its end, or for a quick one."""
        if self._ending and self._level is None:
            return
        if not self._stop_state and self._asked_to_stop():
            self._stop()
        elif self._stop_state and os.path.lexists(f"{self.folder}/kill"):
            self._kill_now()

    def terminate(self) -> None:
        """The system has told the keeper to end: so is the run."""
        self._terminated = True
        self.look_for_stop()

    def before_reaping(self) -> None:
        """Its first process is over and still has its pid, and so the id of its group, which no other can have."""
        if self._level is not None and self._kill is None and not self._level.making:
            self._level.kill()

    def exited(self, status: int, used: resource.struct_rusage) -> None:
        """Its first process is reaped."""
        code = os.waitstatus_to_exitcode(status)
        if self._level is not None and self._level.making:
            return self._made(self._level.made(code))
        self._running = False
        self._cancel(self._silence)
        self._cancel(self._next)
        self._ending = {
            "state": self._stop_state or EXITED,
            "exit_code": 128 - code if code < 0 else code,
            "reason": "",
            "signal": max(0, -code),
            "cpu_ms": round(1000 * (used.ru_utime + used.ru_stime)),
            "memory_kib": used.ru_maxrss,
            "read_kib": used.ru_inblock // 2,  # blocks of 512 bytes
            "written_kib": used.ru_oublock // 2,
        }
        return self._linger()

    def give_up(self) -> None:
        """The keeper failed here: the rest of the run ends, and how it ended isn't known."""
        if self._level is not None:
            self._level.kill()
            self._keeper.by_pid.pop(self._level.pid, None)
            self._keeper.making.discard(self._level.pid)
        self._remove_secrets()
        self._ending = {"state": VANISHED, "exit_code": LOST_CODE, "reason": "its keeper failed, see holder.log"}
        self._try("exit.json", partial(write_durably, text=self._end_text()))
        self._finish()
        self._keeper.tell("E", self.name)

    def _try_turn(self) -> None:
        """Takes what runs have one after another, and starts; tries again for a time where it can't have it."""
        fault = self._take_task() or self._take_ports()
        if self._asked_to_stop():
            self._stop()
        elif not fault:
            self._start()
        elif time.monotonic() >= self._turn_until_s:
            self._end(NOT_STARTED, 127, fault)
        else:
            self._next = self._keeper.after(TURN_POLL_S, self._guarded(self._try_turn))

    def _take_task(self) -> str:
        """Makes sure that no earlier run of its task goes on, where none may. Returns why it can't."""
        if not self._order["alone"] or self._task >= 0:
            return ""
        folder = os.open(os.path.dirname(self.folder), os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(folder)
            return "an earlier run of this task goes on"
        self._task = folder
        return ""

    def _take_ports(self) -> str:
        """Takes all of its ports, or none and returns why."""
        if not self._order["ports"]:
            return ""
        self._ports, fault = port_locks.take(self._order["port_locks"], self._order["ports"])
        return fault

    def _start(self) -> None:
        """Starts the process once it is on disk that the run has begun."""
        if self._asked_to_stop():
            return self._stop()
        if not (self._try("order.json", self._sync_order) and self._put("process.json", self._process(0))):
            return self._retry(self._start)
        try:
            hidden = Hidden(values_in(self._secrets)) if self._secrets else None
        except OSError as error:
            return self._end(NOT_STARTED, 127, f"its secrets can't be read: {error}")
        pipes: list[tuple[int, int]] = []
        try:
            while len(pipes) < 2:
                pipes.append(os.pipe2(os.O_CLOEXEC))
        except OSError as error:  # no file is left
            for end in (end for pipe in pipes for end in pipe):
                os.close(end)
            system.say(f"can't start {self.name} yet: {error.strerror}")
            return self._retry(self._start)
        kinds = {"container": Container, "groups": ControlGroup}
        kind = next((kinds[name] for name in kinds if name in self._order), ProcessGroup)
        level = kind(self._order, self._keeper.files)
        try:
            level.spawn(pipes[0][1], pipes[1][1])
        except (CannotSpawn, OSError) as fault:
            for source, _ in pipes:
                os.close(source)
            if not isinstance(fault, CannotSpawn):
                return self._end(NOT_STARTED, 127, f"it can't be started: {fault.strerror}")
            return self._end(CANNOT_START if fault.lasting else NOT_STARTED, 127, str(fault))
        finally:
            for _, end in pipes:
                os.close(end)
        self._level, self._running = level, True
        self._keeper.by_pid[level.pid] = self
        for name, (source, _) in zip(("stdout", "stderr"), pipes, strict=True):
            os.set_blocking(source, False)
            output = Output(self.folder, name, source, *self._order.get("output", ()))
            self._outputs[source] = CoveredOutput(output, hidden) if hidden is not None else output
            self._keeper.watch(source, self._guarded(partial(self._read, source)))
        if not level.making:
            return self._note()
        self._keeper.making.add(level.pid)
        self._next = self._keeper.after(MAKE_S, self._guarded(level.kill))
        return None

    def _made(self, fault: str) -> None:
        """Goes on once the process that makes its first one has ended."""
        assert self._level is not None
        self._cancel(self._next)
        if not fault:
            self._keeper.by_pid[self._level.pid] = self
            if self._stop_state:
                self._level.kill()
            return self._note()
        self._running = False
        self._ending = {"state": NOT_STARTED, "exit_code": 127, "reason": fault}
        if self._stop_state:
            self._ending = {"state": self._stop_state, "exit_code": STOPPED_EARLY, "reason": EARLY}
        self._level.kill()
        return self._linger()

    def _note(self) -> None:
        """Notes which process it is and that it runs, and tells."""
        if not self._running or self._level is None:
            return None
        process = partial(overwrite, text=self._process(self._level.pid))
        if not (self._try("process.json", process) and self._put("started", "")):
            return self._retry(self._note)
        self._keeper.tell("S", self.name)
        self._order = {name: self._order[name] for name in KEPT}
        if self._order["stop_after_ms"]:
            self._watch_silence()
        return None

    def _stop(self) -> None:
        """Ends it in the way that its job says."""
        if self._level is None:
            self._cancel(self._next)
            return self._end(self._stop_state, STOPPED_EARLY, EARLY)
        if self._level.making:
            return self._level.kill()
        grace_s = self._order["stop_grace_ms"] / 1000
        self._kill = self._keeper.after(grace_s, self._guarded(self._kill_now))
        self._ask(Ending(self._level.pid, self._order["stop_signal"], grace_s / 2))
        return None

    def _ask(self, ending: Ending) -> None:
        """Asks its processes to end: some later than others."""
        if wait_s := ending.ask():
            self._rest = self._keeper.after(wait_s, self._guarded(partial(self._ask, ending)))

    def _kill_now(self) -> None:
        """Its grace is over."""
        self._cancel(self._kill)
        self._kill = None
        if self._level is not None:
            self._level.kill()
        if self._ending:
            self._cancel(self._next)
            self._linger()

    def _linger(self) -> None:
        """Its first process is over. Where it was asked to stop, the rest of its group has its grace too."""
        assert self._level is not None
        if self._kill is not None and self._level.goes_on():
            self._next = self._keeper.after(GROUP_POLL_S, self._guarded(self._linger))
            return
        self._cancel(self._kill)
        self._kill = None
        if not self._level.clear():
            self._clear_until_s = self._clear_until_s or time.monotonic() + CLEAR_S
            if time.monotonic() < self._clear_until_s:
                self._next = self._keeper.after(GROUP_POLL_S, self._guarded(self._linger))
                return
            self._ending["has_remains"] = True
        self._ending |= self._level.used()
        self._draining = True
        for source in list(self._outputs):
            self._read(source)
        if self._outputs:
            self._next = self._keeper.after(DRAIN_S, self._guarded(self._close))
        else:
            self._close()

    def _read(self, source: int) -> None:
        """Keeps what the process has written; closes a stream that nobody writes to any more."""
        for _ in range(READS_MAX):
            try:
                data = os.read(source, READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                self._close_output(source)
                break
            self._outputs[source].write(data)
            if len(data) < READ_BYTES and not self._draining:
                return
        if self._next is not None and self._draining and not self._outputs:  # all is read that it waited for
            self._cancel(self._next)
            self._close()

    def _watch_silence(self) -> None:
        """Stops the run when the agent has had no contact to the cell for longer than its job allows."""
        if self._stop_state or not self._running:
            return None
        if self._asked_to_stop():
            return self._stop()
        rest_s = (self._contact_ms() + self._order["stop_after_ms"] + 1 - kernel.since_boot_ms()) / 1000
        self._silence = self._keeper.after(max(0.0, rest_s), self._guarded(self._watch_silence))
        return None

    def _asked_to_stop(self) -> bool:
        """Whether the run shall end; `_stop_state` then says how that is reported."""
        try:
            self._stop_state = int(read_file(f"{self.folder}/stop"))
        except (OSError, ValueError) as error:  # not there, mostly
            patience_ms = self._order["stop_after_ms"]
            if self._terminated or isinstance(error, ValueError):
                self._stop_state = STOPPED
            elif patience_ms and kernel.since_boot_ms() - self._contact_ms() > patience_ms:
                self._stop_state = SILENCED
        return bool(self._stop_state)

    def _contact_ms(self) -> int:
        """When the agent last heard of the cell, or the run was born."""
        with suppress(OSError, ValueError):
            return max(self._born_ms, int(read_file(self._order["contact"])))
        return self._born_ms

    def _end(self, state: int, code: int, reason: str) -> None:
        """It has ended without ever having run."""
        self._ending = {"state": state, "exit_code": code, "reason": reason}
        self._close()

    def _close(self) -> None:
        """Writes how it ended."""
        self._next = None
        self._remove_secrets()
        for file in (self._ports, self._task):
            if file >= 0:  # before anybody hears of the end: the next run may have them
                os.close(file)
        self._ports = self._task = -1
        for source in list(self._outputs):
            self._close_output(source)
        if self._output_lost:
            self._ending["output_lost"] = self._output_lost
        if not self._try("exit.json", partial(write_durably, text=self._end_text())):
            return self._retry(self._close)
        self._finish()
        self._keeper.tell("E", self.name)
        return None

    def _finish(self) -> None:
        """Gives back all that it has."""
        for timer in (self._next, self._kill, self._silence, self._rest):
            self._cancel(timer)
        for source in list(self._outputs):
            self._close_output(source)
        for file in (self._ports, self._task, self._image, self._lock):
            if file >= 0:
                os.close(file)
        self._ports = self._task = self._image = self._lock = -1
        self._keeper.forget(self)

    def _close_output(self, source: int) -> None:
        output = self._outputs.pop(source)
        output.close()
        self._output_lost += output.lost
        self._keeper.unwatch(source)

    def _remove_secrets(self) -> None:
        """The run is over: nobody needs them any more."""
        if self._secrets:
            for fault in remove(self._secrets):
                system.say(f"can't remove secrets of {self.name}: {fault}")

    def _retry(self, step: Callable[[], None]) -> None:
        """Takes a step again later, for a disk that is full now. Where the whole folder was removed nobody asks for
        the run any more.
        """
        if os.path.isdir(self.folder):
            self._next = self._keeper.after(RETRY_S, self._guarded(step))
        else:
            self.give_up()

    def _put(self, name: str, text: str) -> bool:
        return self._try(name, partial(write, text=text))

    def _end_text(self) -> str:
        """The content of `exit.json`. It names the run, as the file may have been that of another: a crash of the
        machine can leave the old content there.
        """
        return json.dumps({"run": self.name} | self._ending)

    def _process(self, pid: int) -> str:
        """The content of `process.json`; `pid` 0: the process is about to run."""
        start_time = kernel.start_time(pid) if pid else None
        process = {"pid": pid, "start_time": start_time, "boot_id": self._keeper.boot}
        return json.dumps(process).ljust(PROCESS_CHARS)

    def _try(self, name: str, how: Callable[[str], object]) -> bool:
        """Does something with a file, or says once that the disk doesn't take it."""
        try:
            how(f"{self.folder}/{name}")
        except OSError as error:
            if name not in self._refused:
                self._refused.add(name)
                system.say(f"can't write {name} of {self.name}: {error.strerror}. Tries again until it can.")
            return False
        return True

    def _sync_order(self, path: str) -> None:
        """The order is on disk before the process runs: the agent leaves that to keepers, which do it side by side."""
        sync(path)
        sync(self.folder)

    def _guarded(self, call: Callable[[], None]) -> Callable[[], None]:
        return partial(self._keeper.guard, self, call)

    @staticmethod
    def _cancel(timer: Timer | None) -> None:
        if timer is not None:
            timer.cancel()
