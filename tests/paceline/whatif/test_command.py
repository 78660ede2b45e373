"""`paceline what-if` as it is called: its exit codes, and the files that it writes."""

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import yaml

from events.unsafe_text import UNSAFE
from paceline.cli.main import run
from paceline.history.importer import open_history
from paceline.history.start_state import start_of
from paceline.simulate.world.cell import START_MS
from paceline.whatif.files import write
from paceline.whatif.report import markdown
from paceline.whatif.stretch import read_stretch
from tests.browser.cells import until
from tests.helpers.page import Page

DATA = re.compile(r'<script type="application/json" id="plot-([a-z0-9-]+)">(.*?)</script>')
SCENARIO = {
    "name": "two_pools",
    "hosts": [{"name": "host", "count": 1, "resources": {"cpu": 8, "memory": "16GiB"}}],
    "pools": [{"path": "/a"}, {"path": "/b"}],
    "jobs": [
        {
            "job_id": f"{pool}-{at}",
            "at": f"{at}s",
            "pool": f"/{pool}",
            "owner": pool,
            "resources": {"cpu": 2, "memory": "1GiB"},
            "sim": {"duration": "160s"},
        }
        for at in range(0, 200, 20)
        for pool in ("a", "b")
    ],
}
WHEN = ["--from", "2023-11-14T22:13:50Z", "--to", "2023-11-14T22:33:20Z"]
FROM_MS = START_MS + 30_000
assert START_MS == 1_700_000_000_000  # 22:13:20


@pytest.fixture(scope="module")
def cell(tmp_path_factory) -> Path:
    """The data folder of a simulated cell."""
    folder = tmp_path_factory.mktemp("what-if")
    (folder / "two_pools.yaml").write_text(yaml.safe_dump(SCENARIO))
    assert run(["simulate", str(folder / "two_pools.yaml"), "--data", str(folder / "cell")]) == 0
    return folder / "cell"


def what_if(cell: Path, *words: str) -> int:
    """The exit code of two pairs of runs."""
    return run(["what-if", "--data", str(cell), *WHEN, "--runs", "2", *words])


def test_without_a_condition_it_ends_with_0_and_writes_its_files(cell, tmp_path, capsys):
    out = tmp_path / "out"
    capsys.readouterr()
    assert what_if(cell, "--set", "/a:share=3", "--out", str(out), "-o", "json") == 0
    body = json.loads(capsys.readouterr().out)
    assert body == json.loads((out / "summary.json").read_text())
    assert body["change"] == ["/a share: 1 -> 3"]
    assert "# What if: /a share: 1 -> 3" in (out / "report.md").read_text()
    assert (out / "jobs.csv").read_text().startswith("job_id,")


def test_the_page_stands_alone_and_shows_what_the_summary_has(cell, tmp_path):
    hostile = "</title></script><script>hostile=1</script>"
    assert what_if(cell, "--set", f"/a:description={hostile}", "--set", "/a:share=3", "--out", str(tmp_path)) == 0
    text = (tmp_path / "report.html").read_text()
    page = Page()
    page.feed(text)
    assert page.open == []
    assert page.foreign == []
    assert "<script>hostile" not in text
    assert page.titles == ["How far to trust it", "Effects", "/a", "/b", "Jobs", "Preemptions"]
    assert page.charts == [
        f"{meaning} of {path} over time, in cores"
        for path in ("/a", "/b")
        for meaning in ("entitlement", "allocation", "demand")
    ]
    drawn = {name: json.loads(data) for name, data in DATA.findall(text)}
    series = json.loads((tmp_path / "summary.json").read_text())["series"]
    of_b = next(each for each in series["pools"] if (each["pool"], each["resource"]) == ("/b", "cpu"))
    for side, line in zip(("recorded", "again", "changed"), drawn["allocation-2"]["series"], strict=True):
        assert line["name"] == side
        assert line["values"] == of_b[side]["allocation"]
    assert max(of_b["recorded"]["allocation"]) == 4
    assert of_b["recorded"] != of_b["changed"]


def test_a_cell_with_gpus_is_told_of_their_use(tmp_path, capsys):
    jobs = [
        {"job_id": f"train-{at}", "at": f"{at}s", "pool": "/research", "sim": {"duration": "100s"},
         "resources": {"cpu": 1, "memory": "4GiB", "gpu/a100": 2, "matlab": 1}} for at in range(0, 200, 20)
    ]  # fmt: skip
    body = {
        "name": "gpus",
        "end": "400s",
        "cell": {"resources": [{"name": "gpu/a100"}, {"name": "matlab", "amount": 4}]},
        "hosts": [{"name": "host", "count": 2, "resources": {"cpu": 16, "memory": "64GiB", "gpu/a100": 4}}],
        "pools": [{"path": "/research"}],
        "jobs": jobs,
    }
    (tmp_path / "gpus.yaml").write_text(yaml.safe_dump(body))
    data, out = tmp_path / "cell", tmp_path / "out"
    assert run(["simulate", str(tmp_path / "gpus.yaml"), "--data", str(data)]) == 0
    capsys.readouterr()
    until = ["--to", "2023-11-14T22:17:00Z"]  # later all has run, with the change too
    words = [*until, "--set", "/research:limit:gpu/a100=2", "--out", str(out), "--fail-if"]
    assert what_if(data, *words, "pool /research use:gpu/a100 < -50%") == 1
    shown = capsys.readouterr().out
    assert re.search(r"^/research +gpu/a100 in use +\d", shown, re.M)
    assert "memory in use" not in shown
    summary = json.loads((out / "summary.json").read_text())["figures"]
    use = {row["resource"]: row for row in summary if (row["of"], row["figure"]) == ("pool", "use")}
    assert [(name, row["unit"]) for name, row in use.items()] == [
        ("cpu", ""), ("memory", "MiB"), ("gpu/a100", ""), ("matlab", "")
    ]  # fmt: skip
    for side in ("recorded", "again", "changed"):
        cores = use["cpu"][side]
        amounts = [use[name][side] for name in ("memory", "gpu/a100", "matlab")]
        assert amounts == pytest.approx([4096 * cores, 2 * cores, cores])
    page = (out / "report.html").read_text()
    assert "cell: gpu/a100 in use" in page
    assert "cell: cores in use" in page
    assert what_if(data, *words, "cell use:gpu/a10 < 1") == 2
    assert "did you mean gpu/a100?" in capsys.readouterr().err


def test_branches_that_are_kept_are_logs_like_any_other(cell, tmp_path, capsys):
    file = tmp_path / "stretch.avro"
    assert run(["log", "export", "--data", str(cell), *WHEN, str(file)]) == 0
    for history, out in ((["--data", str(cell)], tmp_path / "one"), ([str(file)], tmp_path / "two")):
        words = [*history, *WHEN, "--set", "/a:share=3", "--runs", "1", "--out", str(out)]
        assert run(["what-if", *words, "--keep"]) == 0
        assert f"paceline up --read-only --data {out}/changed" in capsys.readouterr().err
        assert run(["what-if", *words, "--keep"]) == 2, "what was kept isn't overwritten"
        assert run(["log", "verify", "--data", str(out / "again")]) == 0
        assert run(["log", "verify", "--data", str(out / "changed")]) == 0
        assert "all identical" in capsys.readouterr().out
        waits = {each["job_id"]: each["changed"] for each in json.loads((out / "summary.json").read_text())["jobs"]}
        # what was changed there is there, so that nothing is left to be changed
        assert run(["what-if", "--data", str(out / "changed"), *WHEN, "--set", "/a:share=3", "--runs", "1"]) == 0
        capsys.readouterr()
        runs = read_stretch(
            open_history(out / "changed"), FROM_MS, FROM_MS + 1_000_000, partial(start_of, out / "changed")
        )
        jobs = runs.runs.jobs
        assert waits
        assert {job_id: (jobs[job_id].began_ms - jobs[job_id].submitted_ms) / 1000 for job_id in waits} == waits


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--fail-if", "pool /b mean_wait > +1s"], 1),
        (["--fail-if", "pool /b mean_wait > +10000s"], 0),
        (["--fail-if", "pool /b mean_wait > +1s", "--runs", "1"], 3),
        (["--fail-if", "pool /c mean_wait > +1s"], 2),
        (["--to", "2023-11-14T22:13:40Z"], 2),
        (["--from", "2024-11-14T22:13:40Z", "--to", "2024-11-15T22:13:40Z"], 2),
        (["--set", "/d:share=1"], 2),
    ],
)
def test_the_exit_code_says_whether_a_condition_holds(cell, words, code):
    assert what_if(cell, "--set", "/a:share=3", *words) == code


@pytest.mark.parametrize(
    ("setting", "condition", "code"),
    [
        ("/b:limit:cpu=0", "pool /b turnaround > +10%", 1),  # few of its jobs end, those that had begun
        ("/b:open_jobs_max=1", "pool /b mean_wait > +10%", 3),  # most are refused, and wait for nothing
        ("/b:open_jobs_max=1", "pool /b refused > +2", 1),
        ("/b:open_jobs_max=1", "pool /a mean_wait > +10%", 0),
    ],
)
def test_a_change_that_lets_fewer_jobs_through_is_no_gain(cell, setting, condition, code):
    assert what_if(cell, "--set", setting, "--fail-if", condition) == code


def test_a_file_that_begins_in_the_middle_and_a_kept_branch_are_asked_as_the_folder_is(cell, tmp_path, capsys):
    middle, file, out = "2023-11-14T22:15:00Z", tmp_path / "middle.avro", tmp_path / "out"
    assert run(["log", "export", "--data", str(cell), "--from", middle, "--to", WHEN[-1], str(file)]) == 0
    words = ["--from", "2023-11-14T22:15:30Z", "--to", WHEN[-1], "--set", "/a:share=3", "--runs", "2", "-o", "json"]
    capsys.readouterr()
    answers = []
    for where in (["--data", str(cell)], [str(file)]):
        assert run(["what-if", *where, *words, "--out", str(out / str(len(answers))), "--keep"]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    whole, part = ({job["job_id"]: job["recorded"] for job in each["jobs"]} for each in answers)
    assert part, "jobs that were submitted since the file begins"
    assert part.items() <= whole.items()
    kept = ["--from", "2023-11-14T22:16:00Z", "--to", "2023-11-14T22:20:00Z", "--set", "/a:share=1", "--runs", "2"]
    assert run(["what-if", "--data", str(out / "1" / "changed"), *kept]) == 0


def test_a_file_that_is_wrong_ends_with_2_and_a_log_that_isnt_there_with_6(cell, tmp_path, capsys):
    change = tmp_path / "change.yaml"
    change.write_text("priorities: {a-999: 1}\n")
    assert what_if(cell, "--file", str(change)) == 2
    assert f"{change}:1:14: /priorities/a-999: no job of the stretch has this id" in capsys.readouterr().err
    change.write_text("path: /a\nshares: 1\n")
    assert what_if(cell, "--file", str(change)) == 2
    (tmp_path / "empty.avro").write_text("")
    assert run(["what-if", str(tmp_path / "empty.avro"), *WHEN, "--set", "/a:share=3"]) == 6
    assert what_if(cell) == 2


def test_yaml_has_what_json_has(cell, capsys):
    bodies = []
    for form in ("json", "yaml"):
        capsys.readouterr()
        assert what_if(cell, "--set", "/a:share=3", "-o", form) == 0
        bodies.append(yaml.safe_load(capsys.readouterr().out))
    assert bodies[0] == bodies[1]


def no_runs(*args, **options):
    """In place of `compare`, where what is wrong must be told before."""
    raise AssertionError("pairs are run")


def test_what_cant_be_answered_is_told_before_the_runs(cell, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("paceline.whatif.compare.compare", no_runs)
    (tmp_path / "file").write_text("")
    assert what_if(cell, "--set", "/a:share=3", "--out", str(tmp_path / "file" / "out")) == 2
    assert f"{tmp_path}/file/out can't be written: Not a directory" in capsys.readouterr().err
    for condition, why in {
        "pool /bb mean_wait > +1s": "there is no pool /bb; did you mean /b",
        "owner nobody mean_wait > +1s": "there is no owner nobody",
        "pool /a use:gpus < 6": "unknown resource gpus; the cell has cpu, memory, disk, gpu; did you mean gpu?",
        "pool /a use:gpu < 6GiB": "gpu isn't a size: leave out GiB",
        "pool /a use:memory < 6": "memory is a size: write such as 4GiB",
    }.items():
        assert what_if(cell, "--set", "/a:share=3", "--fail-if", condition) == 2
        assert why in capsys.readouterr().err


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """No file may grow larger, as on a disk that fills up."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("words", [[], ["--keep"]])
def test_a_full_disk_is_no_condition_and_leaves_no_half_a_file(cell, tmp_path, capsys, words):
    with files_up_to(8192):
        assert what_if(cell, "--set", "/a:share=3", "--out", str(tmp_path / "out"), *words) == 2
    assert f"paceline: {tmp_path}/out" in (told := capsys.readouterr().err)
    assert "can't be written" in told
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.outside
@pytest.mark.parametrize("command", ["what-if", "verify"])
def test_sigterm_leaves_no_history_in_temporary_folders(tmp_path, command):
    """It comes while the history is read: from a pipe, into which nobody writes."""
    fed, folder = tmp_path / "fed.avro", tmp_path / "tmp"
    folder.mkdir()
    words = {
        "what-if": ["what-if", str(fed), *WHEN, "--set", "/a:share=3"],
        "verify": ["log", "verify", str(fed)],
    }[command]
    os.mkfifo(fed)
    main = [sys.executable, "-m", "paceline", *words]
    process = subprocess.Popen(main, env={**os.environ, "TMPDIR": str(folder)}, stdin=subprocess.DEVNULL)
    try:
        until(lambda: any(folder.iterdir()), "a temporary folder")
        process.terminate()
        assert process.wait(30) == 143
    finally:
        process.kill()
        process.wait()
    assert list(folder.iterdir()) == []


def test_a_fault_of_ours_is_no_condition(cell, monkeypatch, capsys):
    monkeypatch.setattr("paceline.whatif.compare.compare", no_runs)
    assert what_if(cell, "--set", "/a:share=3", "--fail-if", "pool /b mean_wait > +1s") == 6
    assert "this should not happen: AssertionError('pairs are run')" in capsys.readouterr().err


def test_one_pair_says_why_it_tells_nothing(cell, tmp_path, capsys):
    assert what_if(cell, "--set", "/a:share=3", "--runs", "1", "--out", str(tmp_path)) == 0
    why = "1 pair of runs, whose effects can't be told from noise: take more of them (--runs)"
    assert why in capsys.readouterr().out
    assert why in (tmp_path / "report.md").read_text()


def test_a_stretch_begins_where_history_does(cell, capsys):
    words = ["what-if", "--data", str(cell), "--to", WHEN[-1], "--set", "/a:share=3", "--runs", "2", "-o", "json"]
    bodies = []
    for start in ("2022-11-14T22:13:20Z", "2023-11-14T22:13:20Z"):
        capsys.readouterr()
        assert run([*words, "--from", start]) == 0
        out, err = capsys.readouterr()
        bodies.append(json.loads(out))
        assert ("history begins at 2023-11-14T22:13:20.000Z, and so does the stretch" in err) == (start[3] == "2")
    assert bodies[0] == bodies[1]
    assert next(each["recorded"] for each in bodies[0]["figures"] if each["figure"] == "use") > 1


def test_names_are_no_markup(cell, tmp_path):
    hostile = "a|<img src=x onerror=alert(1)>`\x1b[31m\u202e\u2028"
    assert what_if(cell, "--set", "/a:share=3", "--out", str(tmp_path / "out")) == 0
    body = json.loads((tmp_path / "out" / "summary.json").read_text())
    lines = len(markdown(body).split("\n"))
    body["jobs"][0] |= {"job_id": hostile, "owner": hostile}
    body["figures"][0] |= {"of": "owner", "name": hostile, "figure": "mean_wait", "effect": 1e9}
    body["change"] = [hostile]
    write(body, tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    assert hostile[:3] not in text
    assert "a\\|&lt;img" in text
    assert not UNSAFE.search(text.replace("\n", ""))
    assert len(text.splitlines()) <= lines + 1
    assert not UNSAFE.search((tmp_path / "out" / "jobs.csv").read_text().replace("\n", ""))
