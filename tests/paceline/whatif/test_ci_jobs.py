"""The jobs of two CI systems in `examples/what-if/ci/`, run as these run them."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers import ROOT

JOBS = ROOT / "examples" / "what-if" / "ci"
HISTORY = ROOT / "bench" / "recordings" / "half.avro"
HARMLESS = "pools: [{path: /a}, {path: /b}, {path: /c}]\n"
HARMFUL = "pools: [{path: /a}, {path: /b}, {path: /c, limit: {cpu: 1}}]\n"


def github(folder: Path, env: dict[str, str]) -> int:
    """The exit code of the steps, each by a `bash -eo pipefail`, up to the first that fails, as GitHub runs `run`."""
    job = yaml.safe_load((JOBS / "github-actions.yml").read_text())["jobs"]["what-if"]
    assert {name: f"${{{{ vars.{name} }}}}" for name in ("PACELINE_WHEEL", "HISTORY_URL")} == job["env"]
    for step in job["steps"]:
        if "run" in step and (code := shell(["bash", "-eo", "pipefail", "-c", step["run"]], folder, env)):
            return code
    return 0


def gitlab(folder: Path, env: dict[str, str]) -> int:
    """The exit code of the script, one shell for all lines, as GitLab's runner does; one that is allowed is none."""
    job: dict[str, Any] = yaml.safe_load((JOBS / "gitlab-ci.yml").read_text())["what-if"]
    code = shell(["bash", "-eo", "pipefail", "-c", "\n".join(job["script"])], folder, env)
    return 0 if code == job["allow_failure"]["exit_codes"] else code


def shell(words: list[str], folder: Path, env: dict[str, str]) -> int:
    return subprocess.run(words, cwd=folder, env=os.environ | env, check=False).returncode


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """The variables of a job; Paceline is installed already."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for name, text in (("pip", "true"), ("paceline", f'exec "{sys.executable}" -m paceline "$@" --runs 2')):
        (bin_ / name).write_text(f"#!/bin/sh\n{text}\n")
        (bin_ / name).chmod(0o755)
    return {
        "PATH": f"{bin_}:{os.environ['PATH']}",
        "PACELINE_WHEEL": "paceline.whl",
        "HISTORY_URL": HISTORY.as_uri(),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }


@pytest.mark.outside
@pytest.mark.parametrize("run", [github, gitlab])
def test_a_harmless_change_passes_and_a_harmful_one_fails_with_a_report(
    run: Any, tmp_path: Path, env: dict[str, str]
) -> None:
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "pools.yaml").write_text(HARMLESS)
    assert run(folder, env) == 0
    assert (folder / "report" / "report.md").exists()
    (folder / "pools.yaml").write_text(HARMFUL)
    assert run(folder, env) == 1
    text = (folder / "report" / "report.md").read_text()
    assert "/c" in text
    if run is github:
        assert (tmp_path / "summary.md").read_text().endswith(text)


@pytest.mark.outside
@pytest.mark.parametrize("run", [github, gitlab])
def test_a_history_that_cant_be_fetched_and_a_wrong_file_fail(run: Any, tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "pools.yaml").write_text(HARMLESS)
    assert run(tmp_path, env | {"HISTORY_URL": (tmp_path / "none.avro").as_uri()}) not in (0, 1, 3)
    (tmp_path / "pools.yaml").write_text("pools: [{path: a}]\n")
    assert run(tmp_path, env) == 2
