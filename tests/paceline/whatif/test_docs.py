"""What docs/what-if.md shows is what comes out.

`python -m tests.paceline.whatif.test_docs` writes the outputs into the page anew.
"""

import io
import re
import shlex
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

from paceline.cli.main import run
from tests.helpers import ROOT
from tests.paceline.whatif.recorded import THREE_TEAMS

PAGE = ROOT / "docs" / "what-if.md"
OUTAGE = ROOT / "examples" / "scenarios" / "outage.yaml"
SHOWN = re.compile(r"```\n\$ paceline (.*)\n((?:.*\n)*?)```\n")


def outputs(folder: Path) -> dict[str, str]:
    """What the commands of the page print, by command."""
    printed = {}
    with chdir(folder), redirect_stderr(io.StringIO()):
        with redirect_stdout(io.StringIO()):
            run(["simulate", str(THREE_TEAMS), "--data", "cell"])
            run(["simulate", str(OUTAGE), "--data", "outage"])
        for words, _ in SHOWN.findall(PAGE.read_text()):
            with redirect_stdout(io.StringIO()) as out:
                run(shlex.split(words))
            printed[words] = out.getvalue()
    return printed


def test_the_outputs_on_the_page_are_real(tmp_path):
    shown = dict(SHOWN.findall(PAGE.read_text()))
    assert shown
    assert outputs(tmp_path) == shown, "decided otherwise: python -m tests.paceline.whatif.test_docs"


def write() -> None:
    """Puts the outputs into the page."""
    with TemporaryDirectory() as folder:
        printed = outputs(Path(folder))
    PAGE.write_text(SHOWN.sub(lambda found: f"```\n$ paceline {found[1]}\n{printed[found[1]]}```\n", PAGE.read_text()))


if __name__ == "__main__":
    write()
