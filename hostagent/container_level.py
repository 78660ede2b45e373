"""The containers of an agent: whether its host runs any, and the bundle of each run."""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from events.process.images import Image, ImageFault
from events.records.parts import Isolation
from hostagent import private_files
from hostagent.containers import INIT, INITS, SECCOMP_PROFILES, Container, ContainerFault, bundle, seccomp
from hostagent.groups import Group, GroupFault, Limits
from hostagent.images import KEPT_S, MOST_BYTES, Images
from hostagent.keeper.container import BUNDLE
from hostagent.launch import CannotStart
from hostagent.mounts import own_mounts

TOOLS = ("crun", "skopeo", "umoci")
OVERLAY = "over"
"""In the folder of a run: all that a container has written to its root."""
TRIAL_S = 20.0
FILTER = "run.oci.seccomp_bpf_data"
"""Annotation by which crun takes a filter of system calls that is compiled already, in a third of the time."""
TRIAL_LIMITS = Limits(cpu_millis=100, cpu_limit_millis=0, memory_bytes=128 << 20, processes=64)


class ContainerSettings(NamedTuple):
    """The settings of an operator for containers. `devices`: those that they may have; `user_namespace`: the first uid
    and gid of the host, and how many, that their users are mapped to, None: they are not; `images_max`: bytes,
    `images_unused_s`: see `hostagent.images`.
    """

    devices: tuple[str, ...] = ()
    user_namespace: tuple[int, int] | None = None
    images_max: int = MOST_BYTES
    images_unused_s: float = KEPT_S


class Bundle(NamedTuple):
    """The parts of a container: the text for crun, that of its order, and the uid and gid of its user on the host."""

    text: str
    order: dict[str, Any]
    owner: tuple[int, int]
    above: int
    """The mode of the folder above its working folder: a user may leave setuid files there, which are another's of the
    host only where users are mapped.
    """

    def write(self, folder: Path) -> None:
        """Puts it into the folder of its run. Raises `OSError`."""
        (folder / BUNDLE).mkdir(mode=0o700, exist_ok=True)
        private_files.write(str(folder / BUNDLE / "config.json"), self.text)


class Containers:
    """Makes bundles, as far as the trial when it starts shows that the host can. `folder`: that of the agent; `group`:
    for the trial, not made yet. Raises `ContainerFault`.
    """

    def __init__(self, folder: Path, group: Group, settings: ContainerSettings) -> None:
        if os.geteuid():
            raise ContainerFault("the agent isn't root")
        if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
            raise ContainerFault(f"{', '.join(missing)} isn't installed")
        self._init = _first_of("tini-static", INITS)
        self._seccomp = seccomp(_first_of("the common filter of system calls", SECCOMP_PROFILES), os.uname().machine)
        self._filter = ""
        """The filter, compiled and in base64; empty: crun compiles it at each start."""
        self.devices = tuple(path for path in settings.devices if os.path.exists(path))
        self._map = settings.user_namespace
        self.closed = self._map is None
        """Its users are those of the host, so what they leave must be reached through containers alone."""
        if self._map is not None:  # crun looks for roots and folders as their root
            for each in (folder, folder / "tasks", folder / "volumes", folder / "images"):
                each.mkdir(mode=0o711, exist_ok=True)
                each.chmod(0o711)
        self._trial(folder, group)
        self.images = Images(folder / "images", settings.images_unused_s, settings.images_max, self._map)

    def bundle(
        self,
        folder: Path,
        name: str,
        isolation: Isolation,
        command: tuple[str, ...],
        env: Mapping[str, str],
        open_files: int,
        work: Path,
        volumes: Mapping[str, Path],
        secrets: str = "",
        devices: Sequence[str] = (),
    ) -> Bundle:
        """The bundle of a run for its folder; its image is here. `devices`: the files of those that it has. Raises
        `ValueError`, `OSError`.
        """
        image = Image(isolation.image, isolation.image_digest)
        try:
            root = self.images.root(image)
            if root is None:
                raise ImageFault(f"{image.name} isn't on this host", lasting=False)
            container = self._container(root, self.images.config(image), work)._replace(
                command=command,
                env=env,
                volumes=volumes,
                secrets=secrets,
                hostname=name[:63],
                open_files=open_files,
                writable=isolation.writable_root,
                own_network=isolation.network == "none",
                user=isolation.user,
                devices=[*dict.fromkeys((*self._allowed(isolation.devices), *devices))],
                view=self.images.view if isolation.writable_root else None,
            )
            bundle_json = bundle(container)
        except (ContainerFault, ImageFault) as fault:
            raise CannotStart(str(fault)) from None
        order: dict[str, Any] = {"folder": str(folder), "image": list(image), "view": {}}
        if container.view is not None:
            order["view"] = {"lower": str(root), "over": str(folder / OVERLAY), "view": str(container.view)}
        return self._bundle(bundle_json, order)

    def _allowed(self, devices: Sequence[str]) -> Sequence[str]:
        """The devices that a job asks for. Raises `ContainerFault` where its host offers them to none."""
        for path in devices:
            if path not in self.devices:
                raise ContainerFault(f"containers of this host may not have {path}: see device_files of its agent")
        return devices

    def _container(self, root: Path, image: Mapping[str, Any], work: Path) -> Container:
        """One without anything that its job says."""
        return Container(
            root=root,
            image=image,
            command=(),
            env={},
            user="",
            work=work,
            volumes={},
            hostname="trial",
            writable=False,
            own_network=True,
            devices=(),
            open_files=0,
            uid_map=self._map,
            seccomp=self._seccomp,
            init=self._init,
        )

    def _bundle(self, bundle_json: dict[str, Any], order: dict[str, Any]) -> Bundle:
        if self._filter:
            bundle_json["annotations"] = {FILTER: self._filter}
            del bundle_json["linux"]["seccomp"]
        user, first = bundle_json["process"]["user"], self._map[0] if self._map is not None else 0
        return Bundle(
            json.dumps(bundle_json), order, (first + user["uid"], first + user["gid"]), 0o700 if self.closed else 0o711
        )

    def _trial(self, folder: Path, group: Group) -> None:
        """Runs a container to its end; what crun has compiled for it is kept. Raises `ContainerFault`."""
        with TemporaryDirectory(prefix="trial-", dir=folder) as name:
            trial = Path(name)
            trial.chmod(0o711)
            root = trial / "root"
            for each in ("work", "root", *(f"root/{point}" for point in ("proc", "dev", "tmp", "paceline"))):
                (trial / each).mkdir()
                (trial / each).chmod(0o755)  # whatever the umask: a mapped root must get in
            container = self._container(root, {"Cmd": [INIT, "--version"]}, trial / "work")
            run = partial(_crun, group, trial)
            try:
                group.make(TRIAL_LIMITS)
                self._bundle(bundle(container), {}).write(trial)
                run("create", f"--bundle={trial / BUNDLE}", "trial")
                compiled = trial / "crun/trial/seccomp.bpf"
                if compiled.exists():
                    self._filter = base64.b64encode(compiled.read_bytes()).decode()
                run("delete", "--force", "trial")
                self._bundle(bundle(container), {}).write(trial)
                text = run("run", f"--bundle={trial / BUNDLE}", "trial")
            except (GroupFault, OSError, subprocess.SubprocessError) as error:
                raise ContainerFault(str(error)) from None
            finally:
                while not group.kill():
                    pass
                group.remove()
            if "tini" not in text:
                raise ContainerFault(f"a container that was tried wrote {text.strip()[-200:]!r}")


def _crun(group: Group, folder: Path, *words: str) -> str:
    """Runs crun as keepers do; its output. Raises `ContainerFault`, `OSError`, `SubprocessError`."""

    def enter() -> None:
        group.join()
        own_mounts()

    log = folder / "crun.log"
    with open(folder / "output", "w+b") as output:  # a pipe would be held open by what is created
        done = subprocess.run(
            ["crun", "--cgroup-manager=disabled", f"--root={folder / 'crun'}", f"--log={log}", *words],
            preexec_fn=enter,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            timeout=TRIAL_S,
            check=False,
        )
        output.seek(0)
        text = output.read().decode(errors="replace")
    if done.returncode:
        raise ContainerFault(f"crun {words[0]}: {text.strip() or f'it ended with {done.returncode}'}")
    return text


def _first_of(what: str, paths: tuple[str, ...]) -> str:
    """The first path that is there. Raises `ContainerFault`."""
    for path in paths:
        if os.path.exists(path):
            return path
    raise ContainerFault(f"{what} isn't installed")
