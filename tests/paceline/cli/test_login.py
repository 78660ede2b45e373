"""`paceline login` and `logout` at a real cell with a real issuer, and what commands do with a sign-in."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.client import device_flow, sign_ins
from paceline.client.device_flow import IssuerUnreachable, Refusal
from paceline.client.signed_in import SignedIn
from tests.helpers import ROOT
from tests.helpers.forked import PACELINE
from tests.helpers.issuer import USER_CODE, Provider, provider
from tests.helpers.real_cell import CellProcess

pytestmark = pytest.mark.outside


class User:
    """Somebody without the data folder of the cell, at whose issuer a browser is soon signed in."""

    def __init__(self, cell: CellProcess, issuer: Provider, folder: Path) -> None:
        self.cell = cell
        self.issuer = issuer
        self.server = json.loads((cell.data / "cell.json").read_text())["listen"]
        self.folder = folder

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [*PACELINE, *words, "--server", self.server, "--data", str(self.folder)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PACELINE_")}
        return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT, env=environment)

    def login(self) -> subprocess.CompletedProcess[str]:
        self.issuer.pending, self.issuer.approved = ["authorization_pending"], "ann"
        return self.run("login")

    @property
    def file(self) -> Path:
        return sign_ins.file_of(self.folder, f"http://{self.server}")


@pytest.fixture(scope="module")
def issuer() -> Iterator[Provider]:
    with provider() as found:
        yield found


@pytest.fixture(scope="module")
def cell(issuer: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CellProcess]:
    options = ("--oidc-issuer", issuer.url, "--oidc-client-id", "paceline")
    found = CellProcess(tmp_path_factory.mktemp("signed") / "cell", options=options)
    found.start()
    yield found
    found.end()


@pytest.fixture
def user(cell: CellProcess, issuer: Provider, tmp_path: Path) -> User:
    return User(cell, issuer, tmp_path / "user")


def test_a_sign_in_is_kept_for_its_user_alone_until_they_sign_out(user: User) -> None:
    done = user.login()
    assert done.returncode == 0, done.stderr
    assert f"enter the code {USER_CODE}" in done.stderr
    assert done.stdout == f"signed in at http://{user.server} as ann\n"
    assert (user.file.stat().st_mode & 0o777, user.file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert sign_ins.token_for(user.folder, f"http://{user.server}")
    assert user.run("logout").stdout == f"signed out of http://{user.server}\n"
    assert not user.file.exists()
    assert "nobody is signed in" in user.run("logout").stderr


def test_a_sign_in_that_ends_is_renewed_before_the_command_asks(user: User) -> None:
    user.issuer.life_s = int(sign_ins.EARLY_S) - 1
    assert user.login().returncode == 0
    first = sign_ins.read(user.file)
    user.issuer.life_s = 3600
    assert user.run("job", "list").returncode == 0
    second = sign_ins.read(user.file)
    assert second.until_s > first.until_s + 3000
    assert (second.refresh_token, second.claims["sub"]) != (first.refresh_token, "")


def test_a_sign_in_that_the_issuer_has_ended_says_what_to_do(user: User) -> None:
    ended = SignedIn(user.issuer.url, "paceline", "a.e30.b", "refresh-of-nobody")
    sign_ins.keep(user.file, ended)
    done = user.run("job", "list")
    assert done.returncode == 9
    assert f"paceline login --server http://{user.server}" in done.stderr
    sign_ins.keep(user.file, ended._replace(issuer="http://127.0.0.1:1"))
    assert user.run("job", "list").returncode == 6
    assert user.run("logout").returncode == 0
    assert user.run("job", "list").returncode == 0


def test_a_refused_sign_in_keeps_nothing(user: User) -> None:
    user.issuer.pending = ["access_denied"]
    done = user.run("login")
    assert (done.returncode, user.file.exists()) == (1, False)
    assert "access_denied" in done.stderr


def test_a_token_that_the_cell_refuses_is_not_kept(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user.issuer, "life_s", -3600)
    done = user.login()
    assert (done.returncode, user.file.exists()) == (9, False)
    assert "expired" in done.stderr


def test_a_cell_without_an_issuer_says_what_to_do(tmp_path: Path, issuer: Provider) -> None:
    cell = CellProcess(tmp_path / "plain")
    cell.start()
    try:
        done = User(cell, issuer, tmp_path / "user").run("login")
        assert done.returncode == 1
        assert "--oidc-issuer URL --oidc-client-id ID" in done.stderr
    finally:
        cell.end()


def test_a_server_on_another_machine_gets_a_sign_in_over_https_alone(tmp_path: Path) -> None:
    for server, shown in (("http://10.0.0.7:7117", None), ("https://10.0.0.7:7117", "a.eyJleHAiOjk5OTk5OTk5OTl9.b")):
        sign_ins.keep(sign_ins.file_of(tmp_path, server), SignedIn("i", "c", "a.eyJleHAiOjk5OTk5OTk5OTl9.b", ""))
        assert sign_ins.token_for(tmp_path, server) == shown


def test_the_issuer_is_asked_as_often_as_it_says(issuer: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    issuer.pending, issuer.approved = ["authorization_pending", "slow_down", "authorization_pending"], "ann"
    found = device_flow.sign_in(issuer.url, "paceline", "openid", lambda *_: None)
    assert (pauses, found.claims["sub"]) == ([1, 1, 6, 6], "ann")


def test_an_issuer_that_names_itself_otherwise_or_has_no_https_gets_nothing(issuer: Provider) -> None:
    for wrong in (issuer.url.replace("127.0.0.1", "localhost") + "/x", "http://issuer.example"):
        with pytest.raises((Refusal, IssuerUnreachable)):
            device_flow.sign_in(wrong, "paceline", "openid", lambda *_: None)


def test_a_start_with_a_wrong_issuer_ends_and_says_why(tmp_path: Path) -> None:
    def up(*words: str) -> subprocess.CompletedProcess[str]:
        command = [*PACELINE, "up", "--data", str(tmp_path / "c"), "--listen", "127.0.0.1:0", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)

    named = ("--oidc-client-id", "paceline")
    assert "--oidc-issuer is missing" in up(*named).stderr
    assert "or http:// on this machine" in up("--oidc-issuer", "http://issuer.example", *named).stderr
    with provider() as issuer:
        assert "--oidc-client-id or --oidc-audience" in up("--oidc-issuer", issuer.url).stderr
        issuer.name = "https://other.example"
        ended = up("--oidc-issuer", issuer.url, *named)
        assert ended.returncode != 0
        assert f"the issuer at {issuer.url} names itself 'https://other.example'" in ended.stderr


def test_an_issuer_that_comes_later_serves(tmp_path: Path) -> None:
    with provider() as first:
        port = first.port
    cell = CellProcess(tmp_path / "cell", options=("--oidc-issuer", f"http://127.0.0.1:{port}", "--oidc-audience", "x"))
    cell.start()
    try:
        assert "nobody can sign in until it answers" in cell.output.read_text()
        user = User(cell, first, tmp_path / "user")
        with provider(port) as issuer:
            token = issuer.token(audience="x")
            assert user.run("job", "list", "--token", token).returncode == 0
            assert user.run("job", "list", "--token", token[:-4]).returncode == 9
    finally:
        cell.end()
