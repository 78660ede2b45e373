"""Where a process listens: it asks for the address before it does anything else, and says what to do without it."""

import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.storms.cell import ROOT, CellProcess


def has_ipv6() -> bool:
    with suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


@pytest.mark.parametrize("process", [["up"], ["processor", "lifecycle"], ["gateway"]])
def test_a_taken_address_is_one_sentence_before_kafka_is_asked(tmp_path: Path, process: list[str]):
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        words = [*process, "--data", str(tmp_path / "data"), "--kafka", "127.0.0.1:9", "--listen", taken]
        done = subprocess.run(
            [sys.executable, "-m", "paceline", *words], cwd=ROOT, capture_output=True, text=True, timeout=60
        )
    said = f"paceline: can't listen on {taken}: Address already in use. Choose another address with --listen.\n"
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
