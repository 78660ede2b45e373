"""The user as whom tasks run, where it isn't the agent's own."""

import os
import pwd
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ")
"""Variables of the agent's environment that a run inherits; the rest stays with the agent."""
OWN = ("HOME", "USER", "LOGNAME", "SHELL", "TMPDIR")
"""Variables that it inherits too where it runs as the agent's user."""


class TaskUser(NamedTuple):
    """A user of this machine, with all groups."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str


class NoSuchUser(Exception):
    """Tasks can't run as a user; the message says why and what to do."""


class Users:
    """The users as whom tasks run: one for all, None: that of this process."""

    def __init__(self, user: TaskUser | None = None) -> None:
        self.sample = user
        """One of them."""

    def of(self, job_id: str) -> TaskUser | None:
        """The user of a job's tasks. Raises `OSError`, and `ValueError` where there is none."""
        return self.sample

    def found(self, job_id: str, uid: int) -> None:
        """Something of a job belongs to a user."""

    def keep(self, job_ids: Collection[str]) -> None:
        """Nothing is left here of other jobs. Raises `OSError`."""

    def described(self) -> str:
        """As whom tasks run, in a sentence."""
        if self.sample is not None:
            return f"tasks run as {self.sample.name}"
        return f"tasks run as {_own_name()}, as this agent does, and can read what it can: give it --run-as USER"


def environment(user: TaskUser | None) -> dict[str, str]:
    """The environment that every task gets."""
    if user is None:
        return {name: os.environ[name] for name in PASSED_ON + OWN if name in os.environ}
    own = {"HOME": user.home, "USER": user.name, "LOGNAME": user.name, "SHELL": user.shell}
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ} | own


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def task_user(name: str) -> TaskUser | None:
    """The user of a name; None: it is that of this process. Raises `NoSuchUser`."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError as error:
        raise NoSuchUser(f"--run-as: this machine knows no user {name!r}") from error
    if entry.pw_uid == os.geteuid():
        return None
    groups = tuple(os.getgrouplist(name, entry.pw_gid))
    return TaskUser(name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir, entry.pw_shell)


def check(user: TaskUser, folder: Path) -> None:
    """Makes sure that a process can become this user and gets into a folder. Raises `NoSuchUser`."""
    try:
        done = subprocess.run(
            ["test", "-x", str(folder)], user=user.uid, group=user.gid, extra_groups=user.groups, cwd="/", check=False
        )
    except PermissionError as error:
        raise NoSuchUser(
            f"--run-as {user.name} needs root, and this agent runs as {_own_name()}: start it as root, or without it"
        ) from error
    if done.returncode:
        raise NoSuchUser(
            f"--run-as {user.name}: that user can't get into {folder}. Let it pass through the folders above, or "
            "choose another folder with --folder"
        )
