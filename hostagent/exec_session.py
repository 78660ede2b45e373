"""The parent of a command that a user runs inside a run: a program of its own, started by the agent for each.

`python -I -S exec_session.py CONTROL RESULT`, with an order of JSON on CONTROL's first line:

* `argv`, `env`, `cwd`: what to run; `argv[0]` is looked for in PATH of `env`;
* `user`: `{"uid", "gid", "groups"}`, null: as this process;
* `terminal`: whether standard input is a terminal, which becomes the controlling one;
* `groups`: files `cgroup.procs` of the control groups to join.

It tells on RESULT, a JSON object a line: `{"pid"}` once it runs, or `{"fault"}`, and at the end `{"code"}`. When
CONTROL is closed, by whom or for what reason ever, the command ends with all that it has started: this process adopts
what loses its parent, so nothing escapes. So it ends with the agent too, however that dies.

It imports nothing but the standard library.
"""

import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import sys
import termios
from contextlib import suppress
from typing import Any

PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38
LINE_BYTES_MAX = 4 << 20
"""An order is an environment and a command, which Linux takes no more of."""
KILL_POLL_MS = 20
"""Between two rounds of killing what is left."""


def main(control: int, result: int) -> int:
    """Runs the command of an order to its end."""
    for each in (control, result):  # the command's own words must not pass for this process's
        os.set_inheritable(each, False)
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")
    order = json.loads(_line(control))
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the end of CONTROL is what ends it
    try:
        pid = _start(order)
    except OSError as error:
        _tell(result, fault=f"{next(iter(order['argv']), '')}: {error.strerror}")
        return 1
    for each in (0, 1, 2):  # the command's alone: who reads its output is to see the end of it
        os.close(each)
    _tell(result, pid=pid)
    code = _watch(pid, control, woken)
    _end_rest()
    _tell(result, code=code)
    return 0


def _line(control: int) -> bytes:
    line = bytearray()
    while not line.endswith(b"\n"):
        data = os.read(control, 1 << 16)
        if not data or len(line) > LINE_BYTES_MAX:
            raise SystemExit("no order came")
        line += data
    return bytes(line)


def _start(order: dict[str, Any]) -> int:
    """Starts the command; its pid. Raises `OSError`."""
    fault, fault_end = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if not pid:
        try:
            _become(order)
        except OSError as error:
            os.write(fault_end, str(error.errno or errno.EIO).encode())
        except BaseException:  # whatever it is, there is no way back in a child
            os.write(fault_end, str(errno.EINVAL).encode())
        os._exit(127)
    os.close(fault_end)
    with open(fault, "rb") as file:
        number = file.read()
    if number:
        os.waitpid(pid, 0)
        raise OSError(int(number), os.strerror(int(number)))
    return pid


def _become(order: dict[str, Any]) -> None:
    """In the child: becomes the command. Raises `OSError`."""
    os.setsid()
    if order["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for path in order["groups"]:
        with open(path, "w", encoding="ascii") as file:
            file.write("0")
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    if user := order["user"]:
        if order["terminal"]:
            os.fchown(0, user["uid"], user["gid"])
        os.setgroups(user["groups"])
        os.setresgid(user["gid"], user["gid"], user["gid"])
        os.setresuid(user["uid"], user["uid"], user["uid"])
        if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):  # as its run
            raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS")
    os.umask(order.get("umask", 0o022))
    os.chdir(order["cwd"])
    os.execvpe(order["argv"][0], order["argv"], order["env"])


def _watch(pid: int, control: int, woken: int) -> int:
    """Waits for the end of the command, or of CONTROL; its exit code, 128 + N where signal N ended it."""
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(woken, select.POLLIN)
    ending = False
    while True:
        ready = dict(poll.poll(KILL_POLL_MS if ending else None))
        if woken in ready:
            with suppress(BlockingIOError):
                os.read(woken, 4096)
        if control in ready and not os.read(control, 4096):
            ending = True
            poll.unregister(control)
        if ending:
            _signal_all(signal.SIGKILL)
        while True:
            try:
                reaped, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return 128 + signal.SIGKILL
            if not reaped:
                break
            if reaped == pid:
                code = os.waitstatus_to_exitcode(status)
                return 128 - code if code < 0 else code


def _end_rest() -> None:
    """Kills what the command has left, until there is nothing: who is adopted meanwhile too."""
    while True:
        _signal_all(signal.SIGKILL)
        try:
            if not os.waitpid(-1, os.WNOHANG)[0]:
                select.poll().poll(KILL_POLL_MS)
        except ChildProcessError:
            return


def _signal_all(number: int) -> None:
    """Signals all descendants."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with suppress(OSError), open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                parents.setdefault(int(file.read().rpartition(")")[2].split()[1]), []).append(int(name))
    waiting = [os.getpid()]
    while waiting:
        for child in parents.get(waiting.pop(), ()):
            waiting.append(child)
            with suppress(ProcessLookupError, PermissionError):
                os.kill(child, number)


def _tell(result: int, **what: object) -> None:
    with suppress(BrokenPipeError):
        os.write(result, json.dumps(what).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
