"""Makes the files of new runs: orders for keepers, working folders, and the bundles of those that are containers."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from events.bounds import OUTPUT_KIB
from events.process.images import Image, ImageFault
from events.volume_names import volume_variable
from hostagent import private_files
from hostagent.container_level import Bundle
from hostagent.containers import HOME
from hostagent.folders import Trash
from hostagent.keepers import VERSION
from hostagent.levels import Levels
from hostagent.run import Run
from hostagent.run_as import Users
from hostagent.run_record import Check, Launch, take_lock
from hostagent.volumes import Volumes

MEMBERS = ".paceline-members.json"
"""In the working folder of a member of a gang: where all members are."""

INSIDE = "work"
"""In the folder of a container, where no user of the host gets: its working folder."""


class Ordered(NamedTuple):
    """A run that has no files yet: its order, the text about its gang, and its bundle where it is a container."""

    order: dict[str, Any]
    members: str
    bundle: Bundle | None


class RunFiles:
    """Those of one agent. `own`: what the orders of all its runs have in common; `users`: as whom tasks run; `trash`:
    where a folder may be used again.
    """

    def __init__(
        self, own: dict[str, Any], users: Users, volumes: Volumes, trash: Trash, levels: Levels | None
    ) -> None:
        self._own = own
        self._users = users
        self._volumes = volumes
        self._trash = trash
        self._levels = levels

    def order(self, run: Run, launch: Launch, work: Path) -> Ordered:
        """The order of a run that works in a folder; its volumes are made. Raises `OSError`, `ValueError`."""
        as_user = self._users.of(run.key.job_id)
        user = as_user and as_user._asdict()
        containers = self._levels.containers if self._levels is not None and launch.contained else None
        if containers is not None:  # the folder above it is closed
            work /= INSIDE
        closed = containers is not None and containers.closed
        volumes = self._volumes.open(run.key.job_id, run.key.instance, launch.volumes, closed)
        env = launch.env | _places(launch, work, volumes)
        if not env.get("HOME", "-"):  # a user without a home
            env["HOME"] = str(work)
        order: dict[str, Any] = {"v": VERSION, "command": list(launch.command), "env": env, **self._own}
        order |= {"work": str(work), "user": user}
        order |= {"stop_grace_ms": launch.stop_grace_ms, "stop_after_ms": launch.stop_after_ms}
        order |= {"stop_signal": int(launch.stop_signal), "open_files": launch.open_files}
        order |= {"ports": list(launch.ports), "alone": launch.alone, "disk": launch.disk}
        run.disk, run.standing, run.threads = launch.disk, launch.standing, launch.threads
        order |= {"threads": list(launch.threads)} if launch.threads else {}
        order |= {"secrets": launch.secrets} if launch.secrets else {}
        idle = launch.standing is not None and launch.standing.revocable
        order |= {"idle": idle, "standing": launch.standing and msgspec.to_builtins(launch.standing)}
        if self._levels is not None:
            order |= self._levels.order(run.group, launch)
            run.grouped, run.cpus = "groups" in order, order.get("limits", {}).get("cpus", "")
        if (apart := launch.isolation) is not None and (apart.output_head or apart.output_tail):
            order["output"] = [1024 * (kib or OUTPUT_KIB) for kib in (apart.output_head, apart.output_tail)]
        bundle = self._bundle(run, launch, env, work, volumes) if launch.contained else None
        if bundle is not None:
            order["container"] = bundle.order
        if launch.health is not None:
            run.check = Check(launch.health, launch.health_port, str(work), env, user, self._own["umask"])
            if launch.contained:
                run.check.user, run.check.container = None, str(run.folder)
            order["check"] = msgspec.to_builtins(run.check)
        return Ordered(order, launch.members, bundle)

    def lay_out(self, run: Run, ordered: Ordered) -> list[int] | Exception:
        """Makes the files of a run, from any thread. Returns its locked files, or why there are none."""
        order, members, bundle = ordered
        try:
            run.folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not self._trash.reuse(run.folder):
                run.folder.mkdir(exist_ok=True, mode=0o700)
            if bundle is not None:
                bundle.write(run.folder)
            private_files.write(str(run.folder / "order.json"), json.dumps(order))  # its keeper syncs it
            own = (order["user"]["uid"], order["user"]["gid"]) if order["user"] is not None else None
            work = Path(order["work"])
            if bundle is not None:
                self._make_folder(work.parent)
                work.parent.chmod(bundle.above)
            self._make_work(work, members, bundle.owner if bundle is not None else own)
            return self.take_locks(run.folder, order.get("container"))
        except Exception as error:  # it is the outcome of this run, whatever it is
            return error

    def _bundle(self, run: Run, launch: Launch, env: dict[str, str], work: Path, volumes: dict[str, Path]) -> Bundle:
        """The bundle of a run; volumes and secrets belong to its user from now on. Raises `ValueError`, `OSError`."""
        assert self._levels is not None
        assert self._levels.containers is not None
        assert launch.isolation is not None
        bundle = self._levels.containers.bundle(
            run.folder,
            run.group,
            launch.isolation,
            launch.command,
            env,
            launch.open_files,
            work,
            volumes,
            launch.secrets,
            launch.devices,
        )
        secrets = [Path(launch.secrets), *Path(launch.secrets).iterdir()] if launch.secrets else []
        for path in secrets:  # which the container has read-only
            path.chmod(0o500 if path.is_dir() else 0o400)
        for path in (*volumes.values(), *secrets):
            os.chown(path, *bundle.owner, follow_symlinks=False)
        return bundle

    def take_locks(self, folder: Path, container: dict[str, Any] | None) -> list[int]:
        """The locked files of a run: its own, and that of its image if it has one. Raises `OSError`, `ValueError`."""
        locks = [take_lock(folder)]
        if container is not None and self._levels is not None and self._levels.containers is not None:
            try:
                locks.append(self._levels.containers.images.use(Image(*container["image"])))
            except (ImageFault, OSError) as fault:
                os.close(locks[0])
                raise ValueError(str(fault)) from fault
        return locks

    def _make_work(self, work: Path, members: str, owner: tuple[int, int] | None) -> None:
        self._make_folder(work)
        if members:
            private_files.write(str(work / MEMBERS), members)
        for each in (work / MEMBERS, work) if members else (work,):
            if owner is not None:
                os.chown(each, *owner)

    def _make_folder(self, folder: Path) -> None:
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:  # a task may have made it
            self._trash.add(folder)
            folder.mkdir(mode=0o700)


def _places(launch: Launch, work: Path, volumes: Mapping[str, Path]) -> dict[str, str]:
    """The variables by which a run finds the file about its gang and its volumes."""
    folders = {name: str(path) for name, path in volumes.items()}
    if launch.contained:
        work, folders = Path(f"{HOME}/work"), {name: f"{HOME}/volumes/{name}" for name in volumes}
    own = {volume_variable(name): path for name, path in folders.items()}
    return own | ({"PACELINE_MEMBERS": f"{work}/{MEMBERS}"} if launch.members else {})
