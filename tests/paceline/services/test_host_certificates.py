"""Hosts with certificates of the cell: they join once, speak for themselves alone, and are put out by their removal."""

import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from paceline.client.client import Client
from paceline.client.errors import Unavailable
from tests.helpers.forked import PACELINE
from tests.helpers.pki import Pki
from tests.helpers.real_cell import CellProcess
from tests.helpers.waiting import until


class SecureCell(CellProcess):
    """A cell that is asked over TLS."""

    def answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.output.read_text()
        return (self.data / "cell.json").exists()


class Site:
    """A cell with TLS and without an agent of its own, and the agents that a test starts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pki = Pki(folder / "pki")
        own = self.pki.issue("cell")
        options = (
            "--no-agent",
            "--tls-cert",
            str(own.cert),
            "--tls-key",
            str(own.key),
            "--client-ca",
            str(self.pki.file),
        )
        self.cell = SecureCell(folder / "cell", sim_hosts=0, agent=False, options=options)
        self.cell.start()
        self.client = Client(data=self.cell.data)
        self.agents: list[subprocess.Popen[bytes]] = []

    def close(self) -> None:
        for each in self.agents:
            each.terminate()
        for each in self.agents:
            each.wait(20)
        self.client.close()
        self.cell.end()

    def invited(self, host_id: str, ttl_s: float = 600) -> Path:
        """A file with a join token."""
        file = self.folder / f"join-{host_id}-{len(list(self.folder.iterdir()))}"
        file.write_text(self.client.invite_host(host_id, ttl_s)["token"])
        return file

    def agent(self, name: str, *options: object) -> subprocess.Popen[bytes]:
        """An agent on a folder of a name; what it says goes to a file beside it."""
        place = ("--data", self.folder / f"{name}-data", "--folder", self.folder / name, "--listen", "127.0.0.1:0")
        words = ("agent", "--server", self.client.server, "--ca", self.pki.file, *place, *options)
        with self.log(name).open("wb") as output:
            self.agents.append(subprocess.Popen([*PACELINE, *map(str, words)], stderr=output, stdout=output))
        return self.agents[-1]

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def says(self, name: str, *texts: str) -> None:
        until(lambda: all(text in self.log(name).read_text() for text in texts), 40)

    def is_up(self, host_id: str) -> bool:
        with suppress(Unavailable):  # the views of a busy machine may be late
            return any(each["host_id"] == host_id and each["state"] == "UP" for each in self.client.hosts())
        return False


@contextmanager
def site_in(folder: Path) -> Iterator[Site]:
    site = Site(folder)
    try:
        yield site
    finally:
        site.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with site_in(tmp_path) as made:
        yield made


def test_a_host_joins_once_and_runs_jobs_by_its_certificate(site: Site) -> None:
    token = site.invited("h17")
    first = site.agent("one", "--join-file", token)
    until(lambda: site.is_up("h17"), 40)
    assert [stat.S_IMODE((site.folder / "one" / "host.pem").stat().st_mode)] == [0o600]
    assert token.read_text() not in "".join(file.read_text() for file in (site.folder / "one").glob("host.*"))
    site.client.define_pool("/p", {}, wait=20)
    site.client.submit_job({"job_id": "j", "pool": "/p", "command": ["true"], "resources": {"cpu": "1m"}}, wait=20)
    assert site.client.wait("j", timeout=40)["state"] == "SUCCEEDED"
    again = site.agent("two", "--join-file", token)
    assert again.wait(40) == 1
    assert "was used, and holds once: `paceline host invite h17` gives another" in site.log("two").read_text()
    first.terminate()
    first.wait(20)
    site.agent("one", "--join-file", token)  # the same agent may begin again with the token that it has used
    site.says("one", "follows cell 0")
