"""What docs/simulate.md shows is what comes out, and docs/scenarios.md names every field.

`python -m tests.paceline.simulate.test_docs` writes the outputs into the page anew.
"""

import io
import json
import re
from contextlib import chdir, redirect_stdout
from pathlib import Path

from events.spec.job import JobSpec
from paceline.cli.main import run
from paceline.simulate.faults.injection import CHANCE
from paceline.simulate.scenario.parts import ScenarioSim
from paceline.simulate.scenario.scenario import json_schema
from tests.helpers import ROOT

PAGE = ROOT / "docs" / "simulate.md"
SHOWN = re.compile(r"```\n\$ paceline (simulate .*)\n((?:.*\n)*?)```\n")
TOOK = re.compile(r"[\d.]+ seeds/s, [\d,]+ events/s, [\d.,]+ s")
"""What is otherwise each time."""
SCENARIO = re.compile(r"```yaml\n((?:.*\n)*?)```\n")


def output(words: str, folder: Path) -> str:
    """What a command of the page prints."""
    (folder / "wrong_limit.yaml").write_text(SCENARIO.findall(PAGE.read_text())[0])
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "bench").symlink_to(ROOT / "bench")
    printed = io.StringIO()
    with chdir(folder), redirect_stdout(printed):
        run(words.split())
    return TOOK.sub("2.34 seeds/s, 840 events/s, 1.7 s", printed.getvalue())


def test_the_outputs_on_the_page_are_real(tmp_path):
    found = SHOWN.findall(PAGE.read_text())
    assert len(found) == 4
    for number, (words, shown) in enumerate(found):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert output(words, folder) == shown, "decided otherwise: python -m tests.paceline.simulate.test_docs"


def test_every_field_is_explained():
    text = (ROOT / "docs" / "scenarios.md").read_text()
    schema = json_schema()
    named = {name for part in (schema, *schema["$defs"].values()) for name in part.get("properties", {})}
    assert {name for name in named if f"`{name}`" not in text} == set()


def test_every_field_of_a_job_and_every_kind_of_fault_has_its_row():
    fields = re.findall(r"^\| (`.*`) \| ", (ROOT / "docs" / "scenarios.md").read_text(), re.MULTILINE)
    assert {f"`{name}`" for name in JobSpec.model_fields if name != "sim"} <= {*", ".join(fields).split(", ")}
    kinds = re.findall(r"^\| (`.*`) \| ", PAGE.read_text(), re.MULTILINE)
    assert {f"`{kind}`" for kind in CHANCE} <= {*", ".join(kinds).split(", ")}


def test_every_field_that_is_refused_is_listed():
    text = (ROOT / "docs" / "scenarios.md").read_text()
    listed = text[text.index("## What can't be simulated yet") :]
    for part in (ScenarioSim,):
        assert part.later
        assert {name for name in part.later if f"`{name}`" not in listed} == set()


def test_the_example_of_expectations_is_that_of_the_file():
    shown = SCENARIO.findall((ROOT / "docs" / "scenarios.md").read_text())[0]
    first = json.dumps((ROOT / "examples" / "scenarios" / "first.yaml").read_text())
    assertions = re.findall(r"(?:that|always|never): ([^,}\n]+)", shown)
    assert len(assertions) == 4
    for assertion in assertions:
        assert assertion in first, assertion


def write() -> None:
    """Puts the outputs into the page."""
    from tempfile import TemporaryDirectory

    def anew(match: re.Match[str]) -> str:
        with TemporaryDirectory() as folder:
            return f"```\n$ paceline {match[1]}\n{output(match[1], Path(folder))}```\n"

    PAGE.write_text(SHOWN.sub(anew, PAGE.read_text()))


if __name__ == "__main__":
    write()
