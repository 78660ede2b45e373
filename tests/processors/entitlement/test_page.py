"""docs/sharing.md shows what a cell does, and its settings are those of the code."""

import json
import re

from events.cell_settings import DEFAULTS, TYPES
from events.quantities import write_ms
from events.spec.settings import written
from tests.processors.entitlement.pictures import PAGE, rendered
from tests.processors.entitlement.test_cases import FOLDER

OTHERS = {
    *("host_lost_after", "host_lost_percent_per_minute", "host_lost_grace", "host_removed_after"),
    *("restart_backoff", "restart_backoff_max", "forget_after", "ended_jobs_max", "exec", "drain_force"),
    *("release_after", "drain_after"),
    *("access", "agents", "names", "calls_per_s", "streams_per_actor", "late_after"),
    "topology",
}
"""Settings that have nothing to do with sharing."""


def default(name: str) -> str:
    """A default as users write it."""
    value = getattr(DEFAULTS, name)
    return write_ms(value) if name.endswith("_ms") else str(value)


def test_the_pictures_are_those_of_a_run() -> None:
    assert PAGE.read_text() == rendered(), (
        "a machine decides otherwise: python -m tests.processors.entitlement.pictures"
    )


def test_the_table_has_each_setting_of_sharing_with_its_default() -> None:
    table = PAGE.read_text().partition("## Settings")[2].partition("\n## ")[0]
    shown: dict[str, str] = {}
    for names, defaults in re.findall(r"^\| (`.*?`) \| (.*?) \| ", table, re.M):
        shown |= dict(zip(re.findall("`(.*?)`", names), defaults.split(", "), strict=True))
    assert shown == {written(name): default(name) for name in TYPES if written(name) not in OTHERS}


def test_the_table_of_worked_cases_names_cases_that_are_there() -> None:
    table = PAGE.read_text().partition("## Worked cases")[2]
    files = ("entitlement", "admission", "preemption")
    known = {case["case_id"] for name in files for case in json.loads((FOLDER / f"{name}.json").read_text())}
    rows = re.findall(r"^\| (`.*?`) \| ", table, re.M)
    named = {name for row in rows for name in re.findall("`(.*?)`", row)}
    assert named
    assert named <= known
