"""`paceline up` with TLS: its API, its pages, its own agent, and commands that find it."""

import subprocess
from pathlib import Path

from paceline.client.client import Client
from tests.helpers import ROOT
from tests.helpers.forked import PACELINE
from tests.helpers.pki import Pki
from tests.helpers.real_cell import CellProcess


class SecureCell(CellProcess):
    """A cell that is asked over TLS."""

    def answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.output.read_text()
        return (self.data / "cell.json").exists()


def paceline(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PACELINE, *words], capture_output=True, text=True, timeout=60, cwd=ROOT)


def test_a_cell_with_tls_runs_jobs_on_its_own_agent_and_commands_verify_it(tmp_path: Path) -> None:
    pki = Pki(tmp_path / "pki")
    own = pki.issue("cell")
    data = tmp_path / "cell"
    options = ("--tls-cert", str(own.cert), "--tls-key", str(own.key))
    cell = SecureCell(data, sim_hosts=0, agent=True, options=options)
    cell.start()
    try:
        with Client(data=data) as client:
            assert client.server.startswith("https://127.0.0.1:")
            client.define_pool("/p", {}, wait=20)
            client.submit_job({"job_id": "j", "pool": "/p", "command": ["true"], "resources": {"cpu": "1m"}}, wait=20)
            assert client.wait("j", timeout=40)["state"] == "SUCCEEDED"
        server = client.server
        shown = paceline("job", "list", "--server", server, "--ca", str(pki.file))
        assert (shown.returncode, "j" in shown.stdout) == (0, True), shown.stderr
        strange = paceline("job", "list", "--server", server)
        assert strange.returncode == 6
        assert "nobody who is trusted here has signed its certificate" in strange.stderr
        plain = paceline("job", "list", "--server", server.replace("https", "http"))
        assert "this port speaks TLS: name it with https://" in plain.stderr
        with Client(server, ca=pki.file) as outside:
            assert next(outside.hosts())["state"] == "UP"
    finally:
        cell.end()


def test_half_of_a_pair_of_files_is_a_wrong_setting(tmp_path: Path) -> None:
    own = Pki(tmp_path / "pki").issue("cell")
    ended = paceline("up", "--data", str(tmp_path / "cell"), "--tls-cert", str(own.cert))
    assert ended.returncode == 2
    assert "--tls-key is missing" in ended.stderr
