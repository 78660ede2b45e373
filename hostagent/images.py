"""Images of containers on a host: pulled by their digest, unpacked once, kept while runs use them and for a time after.

skopeo brings them into one OCI layout, whose layers they share; umoci unpacks the root of each. Below the folder:

* `layout/`: the OCI layout; the tag of an image is the hexadecimal part of its digest;
* `roots/HEX/`: its root, whole from the moment it has this name;
* `roots/HEX.json`: its configuration, with the bytes that the root takes;
* `roots/HEX.lock`: shared by the runs that use it, each from before its start until its end is on disk; the time of its
  change is that of the last use.
"""

import asyncio
import fcntl
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

TOOL_S = 900.0
"""A pull or an unpacking that takes longer is given up: its run's `start_deadline` is over long before."""
TRIES = 3
"""Times that a registry is asked that can't be reached, or says that it can't just now."""
RETRY_S = 1.0
"""The wait before the second try; it doubles with each."""
KEPT_S = 7 * 86_400.0
"""An image that no run has used for so long goes."""
MOST_BYTES = 20 << 30
"""Beyond this the longest unused go."""
NAME = re.compile(r"[a-z0-9][a-zA-Z0-9._:/-]*")
DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
MOUNT_POINTS = ("proc", "dev", "tmp", "paceline")
"""Folders that each container mounts something on."""
LOOPBACK = re.compile(r"(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?/")
"""A registry of this host needs no certificate, as for docker and podman."""
_LASTING = ("manifest unknown", "name unknown", "unauthorized", "denied", "invalid reference format", "no image found")
"""Words of registries by which an image won't come however often it is asked for."""


class ImageFault(Exception):
    """An image can't be had; the message says why. `lasting`: the next try would fail alike."""

    def __init__(self, message: str, lasting: bool) -> None:
        super().__init__(message)
        self.lasting = lasting


class Image(NamedTuple):
    """A name and the digest that it stood for when the job was submitted."""

    name: str
    digest: str

    @property
    def hex(self) -> str:
        """The digest as part of file names. Raises `ImageFault`."""
        match = DIGEST.fullmatch(self.digest)
        if match is None or not NAME.fullmatch(self.name):
            raise ImageFault(f"{self.name}@{self.digest} names no image by its SHA-256", lasting=True)
        return match[1]

    @property
    def source(self) -> str:
        """The image for skopeo, by its digest: a tag may have moved since."""
        repository = re.sub(r":[^/:]*$", "", self.name)
        return f"docker://{repository}@sha256:{self.hex}"


async def resolve(name: str, authfile: str = "") -> str:
    """The digest that a name stands for in its registry now. Raises `ImageFault`."""
    if not NAME.fullmatch(name):
        raise ImageFault(f"{name!r} is no name of an image, such as registry.example/app:1.2", lasting=True)
    manifest = await _ask_registry(name, "inspect", "--raw", *_access(name, authfile), f"docker://{name}")
    return f"sha256:{hashlib.sha256(manifest).hexdigest()}"


class Images:
    """The images of one agent. `folder`: made where it isn't there."""

    def __init__(self, folder: Path, kept_s: float = KEPT_S, most_bytes: int = MOST_BYTES) -> None:
        self._layout, self._roots = folder / "layout", folder / "roots"
        self._kept_s = kept_s
        self._most_bytes = most_bytes
        self._pulling = asyncio.Lock()
        self._roots.mkdir(parents=True, exist_ok=True)
        for half in self._roots.glob("*.tmp"):  # of an agent that was killed meanwhile
            shutil.rmtree(half, ignore_errors=True)

    def root(self, image: Image) -> Path | None:
        """Its root; None: it must be pulled first. Raises `ImageFault`."""
        root = self._roots / image.hex
        return root if root.is_dir() else None

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
        """Brings an image here, if it isn't; its root. One at a time: they share layers, and the disk. Raises
        `ImageFault`.
        """
        async with self._pulling:
            if (root := self.root(image)) is not None:
                return root
            target = f"oci:{self._layout}:{image.hex}"
            await _ask_registry(image.name, "copy", "-q", *_access(image.name, authfile, "src-"), image.source, target)
            return await self._unpack(image)

    async def _unpack(self, image: Image) -> Path:
        root, half = self._roots / image.hex, self._roots / f"{image.hex}.tmp"
        rootless = () if os.geteuid() == 0 else ("--rootless",)
        words = ("umoci", "raw", "unpack", *rootless, "--image", f"{self._layout}:{image.hex}", str(half))
        try:
            code, _, errors = await _tool(*words)
            if code:
                raise ImageFault(f"{image.name} can't be unpacked: {_last_line(errors)}", lasting=False)
            for name in MOUNT_POINTS:  # so that no run writes to the root that all share
                (half / name).mkdir(parents=True, exist_ok=True)
            size = await asyncio.to_thread(_bytes, half)
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
        async with self._pulling:
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
                await _tool("umoci", "rm", "--image", f"{self._layout}:{digest.removeprefix('sha256:')}")
            if removed:
                await _tool("umoci", "gc", "--layout", str(self._layout))
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


async def _ask_registry(name: str, *words: str) -> bytes:
    """Runs skopeo, again where the registry may yet answer. What it wrote. Raises `ImageFault`."""
    for tried in range(TRIES):
        if tried:
            await asyncio.sleep(RETRY_S * 2 ** (tried - 1))
        code, out, errors = await _tool("skopeo", "--insecure-policy", *words)  # the digest is all that is trusted
        if not code:
            return out
        if any(word in errors.lower() for word in _LASTING):
            raise ImageFault(f"{name}: {_last_line(errors)}", lasting=True)
    raise ImageFault(f"{name}: {_last_line(errors)} (tried {TRIES} times)", lasting=False)


async def _tool(*words: str) -> tuple[int, bytes, str]:
    """Runs a program: exit code, output, errors. Raises `ImageFault` where it isn't installed or takes too long."""
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )
    except FileNotFoundError:
        raise ImageFault(f"{words[0]} isn't installed on this host", lasting=True) from None
    try:
        out, errors = await asyncio.wait_for(process.communicate(), TOOL_S)
    except (TimeoutError, asyncio.CancelledError) as error:
        process.kill()
        await process.wait()
        if isinstance(error, asyncio.CancelledError):
            raise
        raise ImageFault(f"{words[0]} took more than {TOOL_S:.0f} s", lasting=False) from None
    return process.returncode or 0, out, errors.decode(errors="replace")


def _access(name: str, authfile: str, of: str = "") -> Sequence[str]:
    """Options of skopeo for a registry; `of`: the end of a copy that it stands at."""
    plain = (f"--{of}tls-verify=false",) if LOOPBACK.match(name) else ()
    return (*plain, *((f"--{of}authfile", authfile) if authfile else ()))


def _config(layout: Path, hex_: str) -> dict[str, Any]:
    """The configuration of an image in the layout, by its tag."""
    index = json.loads((layout / "index.json").read_bytes())
    refs = {each.get("annotations", {}).get("org.opencontainers.image.ref.name"): each for each in index["manifests"]}
    manifest = json.loads(_blob(layout, refs[hex_]["digest"]))
    config: dict[str, Any] = json.loads(_blob(layout, manifest["config"]["digest"])).get("config") or {}
    return config


def _blob(layout: Path, digest: str) -> bytes:
    return (layout / "blobs" / digest.replace(":", "/")).read_bytes()


def _bytes(folder: Path) -> int:
    """The room that a folder takes on disk."""
    return sum(
        os.lstat(os.path.join(top, name)).st_blocks * 512
        for top, folders, files in os.walk(folder)
        for name in (*folders, *files)
    )


def _last_line(errors: str) -> str:
    """The last words of a tool, without its time and level."""
    lines = [line for line in errors.splitlines() if line.strip()]
    match = re.search(r'msg="(.*)"$', lines[-1]) if lines else None
    return match[1].replace('\\"', '"') if match else (lines[-1] if lines else "no word of why")
