"""A user for each job: one of a range of numbers that belong to nobody else on this machine.

A job has its number, in `uids.json`, as long as it has runs or volumes here: what one job leaves is none of another's.
A number that is free again is taken last.
"""

import os
import pwd
import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec

from hostagent import private_files
from hostagent.run_as import NoSuchUser, TaskUser, Users, task_user

AUTO = re.compile(r"auto:([1-9][0-9]{0,9})-([1-9][0-9]{0,9})")
UID_MAX = 2**32 - 2

Uid = Annotated[int, msgspec.Meta(ge=1, le=UID_MAX)]


class Given(msgspec.Struct):
    """`uids.json`. `last`: the number that was given last."""

    last: Uid | None = None
    uids: dict[str, Uid] = {}


class JobUsers(Users):
    """The users of the jobs of one agent, with the numbers `first` to `last`."""

    def __init__(self, path: Path, first: int, last: int) -> None:
        super().__init__(_user(first))
        self._path, self._first, self._last = path, first, last
        self._given = Given()
        with suppress(OSError, ValueError):  # not there, or damaged: runs and volumes tell of theirs
            self._given = msgspec.json.decode(private_files.read_file(path), type=Given)

    def of(self, job_id: str) -> TaskUser:
        """Implements `Users`; gives the job a number if it has none. Raises `OSError`, and `ValueError` where none is
        left.
        """
        uid = self._given.uids.get(job_id)
        if uid is None:
            uid = self._free()
            self._given.last = self._given.uids[job_id] = uid
            try:
                self._save()
            except OSError:
                del self._given.uids[job_id]
                raise
        return _user(uid)

    def found(self, job_id: str, uid: int) -> None:
        """Implements `Users`."""
        if self._first <= uid <= self._last:
            self._given.uids.setdefault(job_id, uid)

    def keep(self, job_ids: Collection[str]) -> None:
        """Implements `Users`."""
        others = self._given.uids.keys() - set(job_ids)
        if others:
            for job_id in others:
                del self._given.uids[job_id]
            self._save()

    def described(self) -> str:
        """Implements `Users`."""
        return f"tasks of each job run as a user of its own, of {self._first} to {self._last}"

    def _free(self) -> int:
        count, used = self._last - self._first + 1, set(self._given.uids.values())
        begin = (self._given.last or self._last) - self._first + 1
        for step in range(count):
            uid = self._first + (begin + step) % count
            if uid not in used and not _is_known(uid):
                return uid
        raise ValueError(
            f"no user is free of {self._first} to {self._last}: {len(used)} jobs have runs or volumes here; give the "
            "agent a larger range with --run-as"
        )

    def _save(self) -> None:
        private_files.write(os.fspath(self._path), msgspec.json.encode(self._given).decode())


def users(run_as: str, folder: Path) -> Users:
    """The users that `--run-as` means, for the agent on a folder. Raises `NoSuchUser`."""
    if not run_as.startswith("auto:"):
        return Users(task_user(run_as) if run_as else None)
    match = AUTO.fullmatch(run_as)
    first, last = map(int, match.groups()) if match else (0, 0)
    if not 0 < first <= last <= UID_MAX:
        raise NoSuchUser(f"--run-as: {run_as!r} names no range of users such as auto:200000-265535")
    return JobUsers(folder / "uids.json", first, last)


def _user(uid: int) -> TaskUser:
    """A user that no file of the machine knows; the home is the working folder of each run."""
    return TaskUser(f"paceline-{uid}", uid, uid, (), "", "/bin/sh")


def _is_known(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True
