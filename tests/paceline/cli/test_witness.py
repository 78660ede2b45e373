"""`paceline witness` and `paceline log verify --heads` on the log of a data folder."""

import json
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from events.log.embedded import EmbeddedLog
from events.log.port import NewRecord
from events.topics import ALL, MACHINES
from paceline.cli.main import run
from paceline.witness.notes import read_key, signed
from paceline.witness.published import Heads, Published
from tests.helpers.past import past, written

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """Runs a command beside a folder `data` with the small history."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PACELINE_DATA", str(tmp_path / "data"))
    written(past(), tmp_path / "data")

    def call(*args: str) -> tuple[int, str, str]:
        code = run(list(args))
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


@pytest.fixture
def heads(cli: Cli) -> str:
    """The folder of a head of it, by the key w."""
    assert cli("witness", "key", "w")[0] == 0
    code, out, said = cli("witness", "--key", "w.key", "--publish", "heads", "--once")
    assert (code, out) == (0, "")
    assert said == "625 rounds replayed: all identical, byte for byte; head 1 was signed\n"
    return "heads"


def test_a_key_is_made_and_its_public_half_is_printed(cli: Cli) -> None:
    code, out, said = cli("witness", "key", "w/1")
    assert (code, out) == (0, Path("w-1.pub").read_text())
    assert out.startswith("w/1+")
    assert said == "the private key is in w-1.key, the public key in w-1.pub\n"
    assert Path("w-1.key").stat().st_mode & 0o777 == 0o600
    code, _, said = cli("witness", "key", "w/1")
    assert (code, "never overwritten" in said) == (1, True)


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["--key", "w.key"], 2, "name with --publish the folder or URL that heads go to"),
        (["--key", "w.key", "--publish", ""], 2, "name with --publish the folder or URL that heads go to"),
        (["--publish", "heads"], 2, "name the key that signs with --key; `paceline witness key NAME` makes one"),
        (["--publish", "heads", "--key", "w.pub"], 1, "w.pub holds no key of a witness: it is a public one; the priv"),
        (["--publish", "heads", "--key", "none.key"], 1, "none.key: No such file"),
        (["--publish", "heads", "--key", "data/token"], 1, "holds no key of a witness"),
        (["--publish", "heads", "--key", "w.key", "--every", "1ms"], 2, "more often than every second"),
        (["--publish", "ftp9://x", "--key", "w.key"], 6, "can't be used"),
        (["--publish", "heads", "--key", "w.key", "--data", "nowhere"], 6, "nowhere"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(cli: Cli, words: list[str], code: int, sentence: str) -> None:
    cli("witness", "key", "w")
    found, _, said = cli("witness", *words)
    assert (found, sentence in said) == (code, True), said


def test_a_log_is_compared_with_the_newest_head_and_replayed(cli: Cli, heads: str) -> None:
    code, out, _ = cli("log", "verify", "--heads", heads, "--trust", "w.pub")
    assert code == 0
    assert out.startswith("heads 1 to 1 are signed by w+")
    assert out.endswith("625 rounds replayed: all identical, byte for byte\n")
    key = Path("w.pub").read_text().strip()
    code, out, _ = cli("log", "verify", "--heads", heads, "--trust", key, "--no-replay", "-o", "json")
    body = json.loads(out)
    assert (code, body["identical"], body["machines"]) == (0, True, [])
    assert body["witness"] == {
        "heads": 1,
        "first": 1,
        "newest": 1,
        "newest_at": body["witness"]["newest_at"],
        "keys": [key],
        "rounds_since": 0,
        "not_compared": [],
        "older_not_held": 0,
        "alarm": None,
    }


def test_a_log_that_is_not_that_of_the_head_ends_with_1_and_the_place(cli: Cli, heads: str) -> None:
    log = past()
    held = log.topic("paceline.lifecycle")
    shutil.rmtree("data")
    cut = type(log)(lambda: 0)
    cut._topics = {**log._topics, "paceline.lifecycle": (topic := type(held)())}
    topic.records, topic.end = held.records[:-4], held.end - 4
    written(cut, Path("data"))
    code, out, _ = cli("log", "verify", "--heads", heads, "--trust", "w.pub", "--no-replay", "-o", "json")
    body = json.loads(out)
    assert (code, body["witness"]["alarm"], body["difference"]["machine"]) == (1, "CUT", "lifecycle")
    assert body["difference"]["places"] == [f"paceline.lifecycle:{held.end - 4}-{held.end - 1}"]
    code, _, said = cli("witness", "--key", "w.key", "--publish", heads, "--once")
    assert code == 1
    assert "the witness of cell 0 ends with an alarm: CUT at lifecycle round 332: paceline.lifecycle was cut" in said


def test_heads_are_nothing_without_their_key(cli: Cli, heads: str) -> None:
    cli("witness", "key", "other")
    code, out, _ = cli("log", "verify", "--heads", heads, "--trust", "other.pub", "--no-replay")
    assert (code, "signed by no key that is trusted" in out, "FORKED_HEADS" in out) == (1, True, True)
    for words, sentence in (
        (["--heads", heads], "--heads needs --trust KEY, and --trust needs --heads"),
        (["--trust", "w.pub"], "--heads needs --trust KEY, and --trust needs --heads"),
        (["--heads", heads, "--trust", "", "--no-replay"], "--trust: it is empty: name the public key of the witness"),
        (["--heads", heads, "--trust", " "], "--trust: it is empty"),
        (["--no-replay"], "--no-replay is for --head and --heads"),
        (["--heads", heads, "--trust", "w+1"], "is no public key of a witness"),
        (["--heads", heads, "--trust", "no.pub"], "no.pub: No such file"),
    ):
        code, _, said = cli("log", "verify", *words)
        assert (code, sentence in said) == (2, True), said
    code, _, said = cli("log", "verify", "--heads", "nowhere", "--trust", "w.pub")
    assert (code, "There are no heads of cell 0 at nowhere" in said) == (1, True)


@pytest.mark.parametrize("spoil", [str, lambda key: key[:-3], lambda key: f"# mine\n{key}", lambda key: key[12:]])
def test_a_private_key_in_place_of_its_public_one_is_not_shown(
    cli: Cli, heads: str, spoil: Callable[[str], str]
) -> None:
    secret = Path("w.key").read_text().strip()
    Path("w.key").write_text(spoil(secret))
    for trust in ("w.key", spoil(secret)):
        code, out, said = cli("log", "verify", "--heads", heads, "--trust", trust, "--no-replay")
        assert (code, out, "no public key of a witness" in said) == (2, "", True), said
        assert not any(secret[-45:][at : at + 8] in said for at in range(38)), said
        if "PRIVATE" in spoil(secret):
            assert "it is a private key, which stays secret; name the public one, NAME.pub" in said
    for option in ("--key", "--old-key"):
        cli("witness", "key", "whole")
        words = ["--key", "whole.key"] if option == "--old-key" else []
        said = cli("witness", "--publish", "elsewhere", *words, option, "w.key", "--once")[2]
        assert not any(secret[-45:][at : at + 8] in said for at in range(38)), said


def trimmed(keep: dict[str, int]) -> None:
    """Removes the records before some offsets, as retention does, or who deletes what a head would show."""
    with closing(EmbeddedLog(Path("data") / "log")) as log:
        for topic, offset in keep.items():
            log.truncate(topic, offset)


@pytest.mark.parametrize("which", ["lifecycle", "sla", "all"])
def test_a_log_that_begins_after_the_newest_head_is_not_said_to_fit(cli: Cli, heads: str, which: str) -> None:
    ends = past().ends(topic.name for topic in ALL)
    trimmed({topic: end for topic, end in ends.items() if which in (topic.removeprefix("paceline."), "all")})
    words = ("log", "verify", "--heads", heads, "--trust", "w.pub", "--no-replay")
    code, out, _ = cli(*words)
    assert (code, "fits" in out) == (3, False), out
    assert "can't be compared: the log begins after it in paceline." in out
    assert "Name the archive of the log (PACELINE_ARCHIVE, or `archive` in the settings), or restore" in out
    code, out, _ = cli(*words, "-o", "json")
    body = json.loads(out)
    assert (code, body["identical"], body["difference"]) == (3, False, None)
    expected = {f"paceline.{which}"} if which != "all" else {f"paceline.{each}" for each in (*MACHINES, "hosts")}
    assert set(body["witness"]["not_compared"]) == expected


def test_a_log_that_has_all_of_the_newest_head_fits_and_older_heads_are_counted(cli: Cli, heads: str) -> None:
    head = Heads(heads, 0).read(1).head
    key = read_key(Path("w.key"))
    machines = {name: at._replace(round=1, position=2) for name, at in head.machines.items()}
    older = head._replace(machines=machines, topics={})
    Path(heads, "cell-0", "head-000000000001.txt").write_bytes(signed(older.text, key).pack())
    newest = head._replace(number=2, before=older.hash)
    Heads(heads, 0).publish(Published(newest, signed(newest.text, key)))
    words = ("log", "verify", "--heads", heads, "--trust", "w.pub", "--no-replay")
    code, out, _ = cli(*words)
    assert (code, "older" in out) == (0, False)
    trimmed({f"paceline.{name}": at.position - 1 for name, at in head.machines.items() if name == "lifecycle"})
    code, out, _ = cli(*words)
    assert (code, "the log fits the head" in out) == (0, True)
    assert "the log begins after 1 older head: of those the chain alone is checked\n" in out


def test_heads_of_another_log_say_so_first(cli: Cli, heads: str) -> None:
    with closing(EmbeddedLog(Path("other") / "log")) as log:
        event = next(iter(past().scan("paceline.lifecycle", 0)))
        log.append([NewRecord("paceline.lifecycle", event.key, event.value)])
    for words in (
        ("log", "verify", "--heads", heads, "--trust", "w.pub", "--no-replay"),
        ("witness", "--key", "w.key", "--publish", heads, "--state", "new", "--once"),
    ):
        code, out, said = cli(*words, "--data", "other")
        assert code == 1
        assert "FORKED: this is not the log of head 1, " in out + said
        assert "If it is that of another cell, name the right one (--data)" in out + said
