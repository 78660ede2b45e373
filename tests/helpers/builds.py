"""Interpreters with a Paceline of their own: a copy of this tree in which something was changed."""

import shlex
import shutil
import sys
from pathlib import Path

from tests.helpers import ROOT

PACKAGES = ("schemas", "events", "processors", "projections", "hostagent", "paceline")
NO_LENDING = ("events/work_classes.py", "LENT_TO = frozenset(", "LENT_TO = frozenset() and frozenset(")
"""Nothing is lent: entitlement decides otherwise wherever it would."""


def copied(folder: Path, *changes: tuple[str, str, str]) -> Path:
    """An interpreter whose Paceline is a copy of this one in a folder. `changes`: a file, a text that stands in it
    once, and what stands there instead.
    """
    tree = folder / "tree"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name, old, new in changes:
        text = (tree / name).read_text()
        assert text.count(old) == 1, f"{name} has {text.count(old)} times {old}"
        (tree / name).write_text(text.replace(old, new))
    return wrapper(folder / "python", f"PYTHONPATH={shlex.quote(str(tree))}")


def wrapper(file: Path, environment: str = "", options: str = "") -> Path:
    """This interpreter, started with some environment and options."""
    file.write_text(f'#!/bin/sh\n{environment} exec {shlex.quote(sys.executable)} {options} "$@"\n')
    file.chmod(0o755)
    return file
