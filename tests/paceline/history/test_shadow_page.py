"""What docs/shadow.md shows is what comes out.

`python -m tests.paceline.history.test_shadow_page` writes the outputs into the page anew.
"""

import io
import re
import shlex
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from paceline.cli.main import run
from tests.helpers import ROOT
from tests.helpers.builds import NO_LENDING, copied
from tests.paceline.whatif.recorded import THREE_TEAMS

PAGE = ROOT / "docs" / "shadow.md"
SHOWN = re.compile(r"```\n\$ paceline (log .*)\n((?:.*\n)*?)```\n")


def outputs(folder: Path) -> dict[str, str]:
    """What the commands of the page print, by command."""
    (folder / "next").mkdir()
    python = copied(folder / "next", NO_LENDING)
    (folder / "next" / "bin").mkdir()
    python.rename(folder / "next" / "bin" / "python")
    printed = {}
    with chdir(folder), redirect_stderr(io.StringIO()):
        with redirect_stdout(io.StringIO()):
            run(["simulate", str(THREE_TEAMS), "--data", "cell"])
        for words, _ in SHOWN.findall(PAGE.read_text()):
            with redirect_stdout(io.StringIO()) as out:
                run(shlex.split(words))
            printed[words] = out.getvalue()
    return printed


@pytest.mark.outside
def test_the_outputs_on_the_page_are_real(tmp_path):
    shown = dict(SHOWN.findall(PAGE.read_text()))
    assert shown
    assert outputs(tmp_path) == shown, "decided otherwise: python -m tests.paceline.history.test_shadow_page"


def write() -> None:
    """Puts the outputs into the page."""
    with TemporaryDirectory() as folder:
        printed = outputs(Path(folder))
    PAGE.write_text(SHOWN.sub(lambda found: f"```\n$ paceline {found[1]}\n{printed[found[1]]}```\n", PAGE.read_text()))


if __name__ == "__main__":
    write()
