"""`job explain --ledger` and `pool waits`; what docs/sharing.md shows of them is what comes out.

`python -m tests.paceline.cli.test_waits` writes the output into the page anew.
"""

import io
import re
import shlex
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

from paceline.cli.main import run
from tests.helpers import ROOT

PAGE = ROOT / "docs" / "sharing.md"
SHOWN = re.compile(r"(\$ paceline simulate (\S+) --data cell\n\$ paceline (job explain .*)\n)((?:.+\n)*?)```\n")
RUNNING = {"kept_ms": 7_200_000, "lost_to_preemption_ms": 0, "lost_to_hosts_ms": 0, "lost_to_failures_ms": 3_600_000}
SUMS = {
    "waiting_ms": 5_400_000,
    "running_ms": 10_800_000,
    "waiting": [{"code": "NO_HOST_FITS", "task_ms": 3_600_000}, {"code": "STARTING", "task_ms": 1_800_000}],
    "running": RUNNING,
}
NOTHING = {"waiting_ms": 0, "running_ms": 0, "waiting": [], "running": dict.fromkeys(RUNNING, 0)}
BODY = {"since": "2026-11-23T00:00:00.000Z", "until": "2026-11-28T12:00:00.000Z", "total": SUMS, "more": False}


def group(**of):
    return {"pool": None, "owner": None, "others": False, "week": None, **SUMS, **of}


def test_the_ledger_of_a_job_is_told_with_its_parts(cli, cell):
    cell.answer("GET", "/v1/jobs/a/ledger", {"job_id": "a", "until": None, **SUMS})
    assert cli("job", "explain", "a", "--ledger")[1].splitlines() == [
        "STATE    DETAIL             TIME    PART",
        "waiting  NO_HOST_FITS       1h0m  22.2 %",
        "waiting  STARTING          30m0s  11.1 %",
        "running  kept               2h0m  44.4 %",
        "running  lost to failures   1h0m  22.2 %",
        "waited 1h30m, ran 3h0m",
    ]


def test_a_job_of_which_no_task_has_waited_says_so(cli, cell):
    cell.answer("GET", "/v1/jobs/a/ledger", {"job_id": "a", "until": None, **NOTHING})
    assert cli("job", "explain", "a", "--ledger")[1] == "No task has waited or run.\n"


def test_waits_of_a_pool_are_summed_over_all(cli, cell):
    cell.answer("GET", "/v1/waits", {**BODY, "groups": [group(week="2026-11-23")]})
    code, out, err = cli("pool", "waits", "/maps", "--last", "7d")
    assert (code, out.splitlines()[-1]) == (0, "waited 1h30m, ran 3h0m")
    assert err == (
        "from Monday 2026-11-23T00:00:00.000Z until 2026-11-28T12:00:00.000Z (5d12h): sums are kept by week\n"
    )


def test_owners_beyond_those_of_a_week_are_one_row(cli, cell):
    groups = [group(owner="ann"), group(others=True, **NOTHING)]
    cell.answer("GET", "/v1/waits", {**BODY, "groups": groups, "more": True})
    _, out, err = cli("pool", "waits", "--by", "owner")
    assert out.splitlines() == [
        "OWNER     WAITED HOURS  RAN HOURS  LOST  MOSTLY FOR",
        "ann                1.5        3.0   1.0  NO_HOST_FITS 67 %, STARTING 33 %",
        "(others)           0.0        0.0   0.0  -",
    ]
    assert "only the 2 that waited longest are shown" in err


def output(folder: Path, words: tuple[str, str]) -> str:
    scenario, command = words
    with chdir(folder), redirect_stderr(io.StringIO()):
        with redirect_stdout(io.StringIO()):
            run(["simulate", str(ROOT / scenario), "--data", "cell"])
        with redirect_stdout(io.StringIO()) as out:
            run(shlex.split(command))
    return out.getvalue()


def test_the_output_on_the_page_is_real(tmp_path):
    found = SHOWN.search(PAGE.read_text())
    assert found is not None
    told = output(tmp_path, (found[2], found[3]))
    assert told == found[4], "decided otherwise: python -m tests.paceline.cli.test_waits"


def write() -> None:
    """Puts the output into the page."""
    text = PAGE.read_text()
    found = SHOWN.search(text)
    assert found is not None
    with TemporaryDirectory() as folder:
        told = output(Path(folder), (found[2], found[3]))
    PAGE.write_text(text.replace(found[0], f"{found[1]}{told}```\n"))


if __name__ == "__main__":
    write()
