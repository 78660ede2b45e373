"""Images of containers on a host: pulled by their digest, unpacked once, kept while runs use them and for a time after.

skopeo brings them into one OCI layout, whose layers they share; umoci unpacks the root of each. Below the folder:

* `layout/`: the OCI layout; the tag of an image is the hexadecimal part of its digest;
* `roots/HEX/`: its root, whole from the moment it has this name; where users of containers are mapped to others of the
  host, `roots-FIRST-NUMBER/`, since its files belong to those;
* `roots/HEX.json`: its configuration, with the bytes that the root takes;
* `roots/HEX.lock`: shared by the runs that use it, each from before its start until its end is on disk; the time of its
  change is that of the last use.
"""

import asyncio
import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn
from weakref import WeakValueDictionary

from events.abilities import IMAGE_DIGITS
from events.bounds import IMAGES_MAX
from events.codes import Code
from events.process.images import Image, ImageFault, access, ask_registry, last_line, run_tool
from hostagent.folders import disarm

KEPT_S = 7 * 86_400.0
"""An image that no run has used for so long goes."""
MOST_BYTES = 20 << 30
"""Beyond this the longest unused go."""
PULLS = 2
"""Pulls from one registry at the same time; one that doesn't answer holds up no other."""
ROOM_BYTES = 512 << 20
"""No image is pulled or unpacked where less than this is free: the disk is that of runs and their records too."""
ROOM_S = 0.1
"""So often it is looked at during a pull."""
_HEX = re.compile(r"[0-9a-f]{64}")
_FULL = "no space left on device"
"""Words of tools by which the disk is full already."""
MOUNT_POINTS = ("proc", "dev", "tmp", "paceline")
"""Folders that each container mounts something on."""


class NoRoom(ImageFault):
    """The disk of the host has no room for the image."""


class Images:
    """The images of one agent. `folder`: made where it isn't there; `uid_map`: the first uid and gid of the host, and
    how many, that those of images are mapped to; None: they are not.
    """

    def __init__(
        self,
        folder: Path,
        kept_s: float = KEPT_S,
        most_bytes: int = MOST_BYTES,
        uid_map: tuple[int, int] | None = None,
    ) -> None:
        self._layout, self._map = folder / "layout", uid_map
        self._roots = folder / ("roots" if uid_map is None else f"roots-{uid_map[0]}-{uid_map[1]}")
        self.view = folder / "view"
        """An empty folder, on which each container that may write to its root has that mounted, for itself alone."""
        self._kept_s = kept_s
        self._most_bytes = most_bytes
        self._incoming = folder / "incoming"
        self._changing = asyncio.Lock()
        """Guards the layout and the roots; it is never held while a registry is waited for."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """One guards each image that is pulled."""
        self._registries: dict[str, asyncio.Semaphore] = {}
        for each in (self._roots, self.view):
            each.mkdir(parents=True, exist_ok=True)
        for each in (folder, self._roots, self.view):  # the root of a user namespace must get in
            each.chmod(0o700 if uid_map is None else 0o711)
        shutil.rmtree(self._incoming, ignore_errors=True)
        for half in self._roots.glob("*.tmp"):  # of an agent that was killed meanwhile
            shutil.rmtree(half, ignore_errors=True)

    def root(self, image: Image) -> Path | None:
        """Its root; None: it must be pulled first. Raises `ImageFault`."""
        root = self._roots / image.hex
        return root if root.is_dir() else None

    def held(self) -> list[str]:
        """The images that are here, by the first digits of their digests, ascending; `IMAGES_MAX` at most."""
        names = (each for each in os.listdir(self._roots) if _HEX.fullmatch(each))
        return sorted({name[:IMAGE_DIGITS] for name in names})[:IMAGES_MAX]

    def config(self, image: Image) -> dict[str, Any]:
        """The `config` of an image that is here: Env, Entrypoint, Cmd, WorkingDir, User as in the OCI image format."""
        described: dict[str, Any] = json.loads((self._roots / f"{image.hex}.json").read_bytes())
        config: dict[str, Any] = described["config"]
        return config

    def use(self, image: Image) -> int:
        """A descriptor that keeps the image from being removed until all its copies are closed. Raises `ImageFault`
        where it isn't here (any more).
        """
        path = self._roots / f"{image.hex}.lock"
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            os.utime(lock)
        except BlockingIOError:  # it is being removed
            os.close(lock)
            raise ImageFault(f"{image.name} was just removed from this host", lasting=False) from None
        if self.root(image) is None:
            os.close(lock)
            raise ImageFault(f"{image.name} isn't on this host", lasting=False)
        return lock

    async def pull(self, image: Image, authfile: str = "") -> Path:
        """Brings an image here, if it isn't; its root. Raises `ImageFault`, `OSError`."""
        lock = self._locks.setdefault(image.hex, asyncio.Lock())
        async with lock:
            if (root := self.root(image)) is not None:
                return root
            try:
                return await self._while_room(image, self._bring(image, authfile))
            except NoRoom:
                await self._drop_layers(image)
                raise

    async def _bring(self, image: Image, authfile: str) -> Path:
        registry = self._registries.setdefault(image.name.partition("/")[0], asyncio.Semaphore(PULLS))
        incoming, blobs = self._incoming / image.hex, self._layout / "blobs"
        blobs.mkdir(parents=True, exist_ok=True)
        incoming.mkdir(parents=True, exist_ok=True)
        try:
            async with registry:
                words = ("copy", "-q", *access(image.name, authfile, "src-"), f"--dest-shared-blob-dir={blobs}")
                await ask_registry(image.name, *words, image.source, f"oci:{incoming}:{image.hex}")
            async with self._changing:
                words = ("copy", "-q", f"--src-shared-blob-dir={blobs}", f"oci:{incoming}:{image.hex}")
                await ask_registry(image.name, *words, f"oci:{self._layout}:{image.hex}")
                return await self._unpack(image)
        finally:
            shutil.rmtree(incoming, ignore_errors=True)

    async def _while_room(self, image: Image, bringing: Coroutine[Any, Any, Path]) -> Path:
        """Its root; gives it up as soon as the disk is nearly full. Raises `NoRoom`, and what it raises."""
        task = asyncio.create_task(bringing)
        try:
            while not task.done():
                self._check_room(image)
                await asyncio.wait((task,), timeout=ROOM_S)
            return task.result()
        except ImageFault as fault:
            if _FULL in str(fault):
                self._refuse(image)
            raise
        finally:
            task.cancel()
            await asyncio.wait((task,))

    def _check_room(self, image: Image) -> None:
        """Raises `NoRoom` where the disk is nearly full."""
        if shutil.disk_usage(self._roots).free < ROOM_BYTES:
            self._refuse(image)

    def _refuse(self, image: Image) -> NoReturn:
        free = shutil.disk_usage(self._roots).free >> 20
        raise NoRoom(
            f"{Code.IMAGE_NO_ROOM}: {image.name} was not pulled: the disk of its host has {free} MiB left, of which "
            f"{ROOM_BYTES >> 20} MiB are kept for its runs",
            lasting=False,
        )

    async def _drop_layers(self, image: Image) -> None:
        """Gives back what came of an image, unless others are pulled, which may be of the same layers."""
        async with self._changing:
            if list(self._locks) != [image.hex]:
                return
            if (self._layout / "index.json").exists():
                await run_tool("umoci", "rm", "--image", f"{self._layout}:{image.hex}")
                await run_tool("umoci", "gc", "--layout", str(self._layout))
            else:
                await asyncio.to_thread(shutil.rmtree, self._layout, ignore_errors=True)

    async def _unpack(self, image: Image) -> Path:
        root, half = self._roots / image.hex, self._roots / f"{image.hex}.tmp"
        options: tuple[str, ...] = () if os.geteuid() == 0 else ("--rootless",)
        if self._map is not None:
            first, number = self._map
            options += (f"--uid-map=0:{first}:{number}", f"--gid-map=0:{first}:{number}")
        words = ("umoci", "raw", "unpack", *options, "--image", f"{self._layout}:{image.hex}", str(half))
        try:
            code, _, errors = await run_tool(*words)
            if code:
                raise ImageFault(f"{image.name} can't be unpacked: {last_line(errors)}", lasting=False)
            _make_mount_points(image, half)
            half.chmod(0o755)
            size = await asyncio.to_thread(disarm, half)
            described = {"config": _config(self._layout, image.hex), "bytes": size}
            (self._roots / f"{image.hex}.json").write_text(json.dumps(described))
            half.rename(root)
        finally:
            await asyncio.to_thread(shutil.rmtree, half, ignore_errors=True)
        return root

    async def collect(self, now_s: float | None = None) -> list[str]:
        """Removes what no run uses: all that is unused for long, then the longest unused until the rest is small
        enough. The digests that are gone.
        """
        now_s = time.time() if now_s is None else now_s
        if self._locks:  # layers that come belong to no image yet
            return []
        async with self._changing:
            unused = sorted((used_s, hex_, size) for hex_, used_s, size in self._known())
            total = sum(size for *_, size in unused)
            removed = []
            for used_s, hex_, size in unused:
                if now_s - used_s < self._kept_s and total <= self._most_bytes:
                    break
                if await asyncio.to_thread(self._remove, hex_):
                    total -= size
                    removed.append(f"sha256:{hex_}")
            for digest in removed:
                await run_tool("umoci", "rm", "--image", f"{self._layout}:{digest.removeprefix('sha256:')}")
            if removed:
                await run_tool("umoci", "gc", "--layout", str(self._layout))
            return removed

    def _known(self) -> Iterator[tuple[str, float, int]]:
        """(hex, time of the last use, bytes) of each image."""
        for path in self._roots.glob("*.json"):
            lock = self._roots / f"{path.stem}.lock"
            used_s = (lock if lock.exists() else path).stat().st_mtime
            yield path.stem, used_s, json.loads(path.read_bytes())["bytes"]

    def _remove(self, hex_: str) -> bool:
        """Removes the root of an image, unless a run uses it."""
        lock = os.open(self._roots / f"{hex_}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        else:
            half = self._roots / f"{hex_}.tmp"
            with suppress(FileNotFoundError):
                (self._roots / hex_).rename(half)
            shutil.rmtree(half, ignore_errors=True)
            (self._roots / f"{hex_}.json").unlink(missing_ok=True)
            (self._roots / f"{hex_}.lock").unlink(missing_ok=True)
            return True
        finally:
            os.close(lock)


def _make_mount_points(image: Image, root: Path) -> None:
    """So that no run writes to the root that all share. Raises `ImageFault`, `OSError`."""
    for name in MOUNT_POINTS:
        path = root / name
        if os.path.lexists(path) and (path.is_symlink() or not path.is_dir()):
            raise ImageFault(f"{image.name} has no folder at /{name}, where its containers need one", lasting=True)
        if not path.is_dir():
            path.mkdir()
            path.chmod(0o755)  # whatever the umask: the root of a user namespace opens it


def _config(layout: Path, hex_: str) -> dict[str, Any]:
    """The configuration of an image in the layout, by its tag."""
    index = json.loads((layout / "index.json").read_bytes())
    refs = {each.get("annotations", {}).get("org.opencontainers.image.ref.name"): each for each in index["manifests"]}
    manifest = json.loads(_blob(layout, refs[hex_]["digest"]))
    config: dict[str, Any] = json.loads(_blob(layout, manifest["config"]["digest"])).get("config") or {}
    return config


def _blob(layout: Path, digest: str) -> bytes:
    return (layout / "blobs" / digest.replace(":", "/")).read_bytes()
