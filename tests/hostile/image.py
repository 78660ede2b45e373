"""An image that attacks run from, made without a network: the interpreter of this machine, with what attacks import."""

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from events.process.images import Image, resolve
from hostagent.images import Images
from tests.helpers.image_registry import image_registry
from tests.hostile import attacks

BUSYBOX = "/bin/busybox"
PROGRAMS = ("sh", "sleep", "true")
"""Programs beside the interpreter, all of them busybox, which needs no library."""
SCRIPT = "/attacks.py"
IMPORTED = """
import json, os, runpy, sys
runpy.run_path(sys.argv[1])
"host".encode("idna")  # as sockets do with names
own = os.path.dirname(os.__file__)
files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
print(json.dumps([own, os.path.realpath(sys.executable), [file for file in files if file and file.startswith(own)]]))
"""
"""Prints the folder of the standard library, the interpreter, and the files of all that the attacks import."""


def needs() -> str:
    """Why the image can't be made here; empty: it can."""
    tools = ("umoci", "skopeo", "docker-registry", "ldd")
    lacks = [name for name in tools if shutil.which(name) is None] + [BUSYBOX] * (not os.path.exists(BUSYBOX))
    return f"{', '.join(lacks)} isn't installed" if lacks else ""


def bring(python: str, images: Images, folder: Path) -> Image:
    """Builds the image, and has a host pull it from a registry; `folder`: made, for what is needed meanwhile."""
    folder.mkdir()
    try:
        _build(python, folder / "layout")
        with image_registry(folder / "registry") as registry:
            name = registry.push(folder / "layout", "1", "hostile:1")
            image = Image(name, asyncio.run(resolve(name)))
            asyncio.run(images.pull(image))
    finally:
        shutil.rmtree(folder)
    return image


def _build(python: str, layout: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        _fill(python, root)
        image = f"{layout}:1"
        for words in (
            ("init", "--layout", str(layout)),
            ("new", "--image", image),
            ("insert", "--image", image, str(root), "/"),
            ("config", "--image", image, "--config.workingdir", "/paceline/work", "--config.env", f"PATH={os.defpath}"),
        ):
            subprocess.run(["umoci", *words], check=True, capture_output=True)


def _fill(python: str, root: Path) -> None:
    """Puts all that attacks need into the root of an image."""
    words = [python, "-I", "-S", "-c", IMPORTED, attacks.__file__]
    library, program, files = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    for part in sorted({Path(file).relative_to(library).parts[0] for file in files}):
        if part != "lib-dynload":
            _copy(Path(library) / part, root)
    binaries = [Path(program), *(Path(file) for file in files if file.endswith(".so"))]
    for path in {*binaries, *(each for binary in binaries for each in _libraries(binary))}:
        _copy(path, root)
    _link(root, python, os.path.realpath(program))
    _copy(Path(BUSYBOX), root)
    for name in PROGRAMS:
        _link(root, f"/bin/{name}", BUSYBOX)
    shutil.copy(attacks.__file__, root / SCRIPT[1:])
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)


def _copy(path: Path, root: Path) -> None:
    """Copies a file, or a folder without the tests in it, to where it is on this machine."""
    target = root / str(path).lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.copytree(path, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("test", "tests"))
    else:
        shutil.copy(path, target)


def _link(root: Path, path: str, to: str) -> None:
    link = root / path[1:]
    link.parent.mkdir(parents=True, exist_ok=True)
    if not os.path.lexists(link):
        link.symlink_to(to)


def _libraries(binary: Path) -> list[Path]:
    """The shared libraries of a program, its loader too."""
    listed = subprocess.run(["ldd", str(binary)], check=True, capture_output=True, text=True).stdout
    return [Path(word) for line in listed.splitlines() for word in line.split() if word.startswith("/")]
