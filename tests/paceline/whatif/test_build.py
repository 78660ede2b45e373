"""`paceline what-if --build`: another Paceline decides the changed side of each pair."""

import io
import json
import sys
from contextlib import redirect_stdout

import pytest

from paceline.cli.main import run
from tests.helpers.builds import NO_LENDING, copied, wrapper
from tests.paceline.whatif.recorded import THREE_TEAMS

pytestmark = [pytest.mark.outside, pytest.mark.xdist_group("builds")]

STRETCH = ("--from", "2023-11-14T22:18Z", "--to", "2023-11-14T22:28Z", "--runs", "2")


@pytest.fixture(scope="module")
def cell(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded") / "cell"
    with redirect_stdout(io.StringIO()):
        assert run(["simulate", str(THREE_TEAMS), "--data", str(folder)]) == 0
    return str(folder)


def asked(capsys, *words: object) -> tuple[int, str, str]:
    code = run(["what-if", *map(str, words)])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_same_build_gives_the_same_answer_to_the_last_figure(cell, capsys, tmp_path):
    file = tmp_path / "change.yaml"
    file.write_text("priorities: {b-10: 5}\nwithout:\n  jobs: [a-12]\n")
    change = ("--set", "/b:share=4", "--set", "/a:limit:cpu=3", "--file", file, "--resolution", "1s")
    here = asked(capsys, "--data", cell, *STRETCH, *change, "-o", "json")
    there = asked(capsys, "--data", cell, *STRETCH, *change, "--build", sys.executable, "-o", "json")
    assert here[0] == there[0] == 0
    one, other = json.loads(here[1]), json.loads(there[1])
    assert other["change"][: len(one["change"])] == one["change"]
    assert other["change"][-1].startswith("decided by Paceline ")
    assert {**other, "change": one["change"]} == one
    assert any(abs(each["effect"]) > 1 for each in one["figures"])


def test_a_build_alone_is_a_change(cell, capsys, tmp_path):
    build = copied(tmp_path, NO_LENDING)
    code, out, _ = asked(capsys, "--data", cell, *STRETCH, "--build", build, "-o", "json")
    body = json.loads(out)
    assert code == 0
    assert any(each["effect"] for each in body["figures"])
    same = json.loads(asked(capsys, "--data", cell, *STRETCH, "--build", sys.executable, "-o", "json")[1])
    assert not any(each["effect"] for each in same["figures"])


def test_what_is_no_build_and_a_build_that_is_killed(cell, capsys, tmp_path):
    out = tmp_path / "out"
    assert asked(capsys, "--data", cell, *STRETCH, "--build", sys.executable, "--keep", "--out", out)[0] == 2
    bare = wrapper(tmp_path / "bare", options="-S")
    for python, words in ((tmp_path / "none", "can't be started"), (bare, "There is no Paceline in")):
        code, _, err = asked(capsys, "--data", cell, *STRETCH, "--build", python)
        assert code == 2
        assert words in err
    dying = copied(
        tmp_path,
        ("paceline/whatif/build_side.py", "                _write(result_of(branch))\n",
         "                import signal\n                os.kill(os.getpid(), signal.SIGKILL)\n"),
        ("paceline/whatif/build_side.py", "import sys\nimport time\n", "import os\nimport sys\nimport time\n"),
    )  # fmt: skip
    code, out, err = asked(capsys, "--data", cell, *STRETCH, "--build", dying)
    assert (code, out) == (6, ""), "1 would say that a condition holds"
    assert "ended with -9" in err
