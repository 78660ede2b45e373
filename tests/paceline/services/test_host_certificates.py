"""Hosts with certificates of the cell: they join once, speak for themselves alone, and are put out by their removal."""

import shutil
import ssl
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO

import httpx2
import pytest

from hostagent.host_certificate import HostCertificate
from paceline.client.client import Client
from paceline.client.errors import PacelineError, Unavailable
from tests.helpers import real_cell
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
        until(lambda: all(text in self.log(name).read_text() for text in texts))

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


def asked(site: Site, pem: Path, method: str, path: str, body: object = None) -> tuple[int, str]:
    """The status and code of the answer to who shows a certificate, and has no token."""
    context = ssl.create_default_context(cafile=str(site.pki.file))
    context.load_cert_chain(pem)
    with httpx2.Client(verify=context, trust_env=False) as client:
        answer = client.request(method, f"{site.client.server}{path}", json=body)
        return answer.status_code, str(answer.json().get("code", answer.json().get("title")))


def removed(site: Site, host_id: str, agent: subprocess.Popen[bytes]) -> None:
    """A host is removed, once its agent has ended and it is silent."""
    agent.terminate()
    agent.wait(20)

    def is_gone() -> bool:
        with suppress(PacelineError):
            return site.client.remove_host(host_id, wait=10)["code"] == "DONE"
        return False

    until(is_gone)


def test_a_host_joins_once_and_runs_jobs_by_its_certificate(site: Site) -> None:
    token = site.invited("h17")
    first = site.agent("one", "--join-file", token)
    until(lambda: site.is_up("h17"))
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


def test_a_stolen_certificate_speaks_for_its_own_host_alone(site: Site) -> None:
    site.agent("one", "--join-file", site.invited("h1"))
    site.agent("two", "--join-file", site.invited("h2"))
    until(lambda: site.is_up("h1") and site.is_up("h2"))
    stolen = site.folder / "stolen.pem"
    shutil.copy(site.folder / "one" / "host.pem", stolen)
    routes = [
        ("POST", "sessions"),
        ("GET", "orders?session=1"),
        ("POST", "reports"),
        ("POST", "logs/0123"),
        ("POST", "usage/0123"),
        ("POST", "secrets"),
        ("POST", "certificates"),
        ("POST", "execs/0123/up"),
        ("GET", "execs/0123/down"),
    ]
    for method, path in routes:
        assert asked(site, stolen, method, f"/v1/agents/h2/{path}", {}) == (403, "CERTIFICATE_FOREIGN"), path
    assert asked(site, stolen, "POST", "/v1/agents/h1/reports", {})[0] == 422  # its own host, and no report


def test_a_removed_host_is_out_until_it_is_invited_again(site: Site) -> None:
    first = site.agent("one", "--join-file", site.invited("h1"))
    until(lambda: site.is_up("h1"))
    unused = site.invited("h1")
    removed(site, "h1", first)
    site.agent("one")
    site.says("one", "certificate of host h1 is revoked", "`paceline host invite h1` lets the host join again")
    late = site.agent("late", "--join-file", unused)
    assert late.wait(40) == 1
    assert "JOIN_TOKEN_WRONG" in site.log("late").read_text()
    site.agents[-2].terminate()
    site.agents[-2].wait(20)
    site.agent("one", "--join-file", site.invited("h1"))
    until(lambda: site.is_up("h1"))


def test_a_cell_that_takes_certificates_only_refuses_the_token_of_the_cell(site: Site) -> None:
    token = site.cell.data / "token"
    site.agent("old", "--token-file", token, "--host-id", "old")
    until(lambda: site.is_up("old"))
    site.agent("new", "--join-file", site.invited("new"))
    own = site.pki.issue("yours", uris=("paceline://host/yours",))
    site.agent("yours", "--tls-cert", own.cert, "--tls-key", own.key, "--host-id", "yours")
    until(lambda: site.is_up("new") and site.is_up("yours"))
    site.client.change_cell({"agents": "certificates"}, wait=20)
    site.says("old", "this cell takes agents with a certificate of their host")
    until(lambda: not site.is_up("old"))
    site.cell.end()
    before = (site.cell.data / "hosts-ca.pem").read_bytes()
    site.cell.start()
    assert (site.cell.data / "hosts-ca.pem").read_bytes() == before
    site.client.close()
    site.client = Client(data=site.cell.data)
    until(lambda: site.is_up("new") and site.is_up("yours") and not site.is_up("old"))


def test_join_tokens_that_do_not_hold_say_why(site: Site) -> None:
    short = site.invited("h1", ttl_s=1)
    garbled = site.folder / "garbled"
    garbled.write_text("h1~nonsense")
    foreign = site.folder / "no-token"
    foreign.write_text("nonsense")
    token = site.invited("h2").read_text()
    answer = httpx2.post(
        f"{site.client.server}/v1/agents/h1/certificates",
        headers={"Authorization": f"Bearer {token}"},
        verify=ssl.create_default_context(cafile=str(site.pki.file)),
        trust_env=False,
    )
    assert (answer.status_code, answer.json()["code"]) == (403, "JOIN_TOKEN_FOREIGN")
    time.sleep(1.1)  # the token holds for a second
    for name, file, text in (
        ("a", short, "JOIN_TOKEN_EXPIRED"),
        ("b", garbled, "JOIN_TOKEN_WRONG"),
        ("c", foreign, "This is no join token"),
    ):
        assert site.agent(name, "--join-file", file).wait(40) == 1
        assert text in site.log(name).read_text()


def test_certificates_that_have_expired_or_are_of_another_ca_are_refused_in_the_handshake(site: Site) -> None:
    expired = site.pki.issue("h1", uris=("paceline://host/h1",), ends=timedelta(minutes=-1))
    stranger = Pki(site.folder / "other", "another CA").issue("h1", uris=("paceline://host/h1",))
    for name, files, text in (("a", expired, "has expired"), ("b", stranger, "doesn't trust the CA")):
        site.agent(name, "--tls-cert", files.cert, "--tls-key", files.key, "--host-id", "h1")
        site.says(name, text)


def test_a_user_is_who_the_certificate_says_and_a_host_is_no_user(site: Site) -> None:
    ann = site.pki.issue("ann")
    both = site.folder / "ann.pem"
    both.write_text(ann.cert.read_text() + ann.key.read_text())
    pool = {"reservation": {}}
    assert asked(site, both, "PUT", "/v1/pools/p", pool) == (403, "NOT_ALLOWED")
    site.agent("one", "--join-file", site.invited("h1"))
    until(lambda: site.is_up("h1"))
    assert asked(site, site.folder / "one" / "host.pem", "PUT", "/v1/pools/p", pool) == (401, "TOKEN_NEEDED")


def test_one_ca_of_users_and_hosts_makes_no_host_of_a_user_and_no_user_of_a_host(site: Site) -> None:
    user = site.pki.issue("h1", dns=("h1",), file="user")
    host = site.pki.issue("ann", uris=("paceline://host/h1",), file="host")
    for files in (user, host):
        files.cert.write_text(files.cert.read_text() + files.key.read_text())
    for subject in ("h1", "ann"):
        site.client.bind_role("admin", "/", subject=subject, wait=20)
    pool = {"reservation": {}}
    until(lambda: asked(site, user.cert, "PUT", "/v1/pools/p", pool)[0] == 202)
    assert asked(site, user.cert, "POST", "/v1/agents/h1/reports", {}) == (403, "CERTIFICATE_FOREIGN")
    assert asked(site, host.cert, "PUT", "/v1/pools/p", pool) == (401, "TOKEN_NEEDED")
    assert asked(site, host.cert, "POST", "/v1/agents/h1/reports", {})[0] == 422  # its host, and no report


def test_a_stolen_certificate_is_of_no_use_without_its_key_and_renewed_once(site: Site) -> None:
    site.agent("one", "--join-file", site.invited("h1"))
    until(lambda: site.is_up("h1"))
    kept, stolen = HostCertificate(site.folder / "one"), site.folder / "thief"
    stolen.mkdir()
    shutil.copy(kept.file, stolen)
    alone = site.folder / "alone.pem"
    alone.write_text(kept.file.read_text().split("-----BEGIN PRIVATE")[0])
    with pytest.raises(ssl.SSLError):
        asked(site, alone, "GET", "/livez")

    def renewed(folder: Path) -> tuple[int, str]:
        certificate = HostCertificate(folder)
        context = ssl.create_default_context(cafile=str(site.pki.file))
        context.load_cert_chain(certificate.file)
        with httpx2.Client(verify=context, trust_env=False) as client:
            url = f"{site.client.server}/v1/agents/h1/certificates"
            answer = client.post(url, content=certificate.renewing().pem)
        return answer.status_code, "" if answer.status_code == 201 else str(answer.json()["code"])

    assert [renewed(stolen), renewed(stolen)] == [(201, ""), (201, "")]  # the answer may have been lost
    assert renewed(site.folder / "one") == (403, "CERTIFICATE_RENEWED")
    until(lambda: [each["event"] for each in site.client.host_history("h1")].count("HostCertified") == 3)


SHORT = """
import sys
from hostagent.gateway.host_ca import HostCa
HostCa.__init__.__defaults__ = (154.5,)  # begins 5 minutes ago, so two thirds are over in 3 s
from paceline.cli.main import main
sys.exit(main())
"""


def test_certificates_are_renewed_under_load_without_a_lost_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def launched(words: list[str], out: BinaryIO, environment: Mapping[str, str], session: bool) -> Any:
        return subprocess.Popen([sys.executable, "-c", SHORT, *words], stdout=out, stderr=out, env=environment)

    monkeypatch.setattr(real_cell, "launched", launched)
    with site_in(tmp_path) as site:
        site.agent("one", "--join-file", site.invited("h1"))
        until(lambda: site.is_up("h1"))
        site.client.define_pool("/p", {}, wait=20)
        job = {"pool": "/p", "instances": 4, "command": ["true"], "resources": {"cpu": "1m"}}
        number = 0
        while site.log("one").read_text().count("has renewed") < 3:
            number += 1
            site.client.submit_job({"job_id": f"j{number}", **job}, wait=20)
            assert site.client.wait(f"j{number}", timeout=40)["state"] == "SUCCEEDED"
        assert site.log("one").read_text().count("follows cell") == 1
