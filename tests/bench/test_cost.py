"""A small job costs no more than it did: counts of calls and bytes that the load of the machine can't change.

`cost.json` holds, by minor version of Python, the counts of `python -m bench._cost` at named commits and those that
hold now (`kept`). A change that raises one of them raises it in the file too, and its commit says why: `python -m
tests.bench.test_cost` measures and writes them.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import ROOT

FILE = Path(__file__).with_name("cost.json")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
ALLOWED = 1.02
LEAST = 3.0
"""Calls or bytes a job that don't count: a function more for each of a hundred jobs is no price."""

Counts = dict[str, dict[str, dict[str, float]]]


def counted() -> Counts:
    """The counts of this tree: shape, component, count a job."""
    command = [sys.executable, "-m", "bench._cost"]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: Counts = json.loads(done.stdout)
    return found


def dearer(now: Counts, kept: Counts) -> list[str]:
    """What costs more than it did, in words."""
    return [
        f"{shape}, {component}: {name} {was:,.1f} -> {count:,.1f} a job ({count / was - 1:+.1%})"
        if was
        else f"{shape}, {component}: {name} {count:,.1f} a job, none before"
        for shape, components in now.items()
        for component, counts in components.items()
        for name, count in counts.items()
        for was in [kept[shape].get(component, {}).get(name, 0.0)]
        if count > was * ALLOWED and count - was > LEAST
    ]


def test_a_small_job_costs_no_more_than_it_did() -> None:
    of_python = json.loads(FILE.read_text()).get(PYTHON)
    if of_python is None:
        assert "CI" not in os.environ, f"the counts of Python 3.11 decide, this is {PYTHON}"
        pytest.skip(f"no counts are kept for Python {PYTHON}; those of 3.11 decide")
    assert dearer(counted(), of_python["kept"]) == []


def test_counts_are_kept_for_the_python_that_decides() -> None:
    kept: dict[str, Any] = json.loads(FILE.read_text())["3.11"]
    assert list(kept) == ["01dbcaa", "0.4.0", "kept"]
    assert all({"batch", "lone"} == set(each) for each in kept.values())


def test_what_got_dearer_is_named() -> None:
    kept = {"batch": {"all": {"own_calls": 100.0, "c_calls": 50.0}, "sla": {"own_calls": 1.0}}}
    same = {"batch": {"all": {"own_calls": 101.9, "c_calls": 50.0}, "sla": {"own_calls": 3.0}}}
    more = {"batch": {"all": {"own_calls": 103.1, "c_calls": 50.0}, "new": {"own_calls": 9.0}}}
    assert dearer(same, kept) == []
    assert dearer(more, kept) == [
        "batch, all: own_calls 100.0 -> 103.1 a job (+3.1%)",
        "batch, new: own_calls 9.0 a job, none before",
    ]


if __name__ == "__main__":
    present = json.loads(FILE.read_text())
    present.setdefault(PYTHON, {})["kept"] = counted()
    FILE.write_text(json.dumps(present, indent=1) + "\n")
