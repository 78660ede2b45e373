"""The compiled kernels of the placement engine, from a folder that keeps them.

`python -m processors.runtime.kernel_cache` fills it when the environment or the image is made: half a minute of work.

The folder's name follows from the source and the versions, so that what it holds is never of another source: numba
itself looks at one file alone.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from threading import Thread
from typing import TypeVar

from processors.machine import Machine
from processors.placement import devices, engine
from processors.placement.devices import compiled as of_cards
from processors.placement.engine.compiled import Kernels, compiled, use
from processors.placement.engine_view import ENGINE_FROM
from processors.placement.machine import Placement

T = TypeVar("T")

CARDS_FROM = 64
"""From so many hosts on, some with GPUs, cards are compared by compiled code."""
READY = "ready"
"""The file that says that all is there."""


def folder() -> Path:
    """Where the kernels of this source are kept; raises `ModuleNotFoundError` where numba is missing."""
    try:
        versions = [sys.version, version("numba"), version("llvmlite"), version("numpy")]
    except PackageNotFoundError as error:
        raise ModuleNotFoundError("numba is missing") from error
    digest = hashlib.sha256("\n".join([*versions, _processor()]).encode())
    for package in (engine, devices):
        for path in sorted(Path(package.__file__ or "").parent.glob("*.py")):
            digest.update(path.read_bytes())
    base = os.environ.get("PACELINE_KERNELS") or Path(sys.prefix) / "share" / "paceline" / "kernels"
    return Path(base) / digest.hexdigest()[:16]


def _processor() -> str:
    """The processor that code is compiled for: the one that numba is given, or that is here."""
    name = os.environ.get("NUMBA_CPU_NAME")
    if name:
        return name
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags", "CPU part"))}))


def is_filled() -> bool:
    """Whether `load` finds all that it needs."""
    try:
        return (folder() / READY).exists()
    except ModuleNotFoundError:
        return False


def load() -> Kernels:
    """The kernels, from the folder; what isn't there is compiled and written to it. Raises `ModuleNotFoundError`."""
    return _load(compiled)


def load_of_cards() -> of_cards.Kernels:
    """The kernels that score hosts with GPUs, as `load`."""
    return _load(of_cards.compiled)


def _load(make: Callable[[], T]) -> T:
    path = folder()
    from numba.core import caching

    class Kept(caching.UserProvidedCacheLocator):
        """The folder as it is, also where it may only be read."""

        def __init__(self, function: object, file: str) -> None:
            super().__init__(function, file)
            self._cache_path = str(path)

        def ensure_cache_path(self) -> None:
            path.mkdir(parents=True, exist_ok=True)

        def get_source_stamp(self) -> str:
            return path.name

        @classmethod
        def from_function(cls, function: object, file: str) -> "Kept":
            return cls(function, file)

    locators = caching.CacheImpl._locator_classes  # noqa: SLF001 - its variable is for all processes
    locators.insert(0, Kept)
    try:
        return make()
    finally:
        locators.remove(Kept)


def watch(machine: Machine) -> None:
    """Lets compiled kernels decide from soon on, once a machine of placement has so many hosts that it pays. A thread
    fetches them; where they aren't kept yet, a process of its own compiles them, and numpy decides meanwhile.
    """
    if _threads or not isinstance(machine, Placement) or not _pays(machine):
        return
    _threads.append(Thread(target=_fetch, name="kernels", daemon=True))
    _threads[0].start()


def use_kept(machine: Machine) -> None:
    """Lets compiled kernels decide from now on where they are kept and pay, for simulations: these compile none."""
    if _looked or not isinstance(machine, Placement) or not _pays(machine):
        return
    _looked.append(True)
    if is_filled():
        _use()


def _pays(machine: Placement) -> bool:
    hosts = len(machine.hosts.ids)
    return hosts >= ENGINE_FROM or (hosts >= CARDS_FROM and machine.hosts.have_cards)


_threads: list[Thread] = []
_looked: list[bool] = []
"""Whether a simulation has looked for kept kernels: each step asks, and a look reads files."""


def _fetch() -> None:
    if not is_filled():
        subprocess.run([sys.executable, "-m", "processors.runtime.kernel_cache"], check=False)
    if is_filled():
        _use()


def _use() -> None:
    use(load())
    of_cards.use(load_of_cards())


def main() -> int:
    """Fills the folder."""
    try:
        load()
        load_of_cards()
    except ModuleNotFoundError as error:
        sys.stderr.write(f"{error}: placement decides by numpy, with the same answers\n")
        return 0
    (folder() / READY).touch()
    return 0


if __name__ == "__main__":
    sys.exit(main())
