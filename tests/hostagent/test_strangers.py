"""Who listens where a cell listened is shown no token and orders nothing; positions of another log are refused."""

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from time import sleep
from urllib.parse import urlsplit

import httpx2
import pytest

from hostagent.agent import Agent
from hostagent.agent_settings import AgentSettings
from hostagent.agent_state import load, save
from hostagent.gateway.remote_hosts import RemoteHosts
from hostagent.runs import stop_all
from paceline.client.output_ask import OutputAsk
from paceline.client.plain_http import PlainHttp
from paceline.client.proof import Unproven
from paceline.client.proven_transport import ProvenTransport
from tests.helpers.waiting import until
from tests.hostagent.cell import TOKEN, Cell, Server
from tests.hostagent.test_agent import HOST, Site, shell, site

__all__ = ("site",)


class Stranger:
    """Listens at an address and notes all that it is told. With `target` it forwards to there; else it says yes to
    everything, as somebody would who wants to give orders; `drips`: a byte at a time of an endless answer.
    """

    def __init__(
        self, address: tuple[str, int] = ("127.0.0.1", 0), target: tuple[str, int] | None = None, drips: bool = False
    ) -> None:
        self._drips = drips
        self._server = socket.create_server(address)
        self._target = target
        self.address: tuple[str, int] = self._server.getsockname()
        self.url = f"http://127.0.0.1:{self.address[1]}"
        self.heard: list[bytes] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                taken, _ = self._server.accept()
                threading.Thread(target=self._talk, args=(taken,), daemon=True).start()

    def _talk(self, taken: socket.socket) -> None:
        with taken, contextlib.suppress(OSError):
            if self._target is not None:
                with socket.create_connection(self._target) as target:
                    threading.Thread(target=_copy, args=(target, taken), daemon=True).start()
                    while data := taken.recv(65536):
                        self.heard.append(data)
                        target.sendall(data)
                return
            while self._drips:
                taken.sendall(b"x")
                sleep(0.02)
            body = b"0" * 64 + b" 127.0.0.1 1"
            while data := taken.recv(65536):
                self.heard.append(data)
                taken.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def knows(self, token: str) -> bool:
        return token.encode() in b"".join(self.heard)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)


@pytest.fixture
def cell_process(tmp_path: Path) -> Iterator["Processes"]:
    found = Processes(tmp_path)
    yield found
    found.end()


class Processes:
    """A cell and an agent as processes of their own, on one data folder."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self._folder = folder
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        with (self._folder / name).open("wb") as out:
            command = [sys.executable, "-m", "paceline", *words, "--data", str(self.data)]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        self._running.append(process)
        return process

    def said(self, name: str) -> str:
        return (self._folder / name).read_text()

    def command(self, *words: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "paceline", *words, "--data", str(self.data)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def end(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()
        assert stop_all(self.data.with_name("data-agent"))[1] == 0


@pytest.mark.outside
def test_a_stranger_at_the_address_of_a_killed_cell_learns_no_token_and_orders_nothing(cell_process: Processes) -> None:
    site = cell_process
    up = site.start("up", "up", "--listen", "127.0.0.1:0", "--no-agent")
    cell_file = site.data / "cell.json"
    until(cell_file.exists, "the cell to come up")
    listen = json.loads(cell_file.read_text())["listen"]
    token = (site.data / "token").read_text().strip()
    site.start("agent", "agent", "--host-id", HOST, "--listen", "127.0.0.1:0", "--server", f"http://{listen}")
    until(lambda: "follows cell 0" in site.said("agent"), "the agent to follow")
    up.kill()
    up.wait()
    host, _, port = listen.rpartition(":")
    stranger = Stranger((host, int(port)))
    until(lambda: "doesn't prove that it has the token of the cell" in site.said("agent"), "the agent to doubt")
    code, said = site.command("job", "list")
    assert code == 9
    assert f"The token isn't that of the cell at http://{listen}, or another process listens there" in said
    assert site.command("down")[0] in (0, 1)
    assert not stranger.knows(token)
    assert not [data for data in stranger.heard if b"/v1/agents/" in data]
    stranger.close()
    before = site.said("agent").count("follows cell 0")
    site.start("up-again", "up", "--listen", listen, "--no-agent")
    until(lambda: site.said("agent").count("follows cell 0") > before, "the agent to follow again")
    until(lambda: site.command("job", "list")[0] == 0, "the command to be answered")


def test_a_stranger_that_forwards_to_the_cell_is_seen_through(site: Site) -> None:
    parts = urlsplit(site.server.url)
    stranger = Stranger(target=(str(parts.hostname), int(parts.port or 0)))
    said: list[str] = []
    settings = AgentSettings((stranger.url,), TOKEN, site.folder, HOST)
    agent = site.agent = Agent(settings, said.append)
    agent.take()
    agent.start()
    site.cell.until(lambda: any("doesn't prove" in text for text in said))
    assert f"it forwards to 127.0.0.1:{parts.port}, which has the token: name that address" in said[-1]
    assert not stranger.knows(TOKEN)
    assert site.cell.inventories() == []
    site.stop_agent()
    stranger.close()


def test_an_api_shows_its_token_to_no_stranger() -> None:
    stranger = Stranger()
    with pytest.raises(LookupError, match="doesn't prove that it has the token"):
        asyncio.run(RemoteHosts((stranger.url,), TOKEN).output(OutputAsk("j", 0, 1, "stdout", 0, 10)))
    assert not stranger.knows(TOKEN)
    stranger.close()


def test_a_stranger_that_drips_bytes_holds_no_agent_from_its_other_gateways(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paceline.client.proven_transport.PROOF_S", 0.5)
    stranger = Stranger(drips=True)
    said: list[str] = []
    agent = site.agent = Agent(AgentSettings((stranger.url, site.server.url), TOKEN, site.folder, HOST), said.append)
    agent.take()
    agent.start()
    site.cell.until(lambda: agent.connected)
    assert any("it has not done so within 0.5 s" in text for text in said)
    site.stop_agent()
    stranger.close()


def test_a_stranger_that_drips_bytes_holds_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.client.proven_transport.PROOF_S", 0.5)
    stranger = Stranger(drips=True)
    with (
        httpx2.Client(transport=ProvenTransport(TOKEN)) as client,
        pytest.raises(httpx2.ConnectError, match=r"it has not done so within 0\.5 s"),
    ):
        client.get(stranger.url)
    monkeypatch.setattr("paceline.client.plain_http.PROOF_S", 0.5)
    with pytest.raises(Unproven, match=r"it has not done so within 0\.5 s"):
        PlainHttp(stranger.url, {}, {"Authorization": "Bearer x"}, TOKEN).request("GET", "/", 60.0)
    stranger.close()


def refused(site: Site) -> str:
    """What an agent says that isn't taken."""
    said: list[str] = []
    agent = site.agent = Agent(site.settings(), said.append)
    agent.take()
    agent.start()
    site.cell.until(lambda: any("no contact to the cell" in text for text in said))
    assert not agent.connected
    site.stop_agent()
    return said[-1]


def test_the_positions_of_another_log_are_refused(site: Site) -> None:
    site.start_agent()
    site.run(shell("j", "exit 0"))
    site.says("j", 0, 1, "EXITED", 0)
    site.stop_agent()
    first = load(site.folder / "agent.json")
    assert first.log == site.cell.gateway.log_id != ""
    site.server.stop()
    site.cell = Cell()
    site.server = Server(site.cell.gateway)
    said = refused(site)
    assert "the host has followed another log of cell 0 than this one" in said
    assert "paceline down --stop-runs --agent-folder" in said
    assert site.cell.inventories() == []
    assert load(site.folder / "agent.json").position == first.position


def test_a_position_that_the_log_does_not_reach_is_refused_and_can_be_mended(site: Site) -> None:
    site.start_agent()
    site.stop_agent()
    path = site.folder / "agent.json"
    standing = load(path)
    standing.position = 2**60
    save(path, standing)
    connected = len(site.cell.inventories())
    assert f"followed orders up to {2**60}, but the log of cell 0 ends at" in refused(site)
    assert len(site.cell.inventories()) == connected
    path.unlink()
    site.start_agent()
    site.run(shell("j", "exit 3"))
    site.says("j", 0, 1, "EXITED", 3)


def test_the_identity_of_a_log_outlives_the_gateway_and_is_the_same_for_all(tmp_path: Path) -> None:
    cell = Cell(path=tmp_path / "gateway.msgpack")
    cell.until(lambda: cell.gateway.log_id)
    known = cell.gateway.log_id
    cell.gateway.close()
    assert cell.new_gateway().log_id == known
    cell.path = None
    again = cell.new_gateway()
    cell.until(lambda: again.serving)
    assert again.log_id == known
