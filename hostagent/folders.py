"""Folders that tasks have written into: listed, measured and removed, whatever they contain.

A task may leave folders nested deeper than a path can name, names that are not text, pipes, links, and modes that keep
everybody out. Nothing here follows a link, recurses, waits for a pipe, or fails because of what it finds.
"""

import fcntl
import os
import secrets
import stat
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from queue import SimpleQueue

ENTRIES_MAX = 10_000
"""`measure` counts no more entries than this."""
CHUNK = 1000
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NAMED_MAX = 3
"""Most paths that one message names."""
CHARS_MAX = 300
SPARES_MAX = 256
"""So many emptied folders are kept to be used again."""
SPARE_BYTES_MAX = 16 * 1024
"""A larger file is not."""


def shown(path: "Path | str", error: OSError | None = None) -> str:
    """A path for a message: printable ASCII, bounded; with the reason of an error."""
    name = ascii(str(path))[1:-1]
    name = name if len(name) <= CHARS_MAX else f"{name[:CHARS_MAX]}..."
    return f"{name}: {error.strerror or error}" if error is not None else name


def summary(faults: list[str]) -> str:
    """The first few of several faults in one line, and how many there are."""
    more = len(faults) - NAMED_MAX
    return "; ".join(faults[:NAMED_MAX]) + (f"; and {more} more" if more > 0 else "")


def entries(folder: Path) -> Iterator["os.DirEntry[str]"]:
    """Yields the entries of a folder, by name. Raises `OSError` where it can't be listed."""
    with os.scandir(folder) as listing:
        yield from sorted(listing, key=lambda entry: entry.name)


def measure(folder: Path) -> int | None:
    """Bytes under a folder; None: over `ENTRIES_MAX` entries, or not all of it can be looked at."""
    total, count, waiting = 0, 0, [os.fspath(folder)]
    try:
        while waiting:
            with os.scandir(waiting.pop()) as listing:
                for entry in listing:
                    count += 1
                    if count > ENTRIES_MAX:
                        return None
                    total += entry.stat(follow_symlinks=False).st_size
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
    except FileNotFoundError:
        return total
    except OSError:
        return None
    return total


def disarm(folder: Path) -> int:
    """Takes from what is under a folder all that gives rights to who comes upon it: device nodes go, files are setuid
    and setgid no more, and programs have no capabilities. Returns the room on disk that it takes, in bytes. Raises
    `OSError`.
    """
    total = 0
    for top, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(top, name)
            status = os.lstat(path)
            total += status.st_blocks * 512
            if stat.S_ISBLK(status.st_mode) or stat.S_ISCHR(status.st_mode):
                os.unlink(path)
            elif stat.S_ISREG(status.st_mode):
                if status.st_mode & 0o6000:
                    os.chmod(path, stat.S_IMODE(status.st_mode) & ~0o6000)
                if status.st_mode & 0o111:
                    with suppress(OSError):  # it has none
                        os.removexattr(path, "security.capability", follow_symlinks=False)
    return total


def remove(path: "Path | str") -> list[str]:
    """Removes what is at a path, in time proportional to what there is and with two open files. Returns what could not
    be removed, and why.
    """
    faults: list[str] = []
    parent, name = os.path.split(os.fspath(path))
    try:
        where = os.open(parent or ".", FOLDER)
    except OSError as error:
        return [shown(path, error)]
    try:
        if _unlink(name, where):
            _empty(name, where, os.fspath(path), faults)
            os.rmdir(name, dir_fd=where)
    except FileNotFoundError:
        pass
    except OSError as error:
        faults.append(shown(path, error))
    finally:
        os.close(where)
    return faults


def _empty(name: str, where: int, path: str, faults: list[str]) -> None:
    """Empties a folder: takes out of each folder in it what it contains, and removes it then. So nothing is ever named
    over more than two levels.
    """
    _open_up(name, where)
    top = os.open(name, FOLDER, dir_fd=where)
    stuck: set[str] = set()
    try:
        while chunk := list(islice((each for each in _names(top) if each not in stuck), CHUNK)):
            for each in chunk:
                try:
                    if _unlink(each, top):
                        _raise_content(each, top)
                        os.rmdir(each, dir_fd=top)
                except FileNotFoundError:
                    pass
                except OSError as error:
                    stuck.add(each)
                    faults.append(shown(os.path.join(path, each), error))
    finally:
        os.close(top)


def _raise_content(name: str, top: int) -> None:
    """Removes the files of a folder and moves its folders up, into the one that it is in."""
    _open_up(name, top)
    inner = os.open(name, FOLDER, dir_fd=top)
    try:
        while chunk := list(islice(_names(inner), CHUNK)):
            for each in chunk:
                if _unlink(each, inner):
                    _open_up(each, inner)  # a folder can be moved by who may write to it
                    os.rename(each, secrets.token_hex(8), src_dir_fd=inner, dst_dir_fd=top)
    finally:
        os.close(inner)


def _names(folder: int) -> Iterator[str]:
    with os.scandir(folder) as listing:
        yield from (entry.name for entry in listing)


def _unlink(name: str, where: int) -> bool:
    """Removes what is no folder; True: it is one."""
    if stat.S_ISDIR(os.lstat(name, dir_fd=where).st_mode):
        return True
    os.unlink(name, dir_fd=where)
    return False


def _open_up(name: str, where: int | None = None) -> None:
    """Lets this process into a folder, as far as it may. A link isn't followed."""
    with suppress(OSError):
        file = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=where)
        try:
            if stat.S_IMODE(os.fstat(file).st_mode) & 0o700 != 0o700:  # a change waits for the disk
                os.chmod(f"/proc/self/fd/{file}", 0o700)
        finally:
            os.close(file)


class Trash:
    """Removes folders in the background, as one may hold a million files. What is put in has left its place at once,
    and is removed after a restart too. `say` is told, from another thread, what can't be removed.
    """

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._say = say
        self._queue: SimpleQueue[tuple[str, Collection[str]]] = SimpleQueue()
        self._spares: deque[str] = deque()
        """Emptied folders that may be used again."""
        self._thread: threading.Thread | None = None
        self._spare = folder.with_name("spare")
        for each in (folder, self._spare):
            each.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._remove_later(os.path.join(each, name) for name in os.listdir(each))

    def add(self, path: Path, files: Collection[str] = ()) -> None:
        """Takes what is at a path, if there is anything. `files`: of a folder where nobody but this process and its
        keepers write, those that may be used again with it.
        """
        target = os.path.join(self._folder, secrets.token_hex(8))
        try:
            _open_up(os.fspath(path))
            os.rename(path, target)
        except FileNotFoundError:
            return
        except OSError as error:
            self._say(f"can't remove {shown(path, error)}")
            return
        self._remove_later([target], files)

    def reuse(self, path: Path) -> bool:
        """Puts a folder at a path that was put in with files. They are there as NAME.tmp with any content, and a file
        `lock`, for `private_files.write`: ext4 passes all inodes that were freed in the last minutes before it takes
        one, so a host that makes and removes thousands would spend most of its time on that. From any thread.
        """
        try:
            spare = self._spares.popleft()
        except IndexError:
            return False
        try:
            os.rename(spare, path)
        except OSError:  # something is there
            self._spares.append(spare)
            return False
        return True

    def _remove_later(self, paths: Iterable[str], files: Collection[str] = ()) -> None:
        for path in paths:
            self._queue.put((path, files))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="trash", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while True:
            path, files = self._queue.get()
            spare = os.path.join(self._spare, os.path.basename(path))
            if files and len(self._spares) < SPARES_MAX and _emptied(path, files, spare):
                self._spares.append(spare)
            elif faults := remove(path):
                self._say(f"can't remove all that tasks left: {summary(faults)}")


def _emptied(folder: str, files: Collection[str], target: str) -> bool:
    """Leaves of a folder only these files, as NAME.tmp, and `lock`, and moves it; False: it is not fit for that."""
    try:
        with os.scandir(folder) as listing:
            for entry in list(listing):
                status = entry.stat(follow_symlinks=False)
                own = stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_size <= SPARE_BYTES_MAX
                if own and entry.name in files:
                    os.rename(entry.path, entry.path + ".tmp")
                elif own and (entry.name == "lock" or entry.name.removesuffix(".tmp") in files):
                    continue
                elif remove(entry.path):
                    return False
        lock = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # else somebody has it still
        finally:
            os.close(lock)
        os.rename(folder, target)
    except OSError:
        return False
    return True
