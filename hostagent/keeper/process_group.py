"""The processes of a run at level none: a session and a process group of their own.

A level makes what holds the processes of a run (`spawn`), signals and kills all of them, and says whether any goes on.
"""

import errno
import os
import resource
import signal
from contextlib import suppress
from typing import Any

from hostagent.keeper import system

LASTING = (
    *(errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG),
    *(errno.EINVAL, errno.EPERM, errno.E2BIG, errno.ELIBBAD, errno.EMFILE),
)
"""Errors of a start that are the same at the next one: no such file, not executable, wrong format and the like."""
DEFAULTS = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
"""Signals that mean to a run what they mean to any program, whatever the agent was started with."""


class CannotSpawn(Exception):
    """A process can't be started, the message says why; `lasting`: the next try would say the same."""

    def __init__(self, command: list[str], error: Exception, lasting: bool) -> None:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        super().__init__(f"{next(iter(command), 'no command')}: {reason}")
        self.lasting = lasting and (not isinstance(error, OSError) or error.errno in LASTING)


class ProcessGroup:
    """The processes of one run. `files`: how many open files it may have, unless its order says so."""

    making = False
    """Its process isn't that of the run yet, but makes it."""

    def __init__(self, order: dict[str, Any], files: int) -> None:
        self._order = order
        self._files = files
        self.pid = 0
        """Its first process, and so the number of the group."""

    def spawn(self, out: int, err: int) -> None:
        """Starts the process, with these files as its output. Raises `CannotSpawn`."""
        if self._order.get("user") is None and not self._order.get("idle"):
            self._spawn_as_keeper(out, err)
        else:
            self._fork(out, err)
        self._order = {}

    def signal(self, number: int) -> None:
        """Signals all processes of the group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """Ends all processes of the group at once."""
        self.signal(signal.SIGKILL)

    def enter(self) -> None:
        """In the child, before it becomes the run's user: joins what holds the run's processes. Raises `OSError`."""

    def made(self, code: int) -> str:
        """The process that makes that of the run has ended. Why there is none; empty: there is."""
        raise NotImplementedError

    def clear(self) -> bool:
        """Removes what held the processes, now that the run is over; False: it is to be called again, soon."""
        return True

    def used(self) -> dict[str, Any]:
        """The use of the run, where the level knows better than its first process; once it was to be cleared away."""
        return {}

    def goes_on(self) -> bool:
        """Whether the group has any process. Its number stays its own as long as it has."""
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return True

    def _spawn_as_keeper(self, out: int, err: int) -> None:
        """The process runs as this user: the keeper lends it its own folder and limits, and need not fork."""
        command, env, lasting = self._order["command"], self._order["env"], False
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, out, 1),
            (os.POSIX_SPAWN_DUP2, err, 2),
        ]
        own, own_umask = resource.getrlimit(resource.RLIMIT_NOFILE), os.umask(self._order["umask"])
        try:
            lasting = True
            limit = self._limit(own[1])
            lasting = False
            os.chdir(self._order["work"])
            lasting = True
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, own[1]))
            self.pid = self._first_that_starts(
                _programs(command, env),
                lambda program: os.posix_spawn(
                    program, command, env, file_actions=actions, setsid=True, setsigdef=DEFAULTS, setsigmask=()
                ),
            )
        except Exception as error:
            raise CannotSpawn(command, error, lasting) from error
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, own)
            os.umask(own_umask)
            os.chdir("/")

    def _fork(self, out: int, err: int) -> None:
        """The process is made ready by a child of the keeper before it becomes it."""
        fault, fault_end = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if not pid:
            self._become(out, err, fault_end)
        os.close(fault_end)
        with open(fault, "rb") as file:
            message = file.read().decode(errors="replace")
        if message:
            os.waitpid(pid, 0)
            number, lasting, text = message.split(" ", 2)
            error = OSError(int(number), text) if int(number) else ValueError(text)
            raise CannotSpawn(self._order["command"], error, lasting == "1")
        self.pid = pid

    def _become(self, out: int, err: int, fault: int) -> None:
        """In the child: becomes the process of the user, or says why not. Never returns."""
        lasting, command, user = False, self._order["command"], self._order["user"]
        try:
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(out, 1)
            os.dup2(err, 2)
            signal.set_wakeup_fd(-1)
            for each in DEFAULTS:
                signal.signal(each, signal.SIG_DFL)
            lasting = True
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (self._limit(hard), hard))
            self.enter()
            if self._order.get("idle"):
                _be_idle()
            if user is not None:
                if processes := self._order.get("nproc"):
                    resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
                for output in (1, 2):  # else it could not open /dev/stdout
                    os.fchown(output, user["uid"], user["gid"])
                os.setgroups(user["groups"])
                os.setresgid(user["gid"], user["gid"], user["gid"])
                os.setresuid(user["uid"], user["uid"], user["uid"])
                system.gain_nothing()
            os.umask(self._order["umask"])
            lasting = False
            os.chdir(self._order["work"])
            lasting = True
            env = self._order["env"]
            self._first_that_starts(_programs(command, env), lambda program: _execute(program, command, env))
        except Exception as error:
            number, text = (error.errno or 0, error.strerror) if isinstance(error, OSError) else (0, str(error))
            os.write(fault, f"{number} {int(lasting)} {text}".encode(errors="replace")[:4000])
        finally:
            os._exit(127)

    def _limit(self, most: int) -> int:
        """The number of open files that it may have, where the host allows `most`. Raises `OSError`."""
        limit: int = self._order["open_files"]
        if limit and most != resource.RLIM_INFINITY and limit > most:
            raise OSError(errno.EMFILE, f"open_files is {limit}, this host allows {most}")
        files = limit or self._files
        return files if most == resource.RLIM_INFINITY else min(files, most)

    @staticmethod
    def _first_that_starts(programs: list[str], start: Any) -> int:
        """Starts the first program that is there, as a shell does. Raises `OSError`, `ValueError`."""
        refused: OSError | None = None
        missing: OSError = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        for program in programs:
            if len(programs) > 1 and not os.path.lexists(program):
                continue
            try:
                return int(start(program))
            except (FileNotFoundError, NotADirectoryError) as error:
                missing = error
            except OSError as error:
                refused = refused or error
        raise refused or missing


def _be_idle() -> None:
    """Leaves the CPU to all others; what it starts does so too. The scheduler shares it by sessions first, where it
    groups these (autogroup, sched(7)), so that the session has to say it as well.
    """
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, 19)
    with suppress(OSError), open("/proc/self/autogroup", "w", encoding="ascii") as file:
        file.write("19")


def _programs(command: list[str], env: dict[str, str]) -> list[str]:
    """The files that a command may mean. Raises `ValueError` where there is none."""
    if not command:
        raise ValueError("the job has no command")
    if "/" in command[0]:
        return [command[0]]
    return [f"{folder}/{command[0]}" if folder else command[0] for folder in env.get("PATH", os.defpath).split(":")]


def _execute(program: str, command: list[str], env: dict[str, str]) -> int:
    os.execve(program, command, env)
    return 0
