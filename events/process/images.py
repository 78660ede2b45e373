"""Asks a registry of images through skopeo: what a name stands for, and for the image itself."""

import asyncio
import hashlib
import re
from collections.abc import Sequence
from typing import NamedTuple

from events.bounds import DIGEST, IMAGE

TOOL_S = 900.0
"""A pull or an unpacking that takes longer is given up: its run's `start_deadline` is over long before."""
RESOLVE_S = 10.0
"""A look at what a tag stands for is given up after so long: whoever submits the job waits for it."""
_RESOLVING = asyncio.Semaphore(4)
"""Looks at the same time: each is a program of this machine."""
TRIES = 3
"""Times that a registry is asked that can't be reached, or says that it can't just now."""
RETRY_S = 1.0
"""The wait before the second try; it doubles with each."""
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
        if not DIGEST.fullmatch(self.digest) or not IMAGE.fullmatch(self.name):
            raise ImageFault(f"{self.name}@{self.digest} names no image by its SHA-256", lasting=True)
        return self.digest.removeprefix("sha256:")

    @property
    def source(self) -> str:
        """The image for skopeo, by its digest: a tag may have moved since."""
        repository = re.sub(r":[^/:]*$", "", self.name)
        return f"docker://{repository}@sha256:{self.hex}"


async def resolve(name: str, authfile: str = "") -> str:
    """The digest that a name stands for in its registry now. Raises `ImageFault`."""
    if not IMAGE.fullmatch(name):
        raise ImageFault(f"{name!r} is no name of an image, such as registry.example/app:1.2", lasting=True)
    try:
        async with asyncio.timeout(RESOLVE_S), _RESOLVING:
            manifest = await ask_registry(name, "inspect", "--raw", *access(name, authfile), f"docker://{name}")
    except TimeoutError:
        raise ImageFault(f"{name}: no answer of its registry within {RESOLVE_S:.0f} s", lasting=False) from None
    return f"sha256:{hashlib.sha256(manifest).hexdigest()}"


async def ask_registry(name: str, *words: str) -> bytes:
    """Runs skopeo, again where the registry may yet answer. What it wrote. Raises `ImageFault`."""
    for tried in range(TRIES):
        if tried:
            await asyncio.sleep(RETRY_S * 2 ** (tried - 1))
        limit = f"--command-timeout={TOOL_S:.0f}s"
        code, out, errors = await run_tool("skopeo", limit, "--insecure-policy", *words)  # the digest alone is trusted
        if not code:
            return out
        if any(word in errors.lower() for word in _LASTING):
            raise ImageFault(f"{name}: {last_line(errors)}", lasting=True)
    raise ImageFault(f"{name}: {last_line(errors)} (tried {TRIES} times)", lasting=False)


async def run_tool(*words: str) -> tuple[int, bytes, str]:
    """Runs a program: exit code, output, errors. Raises `ImageFault` where it isn't installed or takes too long."""
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )
    except FileNotFoundError:
        wish = f"install it there (on Debian: apt install {words[0]})"
        raise ImageFault(f"{words[0]} isn't on the machine of this process; {wish}", lasting=True) from None
    try:
        out, errors = await asyncio.wait_for(process.communicate(), TOOL_S)
    except (TimeoutError, asyncio.CancelledError) as error:
        process.kill()
        await process.wait()
        if isinstance(error, asyncio.CancelledError):
            raise
        raise ImageFault(f"{words[0]} took more than {TOOL_S:.0f} s", lasting=False) from None
    return process.returncode or 0, out, errors.decode(errors="replace")


def access(name: str, authfile: str, of: str = "") -> Sequence[str]:
    """Options of skopeo for a registry; `of`: the end of a copy that it stands at."""
    plain = (f"--{of}tls-verify=false",) if LOOPBACK.match(name) else ()
    return (*plain, *((f"--{of}authfile", authfile) if authfile else ()))


def last_line(errors: str) -> str:
    """The last words of a tool, without its time and level."""
    lines = [line for line in errors.splitlines() if line.strip()]
    match = re.search(r'msg="(.*)"$', lines[-1]) if lines else None
    words = match[1].replace('\\"', '"') if match else (lines[-1] if lines else "no word of why")
    return re.sub('^Error parsing image name "[^"]*": ', "", words)  # skopeo says so of all that a registry answers
