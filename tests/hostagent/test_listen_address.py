"""Where a process listens: it asks for the address before it does anything else, and says what to do without it."""

import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from hostagent.listen_address import bound
from tests.events.log.contract import PATIENCE
from tests.helpers import ROOT
from tests.helpers.real_cell import CellProcess


def has_ipv6() -> bool:
    with suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


PARTS = [["up"], ["processor", "lifecycle"], ["projector"], ["gateway"], ["fanout"], ["api"], ["agent"]]
OF_PARTS = {"agent": ["--server", "127.0.0.1:9", "--token-file", "{token}"]}
KAFKA = ["--kafka", "127.0.0.1:9"]


@pytest.mark.parametrize("process", PARTS, ids=" ".join)
def test_a_taken_address_is_one_sentence_before_anything_else_is_asked(tmp_path: Path, process: list[str]):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "token").write_text("secret")
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        own = [word.format(token=tmp_path / "kept" / "token") for word in OF_PARTS.get(process[0], KAFKA)]
        words = [*process, "--data", str(tmp_path / "data"), *own, "--listen", taken]
        done = subprocess.run(
            [sys.executable, "-m", "paceline", *words], cwd=ROOT, capture_output=True, text=True, timeout=60
        )
    said = f"paceline: can't listen on {taken}: Address already in use. Choose another address with --listen.\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_of_two_that_bind_an_address_at_once_the_second_to_listen_is_told(monkeypatch: pytest.MonkeyPatch):
    plain = socket.socket

    class Late(plain):
        """Somebody else listens first."""

        def listen(self, backlog: int = 0) -> None:
            with plain() as first:
                first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                first.bind(self.getsockname())
                first.listen()
                super().listen(backlog)

    monkeypatch.setattr("hostagent.listen_address.socket.socket", Late)
    with pytest.raises(OSError, match=r"Address already in use\. Choose another address with --listen"):
        bound("127.0.0.1:0")


def test_a_part_on_any_port_says_its_address_in_a_file(tmp_path: Path):
    file = tmp_path / "address"
    words = ["processor", "sla", "--data", str(tmp_path / "data"), *KAFKA, "--listen", "127.0.0.1:0"]
    command = [sys.executable, "-m", "paceline", *words, "--address-file", str(file)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + PATIENCE
            while not file.exists():
                assert time.monotonic() < deadline
                time.sleep(0.01)
            with socket.create_connection(("127.0.0.1", int(file.read_text().rpartition(":")[2])), PATIENCE):
                pass
        finally:
            process.terminate()


def test_a_file_for_the_address_that_cannot_be_written_is_one_sentence(tmp_path: Path):
    file = tmp_path / "none" / "address"
    words = ["api", "--data", str(tmp_path / "data"), *KAFKA, "--listen", "127.0.0.1:0", "--address-file", str(file)]
    command = [sys.executable, "-m", "paceline", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    said = f"paceline: {file}: No such file or directory. Choose another file with --address-file.\n"
    assert (done.returncode, done.stderr) == (1, said)


@pytest.mark.parametrize(
    ("listen", "code", "said"),
    [
        ("127.0.0.1:99999", 2, "setting listen: 127.0.0.1:99999 has no such port\n"),
        ("[::2]:7117", 1, ". Choose another address with --listen.\n"),
    ],
)
def test_an_address_that_cannot_be_had_is_one_sentence(tmp_path: Path, listen: str, code: int, said: str):
    done = subprocess.run(
        [sys.executable, "-m", "paceline", "up", "--data", str(tmp_path / "data"), "--listen", listen],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == code
    assert done.stderr.endswith(said)
    assert listen in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.outside
@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_a_cell_on_an_address_of_ipv6_serves_its_agent_and_its_commands(tmp_path: Path):
    cell = CellProcess(tmp_path / "cell", sim_hosts=0, listen="[::1]:0")
    cell.start()
    cell.until(lambda: [host["state"] for host in cell.get("/v1/hosts").json()["hosts"]] == ["UP"])
    assert "is up at http://[::1]:" in cell.output.read_text()
    words = ["host", "list", "--data", str(cell.data), "-o", "name"]
    listed = subprocess.run([sys.executable, "-m", "paceline", *words], cwd=ROOT, capture_output=True, text=True)
    assert (listed.returncode, listed.stdout.count("\n")) == (0, 1), listed.stderr
    cell.stop()
