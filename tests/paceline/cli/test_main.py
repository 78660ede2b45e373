"""The command starts fast, says what is wrong, and ends with the code that the page of help promises."""

import json
import os
import re
import signal
import subprocess
import sys
import tomllib

import click
import pytest

import paceline
from events.log.port import LogFault, LogGap, LogUnavailable
from paceline import __main__ as entry
from paceline.cli import main
from paceline.client.checked_values import server_url
from tests.helpers import ROOT
from tests.paceline.cli.test_odd_values import commands
from tests.paceline.fake import job

HEAVY = (
    "confluent_kafka", "events.records", "fastapi", "fastavro", "httpx2", "msgspec", "numpy", "pydantic",
    "pydantic_settings", "rich", "rocksdict", "ruamel", "sqlalchemy", "uvicorn",
)  # fmt: skip

NO_JOB = "there is no job x. It may have been deleted; see `paceline log tail --from-start`"


def test_the_version_is_that_of_the_package():
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == paceline.__version__


@pytest.mark.parametrize("args", [["--version"], ["--help"], ["job", "--help"], ["job", "submit", "--help"]])
def test_help_and_version_import_nothing_heavy(args):
    listed = f"[m for m in {HEAVY!r} if m in sys.modules]"
    code = f"import sys; from paceline.cli.main import run; run({args!r}); print({listed})"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


def test_version(cli, monkeypatch):
    assert cli("--version") == (0, f"paceline {paceline.__version__}\n", "")
    monkeypatch.setattr("paceline.cli.main.__version__", "99.0.0")
    assert cli("--version") == (0, "paceline 99.0.0.dev0\n", "")


def test_the_token_of_the_example_is_refused(cli, monkeypatch):
    monkeypatch.setenv("PACELINE_TOKEN", "change-me")
    code, _, err = cli("gateway")
    assert (code, "make one with `openssl rand -hex 32`" in err) == (2, True)


def test_a_released_version_is_told_as_it_is(cli, monkeypatch):
    monkeypatch.setattr(main, "__version__", "0.3.0")
    assert cli("--version") == (0, "paceline 0.3.0\n", "")


@pytest.mark.parametrize("name", [*main.cli.lines])
def test_each_command_is_there_with_its_line_of_help_and_examples(cli, name):
    code, out, _ = cli(name, "--help")
    assert code == 0
    assert "Examples:" in out or "Commands:" in out
    assert max(map(len, out.splitlines())) <= 80


def test_the_plural_is_taken_too(cli, cell):
    cell.answer("GET", "/v1/jobs", {"jobs": [job()], "next_page_token": ""})
    assert cli("jobs", "list", "-o", "name")[:2] == (0, "a\n")


def test_the_exit_codes_stand_in_the_help(cli):
    out = cli("--help")[1]
    assert re.findall(r"^  +(\d+) ", out, re.M) == [
        "0",
        "1",
        "2",
        "3",
        "4",
        "5",
        "6",
        "7",
        "8",
        "9",
        "124",
        "130",
        "143",
    ]
    assert max(map(len, out.splitlines())) <= 80


def test_the_help_groups_the_commands_and_names_the_environment(cli):
    out = cli("--help")[1]
    titles = ["Options", "Use", "Look after", "Run", "Other"]
    assert re.findall(r"^([A-Z][a-z ]+):$", out, re.M)[: len(titles)] == titles
    names = ["PACELINE_SERVER", "PACELINE_TOKEN", "PACELINE_DATA", "PACELINE_ACTOR", "NO_COLOR"]
    assert re.findall(r"^    ([A-Z_]+) ", out, re.M) == names


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["submit"], "No such command 'submit'. Did you mean `paceline job submit`?"),
        (["jbo"], "No such command 'jbo'. Did you mean `paceline job`?"),
        (["job", "lst"], "No such command 'lst'. Did you mean `paceline job list`?"),
        (["xyzzy"], "No such command 'xyzzy'. `paceline -h` lists them."),
    ],
)
def test_an_unknown_command_is_told_with_the_nearest(cli, args, hint):
    code, _, err = cli(*args)
    assert (code, hint in err) == (2, True)


@pytest.mark.parametrize(
    "args",
    [["nonsense"], ["job", "wait"], ["job", "wait", "a", "--for", "lunch"], ["job", "wait", "a", "--timeout", "5"],
     ["host", "confirm-loss", "h1"], ["log", "topics", "--create"], ["log", "tail", "--topic", "x"]],
)  # fmt: skip
def test_wrong_usage_is_2(cli, cell, args):
    cell.answer("GET", "/v1/hosts/h1", {"runs": 3})
    code, _, err = cli(*args)
    assert code == 2
    assert "Usage:" in err or "Error:" in err


def test_not_found_is_4(cli, cell):
    cell.problem("GET", "/v1/jobs/x", 404, "NOT_FOUND", NO_JOB)
    assert cli("job", "get", "x") == (4, "", f"paceline: {NO_JOB} (NOT_FOUND)\n")


@pytest.mark.parametrize("status", [409, 422, 429])
def test_refused_is_1(cli, cell, status):
    cell.problem("POST", "/v1/jobs/x/stops", status, "NO", "not now", errors=[{"pointer": "/a", "message": "b"}])
    assert cli("job", "stop", "x") == (1, "", "paceline: job x: not now (NO)\n  /a: b\n")


@pytest.mark.parametrize(("status", "code"), [(401, 9), (403, 9), (500, 6), (503, 6)])
def test_not_authorised_is_9_and_not_available_is_6(cli, cell, status, code):
    cell.problem("GET", "/v1/jobs/x", status, "NO", "not now")
    assert cli("job", "get", "x")[0] == code


def test_a_wrong_token_is_9_and_is_said_to_be_wrong(cli, cell, monkeypatch, tmp_path):
    monkeypatch.delenv("PACELINE_SERVER", raising=False)
    (tmp_path / "cell.json").write_text(json.dumps({"pid": 1, "listen": cell.address, "kafka": ""}))
    code, _, err = cli("job", "get", "x", "--data", str(tmp_path), "--token", "another")
    assert code == 9
    assert f"The token isn't that of the cell at http://{cell.address}, or another process listens there" in err


def test_a_token_that_fits_into_no_header_is_said_to_be_none(cli, cell):
    code, _, err = cli("job", "get", "x", "--token", "wröng")
    assert (code, cell.asked) == (9, [])
    assert "a token has printable ASCII characters alone, and character 3 of 5 is U+00F6" in err


@pytest.mark.parametrize(
    "address",
    [
        "http://",
        ":0",
        "..",
        "a..b",
        "x" * 64,
        "host:0",
        "host:99999",
        "[::1",
        "::1",
        "host:x",
        "a b",
        "/",
        "ftp://x",
        "unix:/x",
    ],
)
def test_what_is_no_address_of_a_server_is_2(cli, cell, address):
    code, _, err = cli("job", "get", "x", "--server", address)
    assert code == 2
    assert err.startswith(f"paceline: '{address}' is no address of a server: write HOST:PORT, such as ")
    assert cell.asked == []


def test_addresses_without_a_port_are_told_or_taken(cli, tmp_path):
    assert server_url("10.0.0.1") == "http://10.0.0.1:7117"
    assert server_url("https://cell.example.org") == "https://cell.example.org"
    code, _, err = cli("up", "--listen", "10.0.0.1", "--data", str(tmp_path / "data"))
    assert (code, "write HOST:PORT, such as 10.0.0.1:7117" in err) == (2, True)


def test_a_state_behind_wait_is_told_how_it_is_written(cli):
    code, _, err = cli("job", "submit", "f.yaml", "--wait", "running")
    assert (code, "write --wait=running" in err) == (2, True)


def test_a_server_is_named_by_its_address_or_by_a_url(cli, cell):
    cell.answer("GET", "/v1/jobs/a", job())
    for address in (cell.address, f"http://{cell.address}", f"http://{cell.address}/"):
        assert cli("job", "get", "a", "--server", address)[0] == 0
    for address in ("[::1]:1", "http://localhost:1"):
        assert cli("job", "get", "a", "--server", address)[0] == 6


@pytest.mark.parametrize("name", ["", ".", "..", "web/tasks", "../../etc", "ä", "a b", "a\n", "x" * 129])
@pytest.mark.parametrize(
    "args",
    [["job", "get"], ["job", "delete"], ["job", "stop"], ["job", "logs"], ["job", "wait"], ["host", "get"],
     ["host", "clear"], ["secret", "delete", "--yes"]],
)  # fmt: skip
def test_what_can_be_no_id_is_said_and_asks_nothing(cli, cell, args, name):
    code, _, err = cli(*args, name)
    assert code == 2
    assert re.search(f" is no id of a {args[0]}: an id has 1 to 128 letters, digits, dots, dashes and underscores", err)
    assert cell.asked == []


def test_a_file_of_settings_that_is_no_text_is_named(cli, tmp_path):
    (tmp_path / "a.toml").write_bytes(b"data = '\xff'")
    code, _, err = cli("job", "get", "x", "--config", str(tmp_path / "a.toml"))
    assert (code, err) == (2, f"paceline: {tmp_path}/a.toml: is not UTF-8 text: invalid start byte at byte 8\n")


def test_bytes_that_are_no_text_are_said_to_be_none(cli, cell):
    assert cli("job", "stop", "x", "--reason", "\udcff")[::2] == (
        2,
        "paceline: an argument, or what a file holds, is no text in UTF-8\n",
    )


@pytest.mark.parametrize("time", ["0001-01-01", "9999-12-31T23:59:59"])
def test_times_at_the_ends_of_all_times_are_no_bugs(cli, cell, monkeypatch, tmp_path, time):
    cell.answer("GET", "/v1/jobs", {"jobs": [], "next_page_token": ""})
    for args in (
        ["job", "list", "--since", time],
        ["job", "list", "--at", time],
        ["log", "export", "x", "--from", time],
    ):
        assert "should not happen" not in cli(*args, "--data", str(tmp_path))[2]


def test_nobody_there_is_6(cli, cell):
    code, _, err = cli("job", "get", "x", "--server", "127.0.0.1:1")
    assert code == 6
    assert "does not answer" in err
    assert "Traceback" not in err


def test_no_cell_on_the_folder_is_6_and_says_how_to_start_one(cli, monkeypatch, tmp_path):
    monkeypatch.delenv("PACELINE_SERVER", raising=False)
    code, _, err = cli("job", "list", "--data", str(tmp_path))
    assert code == 6
    assert err == (
        f"paceline: No cell runs on {tmp_path}. Start one with `paceline up`, wait if it is starting, or name "
        "one with --server.\n"
    )


def test_a_timeout_is_124(cli, cell):
    cell.answer("GET", "/v1/jobs/a", job())
    code, _, err = cli("job", "wait", "a", "--timeout", "150ms")
    assert code == 124
    assert "not ended after 0.15 s" in err


def test_an_interrupt_is_130_and_the_job_goes_on(cell):
    cell.answer("GET", "/v1/jobs/a", job())
    process = subprocess.Popen(
        [sys.executable, "-m", "paceline", "job", "wait", "a"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored where tests run in the background
    )
    cell.until(2, "/v1/jobs/a")
    process.send_signal(signal.SIGINT)
    err = process.communicate()[1]
    assert process.returncode == 130
    assert "interrupted; the job goes on" in err
    assert cell.writes() == []


class InterruptedImport:
    """Stands for Ctrl-C while the command is loaded."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name == "paceline.cli.main":
            raise KeyboardInterrupt


def test_an_interrupt_while_the_command_is_loaded_is_130_without_a_traceback(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "paceline.cli.main")
    monkeypatch.setattr(sys, "meta_path", [InterruptedImport(), *sys.meta_path])
    with pytest.raises(SystemExit) as end:
        entry.main()
    assert end.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_an_interrupt_while_the_command_is_loaded_ends_the_process_itself(monkeypatch):
    """As an exception it would be lost where Python ignores those, and the command would go on."""
    handlers = []

    class Loading:
        def find_spec(self, name: str, path: object, target: object = None) -> None:
            handlers.append(signal.getsignal(signal.SIGINT))

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        monkeypatch.setattr(sys, "argv", ["paceline", "--version"])
        monkeypatch.setattr("paceline.cli.main", sys.modules["paceline.cli.main"])  # so that it is put back
        monkeypatch.delitem(sys.modules, "paceline.cli.main")
        monkeypatch.setattr(sys, "meta_path", [Loading(), *sys.meta_path])
        with pytest.raises(SystemExit):
            entry.main()
        assert handlers[0] is signal.SIG_DFL
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_command_is_the_guarded_entry():
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"] == {
        "paceline": "paceline.__main__:main"
    }


@pytest.mark.parametrize(
    "args", [["job", "list"], ["job", "list", "-o", "json"], ["--help"], ["job", "list", "--help"]]
)
def test_a_reader_of_the_output_that_leaves_is_no_error(cell, monkeypatch, args):
    cell.answer("GET", "/v1/jobs", {"jobs": [job()] * 2000, "next_page_token": ""})
    reads, writes = os.pipe()
    os.close(reads)
    with open(writes, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert main.run(args) == 0


def test_a_reader_that_leaves_with_the_last_words_still_to_be_written_is_no_error(monkeypatch):
    reads, writes = os.pipe()
    os.close(reads)
    with open(writes, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        monkeypatch.setattr(main.cli, "main", lambda *_, **__: pipe.write("last words"))
        assert main.run([]) == 0


@pytest.mark.parametrize(
    ("error", "code"), [(LogGap("gone"), 1), (LogFault("no log"), 6), (LogUnavailable("away"), 6), (KeyError("x"), 1)]
)
def test_errors_of_the_log_and_bugs_are_sentences(error, code):
    text, found = main.error_text(error)
    assert found == code
    assert "\n" not in text


def test_debug_shows_the_traceback(cell):
    cell.problem("GET", "/v1/jobs/x", 404, "NOT_FOUND", NO_JOB)
    result = subprocess.run(
        [sys.executable, "-m", "paceline", "--debug", "job", "get", "x"], cwd=ROOT, capture_output=True, text=True
    )
    assert "Traceback" in result.stderr


def test_every_number_has_bounds():
    numbers = [(name, each) for name, command in commands() for each in command.params
               if isinstance(each.type, click.types.IntParamType)]  # fmt: skip
    assert len(numbers) > 20
    without = [(name, each.name) for name, each in numbers
               if not isinstance(each.type, click.IntRange) or None in (each.type.min, each.type.max)]  # fmt: skip
    assert without == []
