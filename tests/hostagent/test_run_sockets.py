"""Which ports are a run's own: those that its processes listen on, and nobody else's."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from hostagent.exec_targets import Connection, ExecFault
from hostagent.run import Run
from hostagent.run_record import RunKey
from tests.helpers.ports import kept_port

SERVE = """
import socket, sys
kind = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
server = socket.create_server((sys.argv[1], int(sys.argv[2])), family=kind, dualstack_ipv6=kind == socket.AF_INET6)
print("here", flush=True)
sys.stdin.read()
"""


class Started:
    """A run with one process, or with a process of its process, that listens on a port."""

    def __init__(self, folder: Path, address: str, deep: bool) -> None:
        self.port = kept_port()
        words = [sys.executable, "-c", SERVE, address, str(self.port)]
        if deep:
            words = ["sh", "-c", '"$@"; :', "sh", "setsid", "--wait", *words]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "here\n"
        self.run = Run(RunKey("j", 0, 1), folder, session=self.process.pid)
        (folder / "order.json").write_text("{}")


@pytest.fixture(params=[("127.0.0.1", False), ("0.0.0.0", True), ("::", False)])
def started(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Started]:
    made = Started(tmp_path, *request.param)
    with made.process:
        yield made
        made.process.communicate("")


def reach(run: Run, port: int) -> None:
    async def connect() -> None:
        connection = Connection(port, run)
        await connection.start()
        await connection.close()

    asyncio.run(connect())


def test_a_run_is_reached_where_it_listens_and_no_one_else_is(started: Started) -> None:
    reach(started.run, started.port)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ExecFault, match=f"port {port} of the run: something else on its host listens there"):
            reach(started.run, port)
        started.run.ports = (port,)
        reach(started.run, port)
    with pytest.raises(ExecFault, match="Connection refused"):
        reach(started.run, kept_port())


def test_a_container_without_a_network_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    bundle = {"linux": {"namespaces": [{"type": "pid"}, {"type": "network"}]}}
    (tmp_path / "bundle/config.json").write_bytes(msgspec.json.encode(bundle))
    (tmp_path / "order.json").write_text('{"container": {}}')
    with pytest.raises(ExecFault, match="its container has no network"):
        reach(Run(RunKey("j", 0, 1), tmp_path, ports=(80,)), 80)
