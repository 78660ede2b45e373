"""The agent's record of its runs: one folder each, so that it outlives the agent, and the run itself does too.

`runs/JOB/INSTANCE/RUN/` holds `order.json` and `lock`, what the keeper writes (see `hostagent.keeper.kept_run`),
`reported` (the state that the cell has acknowledged) and `forgotten` (the cell needs the record no more). Whether a run
goes on is never guessed from a pid: its keeper holds the lock until the end is on disk. What a folder means, by the
first line that holds:

    lock    exit.json   boot of order.json   process.json   the run
    held    any         any                  any            lives; has started if `started` is there
    free    is read     any                  any            has ended so
    free    -           another              any            vanished: the host was restarted
    free    -           this one             is there       vanished: its keeper was lost; what is left of it ends
    free    -           this one             -              hasn't begun, and may be started

The task works in `tasks/JOB.INSTANCE.RUN/`, and has no business in `runs/`; what it left anywhere is removed by way of
`trash/`.
"""

import errno
import json
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path

from events.bounds import NAME
from events.codes import RunReport
from hostagent import kernel, private_files
from hostagent.container_level import OVERLAY
from hostagent.folders import Trash, entries, measure, shown, summary
from hostagent.host_secrets import HostSecrets
from hostagent.keeper.container import STATE
from hostagent.keepers import Keepers
from hostagent.later import Later, at_once
from hostagent.launch import CannotStart
from hostagent.levels import Levels
from hostagent.messages import LogPage, RunState
from hostagent.oom import VMSTAT, OutOfMemory
from hostagent.ports import LOCKS
from hostagent.retention import KEEP_ALL, Retention
from hostagent.run import NO_TRACES, Measured, Run
from hostagent.run_as import Users
from hostagent.run_files import Ordered, RunFiles
from hostagent.run_output import STREAMS, read_output
from hostagent.run_record import (
    FILES,
    Ending,
    FoundHealth,
    Launch,
    Order,
    Process,
    RunKey,
    find,
    is_held,
    kill_processes,
    read_json,
)
from hostagent.shims import kill_shim, wake_shim
from hostagent.side_by_side import side_by_side
from hostagent.volumes import Volumes

RETENTION = Retention()
CONTACT_MS = 50
"""So often a contact to the cell is noted at most."""
BEGIN_S = 10.0
"""So long the first start may wait for keepers, unless they are opened before."""
SURVIVES_S = 10.0
"""A run that is still there so long after it was killed is reported: each time, for the host is suspected for it."""
CLEAN_S = 600.0
"""So often runs that are kept for their output are looked through for those that are too old."""
FULL = (errno.ENOSPC, errno.EDQUOT)
LOST_CODE = 255
"""Exit code of a run whose keeper was lost: nobody knows how it ended."""


class Runs:
    """All runs of one host, by key. Not thread-safe. `locks`: see `hostagent.ports`; `say`: told of what can't be read
    or removed, from any thread; `users`: as whom tasks run, None: as that of this process; `umask`: that of tasks;
    `retention`: the runs that are kept for their output; `later`: does what waits for the disk and nobody waits for.
    """

    def __init__(
        self,
        folder: Path,
        locks: Path = LOCKS,
        say: Callable[[str], None] = lambda _: None,
        users: Users | None = None,
        vmstat: Path = VMSTAT,
        levels: Levels | None = None,
        umask: int = 0o022,
        retention: Retention = RETENTION,
        secrets: HostSecrets | None = None,
        later: Later = at_once,
    ) -> None:
        self._later = later
        self._retention = retention
        self._secrets = secrets
        self._cleaned_s = 0.0
        self._forgot = False
        """Runs were forgotten since the last look for those that needn't be kept."""
        self._levels = levels
        folder = folder.absolute()
        self._say = say
        self._users = users or Users()
        self._root = folder / "runs"
        self.tasks = folder / "tasks"
        """Where the working folders are."""
        self._contact, self._contact_ms = folder / "contact", 0
        for each in (folder, self._root, self.tasks):
            each.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._root.chmod(0o700)
        for each in (folder, self.tasks) if self._users.sample is not None else ():
            each.chmod(0o711)  # it may go to its working folder, and list nothing on the way
        self._trash = Trash(folder / "trash", say)
        self.volumes = Volumes(folder / "volumes", self._trash, self._users, say)
        own = {"boot": kernel.boot_id(), "umask": umask, "contact": str(folder / "contact"), "port_locks": str(locks)}
        self._files = RunFiles(own, self._users, self.volumes, self._trash, levels)
        self._runs: dict[RunKey, Run] = {}
        self._out_of_memory = OutOfMemory(vmstat)
        self.ended_cpu_ms = 0
        """CPU time of all runs whose end was learned."""
        self._boot = kernel.boot_id()
        self._untold: dict[RunKey, Run] = {}
        """Runs of which nobody tells all: those that have a shim, and those that are killed."""
        self._lost_groups = False
        """There are control groups of runs whose keepers are gone."""
        self._waiting: dict[RunKey, list[int]] = {}
        """Runs that no keeper has been given yet, with their locked files: their own, and that of their image."""
        self.keepers = Keepers(folder, say)
        self.keepers.connect()  # before the folders are read: what happens after that is told
        self._adopt_all()
        self._end_lost_groups()
        self._clean()

    def __contains__(self, key: RunKey) -> bool:
        """Whether a run is known here, forgotten ones too: such a run is never started again."""
        return key in self._runs

    def get(self, key: RunKey) -> Run | None:
        """A run that is known here."""
        return self._runs.get(key)

    def alive(self) -> list[Run]:
        """The runs that have not ended."""
        return [run for run in self._runs.values() if run.alive]

    def ports(self) -> set[int]:
        """The ports of the runs that have not ended."""
        return {port for run in self.alive() for port in run.ports}

    def inventory(self) -> list[RunState]:
        """All runs that are there or not forgotten."""
        return [run.report() for run in self._runs.values() if run.alive or not run.forgotten]

    def unreported(self) -> list[RunState]:
        """The states that the cell has not acknowledged yet."""
        return [
            run.report() for run in self._runs.values() if run.state and run.state != run.reported and not run.forgotten
        ]

    def contact(self) -> None:
        """Notes for all keepers that the cell was heard just now."""
        now_ms = kernel.since_boot_ms()
        if now_ms - self._contact_ms >= CONTACT_MS:
            private_files.overwrite(str(self._contact), f"{now_ms:20}")
            self._contact_ms = now_ms

    def start(self, key: RunKey, launch: Launch) -> Run:
        """Starts a run that is not known here; what goes wrong is its outcome. Raises `OSError` on a full disk: then
        nothing was begun, and it may be started again.
        """
        self.start_all({key: launch})
        return self._runs[key]

    def start_all(self, launches: Mapping[RunKey, Launch]) -> None:
        """Starts several as `start` does, with their files made side by side: each waits for the disk. Where that is
        full, those that it took are begun before the error is raised.
        """
        if not launches:
            return
        full: OSError | None = None
        if self._levels is not None:
            self._levels.share(self.alive(), launches.values())
        laid_out = self._laid_out(launches)
        self.keepers.open(BEGIN_S)
        for run, locks in laid_out:
            if isinstance(locks, list):
                self._waiting[run.key] = locks
                self._hand_over()
            elif isinstance(locks, OSError) and locks.errno in FULL:
                full = locks
                del self._runs[run.key]
                self._discard(run.key)
            else:
                state = RunReport.CANNOT_START if isinstance(locks, CannotStart) else RunReport.NOT_STARTED
                self._never(run.key, state, 127, f"the agent could not start it: {locks}")
        if full is not None:
            raise full

    def expect(self, key: RunKey, reason: str) -> None:
        """Notes a run that is to be started once what it needs is here; until then it is here for this agent alone."""
        self._runs[key] = Run(key, self._folder(key), int(RunReport.PREPARING), reason=reason)

    def expected(self, key: RunKey) -> bool:
        """Whether a run is still to be started."""
        run = self._runs.get(key)
        return run is not None and run.state == RunReport.PREPARING

    def refuse(self, key: RunKey, reason: str, lasting: bool = False) -> None:
        """Reports a run that is not known here as not started; `lasting`: the next try would go alike. Raises `OSError`
        where that can't be written.
        """
        if key not in self._runs or self.expected(key):
            state = RunReport.CANNOT_START if lasting else RunReport.NOT_STARTED
            self._never(key, state, 127, reason)

    def revoke(self, key: RunKey, reason: str) -> None:
        """Asks a run to end as `stop` does, since its host needs what it has; that is reported. Raises `OSError`."""
        run = self._runs.get(key)
        if run is not None and run.alive and not run.stopping and not run.has_shim:
            run.exceeded = reason
            self.stop(key, RunReport.REVOKED)

    def stop(self, key: RunKey, reported: RunReport = RunReport.STOPPED) -> None:
        """Asks a run to end: its stop signal, its grace, then the kill. Nothing happens to one that has ended; one that
        is not known here, as its start was ordered while there was no contact, is stopped before it starts. `reported`:
        what its end is then. Raises `OSError` where that can't be written: then it is to be asked again.
        """
        run = self._runs.get(key)
        if run is None or run.state == RunReport.PREPARING:
            run = self._never(key, RunReport.STOPPED, 128 + signal.SIGTERM, "stopped before it started")
        if not run.alive or run.stopping:
            return
        private_files.write(str(run.folder / "stop"), str(int(reported)))
        run.stopping = True
        if run.has_shim:
            wake_shim(run.folder)
        else:
            self.keepers.stop(run.name)

    def kill(self, key: RunKey) -> None:
        """Ends by force a run that was told to stop long ago: kills its processes. Where these are over and nobody
        says so, its keeper may hang. Raises `OSError` as `stop` does.
        """
        self.stop(key)
        run = self._runs[key]
        if not run.alive:
            return
        run.killed_s = time.monotonic()
        self._untold[key] = run
        private_files.write(str(run.folder / "kill"), "")
        over = not kill_processes(run.folder)
        if not run.has_shim:
            self.keepers.stop(run.name)
        if over and run.has_shim:
            kill_shim(run.folder)
        elif over:
            self.keepers.doubt()

    def exceeded(self, key: RunKey, reason: str) -> None:
        """Ends a run at once that has taken more than it may; the reason is reported. To be called again while it goes
        on: its end finds no room, maybe, then what it has written is removed.
        """
        run = self._runs.get(key)
        if run is None or not run.alive:
            return
        if not run.exceeded:
            run.exceeded = reason
            with suppress(OSError):
                private_files.write(str(run.folder / "exceeded"), reason)
        if not kill_processes(run.folder) and (run.folder / "started").exists():
            self._trash.add(self._work(key))

    def on_disk(self) -> list[Measured]:
        """The runs whose disk is to be measured. What their volumes hold isn't theirs."""
        folders = ((run, (str(self._work(run.key)), f"{run.folder}/over")) for run in self.alive())
        return [Measured(run.key, where, run.disk) for run, where in folders]

    def forget(self, *keys: RunKey) -> None:
        """The cell needs these runs no more: ends those that go on, and keeps only their output, for a time."""
        runs = [run for run in map(self._runs.get, keys) if run is not None and not run.forgotten]
        for run in runs:
            self.stop(run.key)
            run.forgotten_ns = time.time_ns()
        self._later(partial(self._note_forgotten, runs))
        if self._forgot:
            self._clean()

    def keep_only(self, wanted_keys: set[RunKey]) -> None:
        """Forgets all runs but these."""
        self.forget(*(key for key in self._runs if key not in wanted_keys))

    def acknowledged(self, states: Iterable[RunState]) -> None:
        """The cell has these states durably. Of live runs that isn't noted: what is reported twice harms nothing."""
        for state in states:
            run = self._runs.get(RunKey(state.job_id, state.instance, state.run))
            if run is not None and run.reported != state.state:
                run.reported = state.state
                if not run.alive:
                    self._later(partial(_note, run.folder / "reported", str(state.state)))

    def note_health(self, run: Run, state: RunReport, reason: str) -> None:
        """Notes the result of the health check of a run that goes on."""
        run.state, run.reason = int(state), reason
        with suppress(OSError):  # what is not noted is checked again
            private_files.write(str(run.folder / "health"), json.dumps({"state": run.state, "reason": reason}))

    def poll(self) -> bool:
        """Learns what keepers have said, and looks itself where they may have said nothing; True: a run changed."""
        changed, looks = False, self.keepers.look()
        news = self.keepers.news()
        for name in news.started:
            changed |= self._started(self._named(name))
        for name in news.ended:
            if (run := self._named(name)) is not None and run.alive:
                changed |= self._look(run, certain=True)
        alive = self.alive() if news.more or looks else [run for run in self._untold.values() if run.alive]
        self._out_of_memory.look()
        for run in alive:
            changed |= self._look(run)
        self._hand_over()
        if self._levels is not None:
            self._levels.share(self.alive())
        if self._lost_groups:
            self._end_lost_groups()
        if self._forgot or time.monotonic() - self._cleaned_s > CLEAN_S:
            self._clean()
        return changed

    def restless(self) -> bool:
        """Whether something has to be looked at soon, though no keeper says anything."""
        if self._waiting or self._lost_groups or self.keepers.restless():
            return True
        return any(run.alive for run in self._untold.values())

    def close(self) -> None:
        """Lets go of the keepers; runs go on."""
        self.keepers.close()
        if self._levels is not None:
            self._levels.close()

    def read(self, key: RunKey, stream: str, offset: int, limit: int) -> LogPage | None:
        """A piece of a run's output; a negative offset counts from the end. None: nothing is known of such a run."""
        run = self._runs.get(key)
        if run is None or stream not in STREAMS:
            return None
        return read_output(run.folder, stream, offset, limit, not run.alive)._replace(lost=run.output_lost)

    def _folder(self, key: RunKey) -> Path:
        if not NAME.fullmatch(key.job_id):
            raise ValueError(f"{key.job_id!r} is no id of a job")
        return self._root / key.job_id / str(key.instance) / str(key.run)

    def _work(self, key: RunKey) -> Path:
        return self.tasks / f"{key.job_id}.{key.instance}.{key.run}"

    def _laid_out(self, launches: Mapping[RunKey, Launch]) -> Iterator[tuple[Run, list[int] | Exception]]:
        """The new runs with their locked files, or why they have none, as they come."""
        outcomes: list[tuple[Run, list[int] | Exception]] = []
        ordered: list[tuple[Run, Ordered]] = []
        for key, launch in launches.items():
            run = self._runs[key] = Run(key, self._folder(key), ports=launch.ports)
            try:
                ordered.append((run, self._files.order(run, launch, self._work(key))))
            except Exception as error:  # one run's order ends no agent, whatever is in it
                outcomes.append((run, error))
        return chain(outcomes, side_by_side(lambda each: (each[0], self._files.lay_out(*each)), ordered))

    def _discard(self, key: RunKey) -> None:
        """Removes all there is of a run."""
        folder = self._folder(key)
        self._trash.add(self._work(key))
        self._trash.add(folder, FILES)
        for parent in (folder.parent, folder.parent.parent):
            with suppress(OSError):  # not empty
                parent.rmdir()

    def _adopt_all(self) -> None:
        """Takes the runs that an earlier agent left, and removes what belongs to none."""
        faults: list[str] = []
        works = [Path(entry.path) for entry in entries(self.tasks)]  # before the runs: each has its record first
        others: list[Path] = []
        for path, key in find(self._root, faults, others):
            try:
                self._adopt(path, key)
            except OSError as error:
                faults.append(shown(path, error))
                run = self._runs[key] = Run(key, path)
                self._ended(run, RunReport.VANISHED, LOST_CODE, "its record can't be read")
        own = set(map(self._work, self._runs))
        others += [work for work in works if work not in own]
        for path in others:
            self._trash.add(path)
        if others:
            self._say(f"removes what is no run of this agent: {summary([shown(path) for path in others])}")
        if faults:
            self._say(f"can't read all records of runs: {summary(faults)}")

    def _adopt(self, folder: Path, key: RunKey) -> None:
        """Takes a run that an earlier agent left. Raises `OSError` where its record can't be read."""
        run = Run(key, folder)
        with suppress(OSError, ValueError):  # then it is reported once more
            run.reported = int(private_files.read_file(folder / "reported"))
        with suppress(FileNotFoundError):
            run.forgotten_ns = (folder / "forgotten").lstat().st_mtime_ns
        names = {entry.name for entry in entries(folder)}
        run.stopping = "stop" in names
        if "exceeded" in names:
            with suppress(OSError, ValueError):
                run.exceeded = private_files.read_file(folder / "exceeded").decode()
        order = read_json(folder / "order.json", Order)
        void = order is None or not order.v or order.boot == self._boot
        if void and not names & {"process.json", "exit.json"} and not is_held(folder):
            self._discard(key)  # ordered, never begun: as if it had not been ordered
            return
        self._runs[key] = run
        if order is not None:
            run.ports, run.check, run.grouped = tuple(order.ports), order.check, bool(order.groups)
            run.disk, run.standing, run.threads = order.disk, order.standing, tuple(order.threads)
            self._users.found(key.job_id, order.user.uid if order.user is not None else 0)
        run.has_shim = "shim.pid" in names
        if run.has_shim:
            self._untold[key] = run
        self._look(run)

    def _named(self, name: str) -> Run | None:
        """The run of a name that a keeper says."""
        job_id, *numbers = name.rsplit("/", 2)
        if len(numbers) != 2 or not all(map(str.isdecimal, numbers)):
            return None
        return self._runs.get(RunKey(job_id, *map(int, numbers)))

    def _hand_over(self) -> None:
        """Gives keepers the runs that wait for one."""
        while self._waiting:
            key, locks = next(iter(self._waiting.items()))
            if not self.keepers.start("/".join(map(str, key)), locks):
                return
            for lock in self._waiting.pop(key):
                os.close(lock)

    def _started(self, run: Run | None) -> bool:
        """Its process runs."""
        if run is None or run.state:
            return False
        run.state = int(RunReport.STARTED)
        if run.check is not None and (health := read_json(run.folder / "health", FoundHealth)) is not None:
            run.state, run.reason = health.state, health.reason
        return True

    def _look(self, run: Run, certain: bool = False) -> bool:
        """Brings a run to what its folder says; True where it changed. `certain`: its keeper has said that it ended."""
        before = run.state
        if before == RunReport.PREPARING:
            return False
        if certain or not is_held(run.folder):
            self._learn_end(run, certain)
        elif (run.folder / "started").exists():
            self._started(run)
        for name in (OVERLAY, STATE) if not run.alive else ():
            if os.path.lexists(run.folder / name):
                self._trash.add(run.folder / name)
        survived = run.alive and run.killed_s is not None and time.monotonic() - run.killed_s >= SURVIVES_S
        if survived:
            run.state, run.reported, run.killed_s = int(RunReport.SURVIVED), 0, None
        return survived or run.state != before

    def _learn_end(self, run: Run, certain: bool) -> None:
        """Nobody keeps the run any more."""
        path = run.folder / "exit.json"
        if (ending := read_json(path, Ending)) is not None and ending.run in ("", run.name):
            if not certain:  # its keeper may have died before all of it was on disk
                private_files.sync(str(path))
                private_files.sync(str(run.folder))
            run.learn_end(ending, self._out_of_memory)
            self._lost_groups |= ending.has_remains
            self.ended_cpu_ms += run.cpu_ms
        elif os.path.lexists(path) or os.path.lexists(run.folder / "process.json") or not run.folder.is_dir():
            self._vanished(run)
        elif run.key not in self._waiting:
            self._start_again(run)

    def _start_again(self, run: Run) -> None:
        """Its keeper was lost before the run began."""
        order = read_json(run.folder / "order.json", Order)
        if order is None or order.boot != self._boot:
            self._vanished(run)
            return
        with suppress(OSError, ValueError):  # somebody has it after all, or the next look tries again
            self._waiting[run.key] = self._files.take_locks(run.folder, order.container)

    def _vanished(self, run: Run) -> None:
        """Its keeper is gone without a word: whatever is left of the run ends, how it ended is not known."""
        process = read_json(run.folder / "process.json", Process)
        order = read_json(run.folder / "order.json", Order)
        reason = "its keeper was lost"
        if os.path.lexists(run.folder / "exit.json"):
            reason = "how it ended can't be read: exit.json is damaged"
        boot = process.boot_id if process is not None else order.boot if order is not None and order.v else self._boot
        if boot != self._boot:
            reason = "its keeper was lost: the host was restarted"
        elif process is not None and process.pid and kernel.start_time(process.pid) in (None, process.start_time):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        self._ended(run, RunReport.VANISHED, LOST_CODE, reason)
        self._end_lost_groups()

    def _end_lost_groups(self) -> None:
        """Ends what is left in the control groups of runs whose keepers are gone."""
        if self._levels is not None:
            self._lost_groups = not self._levels.remove_others({run.group for run in self.alive()})

    def _never(self, key: RunKey, state: RunReport, exit_code: int, reason: str) -> Run:
        """Notes a run that never begins here."""
        run = Run(key, self._folder(key))
        run.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._runs[key] = run
        self._ended(run, state, exit_code, reason)
        return run

    def _ended(self, run: Run, state: RunReport, exit_code: int, reason: str) -> None:
        run.state, run.exit_code, run.reason = int(state), exit_code, reason
        if self._secrets is not None:
            self._secrets.remove(run.key)
        with suppress(OSError):
            ending = {"state": run.state, "exit_code": exit_code, "reason": reason}
            private_files.write_durably(str(run.folder / "exit.json"), json.dumps(ending))

    def _note_forgotten(self, runs: list[Run]) -> None:
        """Notes that runs are forgotten, and measures what has ended. What isn't noted is asked for again."""
        for run in runs:
            _note(run.folder / "forgotten", "")
            if not run.alive:
                self._measure(run)
        self._forgot = True

    def _measure(self, run: Run) -> None:
        sizes = (measure(folder) for folder in (run.folder, self._work(run.key)))
        record, work = (self._retention.size + 1 if size is None else size for size in sizes)
        run.traces = record, work, run.failed

    def _clean(self) -> None:
        """Removes those of the ended and forgotten runs that aren't kept. What is removed counts no more. The bytes
        that are left go to working folders, so that no task's files cost any run its output.
        """
        self._cleaned_s, self._forgot = time.monotonic(), False
        old = [run for run in self._runs.values() if run.forgotten_ns and not run.alive]
        for run in old:
            if run.traces is NO_TRACES:
                self._measure(run)
        stay, go = self._retention.choose(old, time.time_ns())
        for run in go:
            del self._runs[run.key]
            self._untold.pop(run.key, None)
            self._later(partial(self._discard, run.key))
        bytes_left = self._retention.size - sum(run.traces[0] for run in stay)
        for run in stay:
            record, work, failed = run.traces
            if work > bytes_left:
                self._trash.add(self._work(run.key))
                run.traces = record, 0, failed
            else:
                bytes_left -= work
        with suppress(OSError):  # then numbers are kept for longer
            self._users.keep({key.job_id for key in self._runs} | {each.job_id for each in self.volumes.all()})


def _note(path: Path, text: str) -> None:
    """Writes what the next agent on the folder is to know, and can do without."""
    with suppress(OSError):
        private_files.write(str(path), text)


def stop_all(folder: Path, patience_s: float = 60.0) -> tuple[int, int]:
    """Stops all runs under an agent's folder, without the agent; returns how many were stopped and how many go on."""
    runs = Runs(folder, retention=KEEP_ALL)
    live = runs.alive()
    for run in live:
        runs.stop(run.key)
    until = time.monotonic() + patience_s
    while runs.alive() and time.monotonic() < until:
        runs.poll()
        time.sleep(0.05)
    remaining = len(runs.alive())
    runs.close()
    return len(live) - remaining, remaining
