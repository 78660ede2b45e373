"""The processes of a run at level container: crun makes them of a bundle, within the control groups of the run.

crun keeps what it knows of the container in the folder of the run (`crun/`), so nothing has to be cleared up elsewhere,
and no other container of the machine can have its name. A writable root is mounted for these processes alone.
"""

import os
from contextlib import suppress
from typing import Any

from hostagent import mounts
from hostagent.keeper.control_group import ControlGroup
from hostagent.keeper.process_group import CannotSpawn
from hostagent.private_files import read_file

NAME = "run"
"""The name of each container, in a folder of its own."""
STATE, BUNDLE, PID, LOG = "crun", "bundle", "init.pid", "crun.log"
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


class Container(ControlGroup):
    """Its first process, an init, isn't known until crun has ended: until then that is `pid`."""

    def __init__(self, order: dict[str, Any], files: int) -> None:
        super().__init__(order, files)
        self._folder: str = order["container"]["folder"]
        self._view: dict[str, str] = order["container"]["view"]
        """The arguments of the mount of its root, where it may write to a view of that; empty: it may not."""

    def spawn(self, out: int, err: int) -> None:
        """Starts crun. Raises `CannotSpawn`."""
        folder = self._folder
        words = ["crun", "--cgroup-manager=disabled", f"--root={folder}/{STATE}", f"--log={folder}/{LOG}"]
        words += ["run", "--detach", f"--bundle={folder}/{BUNDLE}", f"--pid-file={folder}/{PID}", NAME]
        self._order = self._order | {"command": words, "env": {"PATH": PATH}, "user": None, "work": folder}
        self._order["open_files"] = 0  # the bundle says it
        try:
            super().spawn(out, err)
        except CannotSpawn as fault:
            fault.lasting = False
            raise
        self.making = True

    def enter(self) -> None:
        """In the child: joins the control group, with mounts of its own."""
        super().enter()
        mounts.own_mounts()
        if self._view:
            mounts.mount_overlay(**self._view)

    def made(self, code: int) -> str:
        """Takes the first process of the container that crun has made. Why there is none; empty: there is."""
        self.making = False
        with suppress(OSError, ValueError):
            if not code:
                self.pid = int(read_file(f"{self._folder}/{PID}"))
                return ""
        with suppress(OSError):
            if lines := read_file(f"{self._folder}/{LOG}").decode(errors="replace").strip().splitlines():
                return f"crun: {lines[-1]}"
        return f"crun made no container: it ended with {code}"

    def signal(self, number: int) -> None:
        """Signals its first process, which passes it on to the program."""
        with suppress(ProcessLookupError):
            if self.pid in self._group.processes():  # another has its number otherwise
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Ends all of it at once."""
        self._group.kill()

    def goes_on(self) -> bool:
        """Whether the container has any process."""
        return bool(self._group.processes())

    def clear(self) -> bool:
        """Removes what crun knows of it too."""
        if not super().clear():
            return False
        state = f"{self._folder}/{STATE}"
        with suppress(OSError):  # not there where crun has failed
            for name in os.listdir(f"{state}/{NAME}"):
                os.unlink(f"{state}/{NAME}/{name}")
            os.rmdir(f"{state}/{NAME}")
            os.rmdir(state)
        return True
