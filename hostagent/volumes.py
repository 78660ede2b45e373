"""The volumes of a host: folders that tasks of stateful jobs keep there between their runs, until a user removes them.

A volume is the folder `volumes/JOB/INSTANCE/NAME.CREATED/`, which is its task's alone. CREATED, in ms, tells it from
one by the same name that was there before it. What becomes of a run, a job or the agent removes none.

Decision 042.
"""

import os
import re
import stat
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from events.bounds import NAME, VOLUME
from hostagent.folders import Trash, disarm, entries, shown, summary
from hostagent.messages import VolumeState
from hostagent.run_as import Users
from hostagent.run_record import NUMBER

_FOLDER = re.compile(rf"({VOLUME.pattern})\.([1-9][0-9]{{0,14}})")


class Volumes:
    """All volumes of a host. Not thread-safe. `trash`: removes what is left of them; `users`: as whom tasks
    run; `say`: told of what can't be read.
    """

    def __init__(self, root: Path, trash: Trash, users: Users, say: Callable[[str], None]) -> None:
        self._root = root
        self._trash = trash
        self._users = users
        self._of: dict[tuple[str, int], dict[str, VolumeState]] = {}
        self.changes = 0
        """Counts the changes of the volumes, the first reading included; 0: there was never any."""
        if root.is_dir():
            self.changes = 1
            self._adopt(say)

    def all(self) -> list[VolumeState]:
        """The volumes that there are."""
        return [volume for by_name in self._of.values() for volume in by_name.values()]

    def open(self, job_id: str, instance: int, names: Iterable[str], closed: bool = False) -> dict[str, Path]:
        """The folders of the volumes of a task by name; creates those that are missing. `closed`: a container's, whose
        users leave files of any owner: no user of the host gets to them. Raises `OSError`, and `ValueError` for what
        is no name.
        """
        return {name: self._open(job_id, instance, name, closed) for name in names}

    def remove(self, volume: VolumeState) -> None:
        """Removes a volume with all that is in it, if it is there and not another one of its name."""
        by_name = self._of.get((volume.job_id, volume.instance), {})
        if by_name.get(volume.name) != volume:
            return
        folder = self._folder(volume)
        self._trash.add(folder)
        if os.path.lexists(folder):  # it was said why
            return
        self.changes += 1
        del by_name[volume.name]
        for parent in (folder.parent, folder.parent.parent):
            with suppress(OSError):  # not empty
                parent.rmdir()

    def _open(self, job_id: str, instance: int, name: str, closed: bool) -> Path:
        if not VOLUME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a volume")
        by_name = self._of.setdefault((job_id, instance), {})
        if name not in by_name or not self._folder(by_name[name]).is_dir():
            by_name[name] = self._create(VolumeState(job_id, instance, name, time.time_ns() // 1_000_000))
            self.changes += 1
        folder = self._folder(by_name[name])
        if closed:
            folder.parent.chmod(0o700)
        elif self._users.sample is not None and stat.S_IMODE(folder.parent.stat().st_mode) == 0o700:
            disarm(folder)  # the job was one of containers
            folder.parent.chmod(0o711)
        if (user := self._users.of(job_id)) is not None:
            os.chown(folder, user.uid, user.gid, follow_symlinks=False)
        return folder

    def _create(self, volume: VolumeState) -> VolumeState:
        folder = self._folder(volume)
        for parent in (self._root, folder.parent.parent, folder.parent):
            parent.mkdir(exist_ok=True, mode=0o700)
            if self._users.sample is not None:
                parent.chmod(0o711)  # it may go to its volume, and list nothing on the way
        folder.mkdir(mode=0o700)
        return volume

    def _folder(self, volume: VolumeState) -> Path:
        return self._root / volume.job_id / str(volume.instance) / f"{volume.name}.{volume.created_ms}"

    def _adopt(self, say: Callable[[str], None]) -> None:
        """Reads what is there. Of several of one name the newest counts; what else is found is left as it is."""
        faults: list[str] = []
        for job in _folders(self._root, NAME, faults):
            for instance in _folders(job, NUMBER, faults):
                for folder in _folders(instance, _FOLDER, faults):
                    name, created = folder.name.rsplit(".", 1)
                    volume = VolumeState(job.name, int(instance.name), name, int(created))
                    by_name = self._of.setdefault((volume.job_id, volume.instance), {})
                    self._users.found(volume.job_id, folder.lstat().st_uid)
                    by_name[name] = max(volume, by_name.get(name, volume), key=lambda each: each.created_ms)
        if faults:
            say(f"can't read all volumes: {summary(faults)}")


def _folders(parent: Path, name: re.Pattern[str], faults: list[str]) -> list[Path]:
    try:
        listing = list(entries(parent))
    except OSError as error:
        faults.append(shown(parent, error))
        return []
    return [Path(each.path) for each in listing if name.fullmatch(each.name) and each.is_dir(follow_symlinks=False)]
