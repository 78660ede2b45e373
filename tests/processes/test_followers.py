"""A cell of separate processes on Kafka: who follows output misses nothing when one of them is away for a while, and
never takes that for the end of the run.
"""

import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from tests.helpers.broker import Broker
from tests.helpers.site import TOKEN, Site, empty
from tests.helpers.waiting import until

WRITER = """
import pathlib, sys, time
number = 0
while not pathlib.Path(sys.argv[1]).exists():
    print(number, flush=True)
    number += 1
    time.sleep(0.01)
"""


class Proxy:
    """Carries connections to wherever the API listens now; `close_all` ends those that there are, in good order."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def close_all(self) -> None:
        for each in list(self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                user, _ = self._server.accept()
                host, _, port = self._site.address("api").rpartition(":")
                with suppress(OSError):
                    api = socket.create_connection((host, int(port)))
                    for ends in ((user, api), (api, user)):
                        self._open.add(ends[0])
                        threading.Thread(target=self._copy, args=ends, daemon=True).start()
                    continue
                user.close()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                target.sendall(data)
        for each in (source, target):
            self._open.discard(each)
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class Follower:
    """`paceline job logs --follow`, which writes to files and has patience with a cell for so long."""

    def __init__(self, folder: Path, name: str, address: str, patience_s: float) -> None:
        self._files = folder / f"{name}.out", folder / f"{name}.err"
        words = ["job", "logs", "web", "--follow", "--server", address]
        script = f"from paceline.client import patience; patience.PATIENCE_S = {patience_s}\n"
        script += f"from paceline.cli.main import main; main({words})"
        with self._files[0].open("wb") as out, self._files[1].open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-c", script], env={**os.environ, "PACELINE_TOKEN": TOKEN}, stdout=out, stderr=err
            )

    @property
    def lines(self) -> list[str]:
        return self._files[0].read_text().splitlines()

    @property
    def err(self) -> str:
        return self._files[1].read_text()

    def goes_on(self) -> None:
        """Waits until it shows more."""
        count = len(self.lines)
        until(lambda: len(self.lines) > count + 50 or self.process.poll() is not None, "more output")
        assert self.process.poll() is None, self.err


def test_whoever_is_away_for_a_while_a_follower_goes_on_and_ends_with_the_run(broker: Broker, tmp_path: Path) -> None:
    site = Site(tmp_path, empty(broker, 1), sim_hosts=0)
    end = tmp_path / "end"
    try:
        site.begin("agent.0")
        site.pool("/p")
        site.submit("web", command=[sys.executable, "-c", WRITER, str(end)])
        site.until(lambda: site.running("web") == 1)
        proxy = Proxy(site)
        patient = Follower(tmp_path, "patient", proxy.address, 60)
        hasty = Follower(tmp_path, "hasty", proxy.address, 1)
        for each in (patient, hasty):
            each.goes_on()
        proxy.close_all()
        for each in (patient, hasty):
            each.goes_on()

        site.kill("api")
        assert hasty.process.wait(30) == 6
        assert "the job goes on" in hasty.err
        assert patient.process.poll() is None
        site.start("api")
        patient.goes_on()

        for name in ("gateway.0", "agent.0"):
            site.kill(name)
            site.start(name)
            patient.goes_on()
        end.touch()
        assert (patient.process.wait(30), patient.err) == (0, "")
        assert patient.lines == [str(number) for number in range(len(patient.lines))]
        site.finish("web")
        site.end()
    finally:
        end.touch()
        site.processes.stop_all()
