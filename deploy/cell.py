"""`make cell`: a real Kafka and every part of Paceline as a process of its own, two cells, on this machine.

    python -m deploy.cell [FOLDER]      FOLDER keeps everything; without it a new one is made

Ctrl-C ends all of it; started again on the same folder it goes on. What ends by itself is said and started again.
"""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import httpx2

from deploy.processes import Processes, listens, procfile, taken
from events.log.kafka.topics import add_cells, create
from paceline.services.data_folder import prepare
from paceline.services.processes import default_listen
from tests.helpers.broker import Broker, BrokerFailed

CELLS = 2
LOOK_S = 0.5
LATE_S = 60.0
"""Seconds after which processes that aren't ready are named."""
PROCFILE = Path(__file__).parent / "Procfile"


def main(folder: Path) -> int:
    """Runs until SIGINT or SIGTERM; returns the exit code."""
    stopping: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        stopping.append(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    folder = folder.absolute()
    commands = procfile(PROCFILE)
    if in_use := taken(commands):
        _say(f"{', '.join(in_use)} in use: end who has it, another `make cell` perhaps, or change {PROCFILE}")
        return 1
    prepare(folder / "data")  # before all others: agents want its token
    try:
        with Broker(folder / "kafka") as broker:
            create(broker.address, CELLS)
            add_cells(broker.address, CELLS)
            environment = _environment(folder, broker.address)
            processes = Processes(folder / "logs", environment)
            _say(f"Kafka at {broker.address}; starting {len(commands)} processes, all kept in {folder}")
            _run(commands, processes, stopping, folder / "env")
            _say("ending all")
            processes.stop_all()
            broker.stop()
    except BrokerFailed as failed:
        _say(f"Kafka can't run: {failed}")
        return 1
    _say(f"stopped; tasks that run go on. Go on here with: make cell FOLDER={folder}")
    return 0


def _run(commands: dict[str, list[str]], processes: Processes, stopping: Sequence[int], file: Path) -> None:
    """Starts all, says when they are ready, and starts again what ends, until somebody stops it."""
    for name, command in commands.items():
        processes.start(name, command)
    waited = listens(commands)
    late_at: float | None = time.monotonic() + LATE_S
    while not stopping:
        for name, code in processes.ended().items():
            _say(f"{name} has ended with {code}; see {processes.output(name)}; started again")
            processes.start(name, commands[name])
        if waited:
            waited = {name: listen for name, listen in waited.items() if not _ready(listen)}
            if not waited:
                late_at = None
                _say(f"all are ready; stop with Ctrl-C. In another terminal, here:\n\n  . {file}")
                _say("  paceline cell check")
                _say("  paceline pool apply examples/pools.yaml && paceline job submit examples/jobs/tiles.yaml")
        if late_at is not None and time.monotonic() > late_at:
            late_at = None
            _say(f"not ready yet: {', '.join(waited)}; what they say is in {processes.output('NAME')}")
        time.sleep(LOOK_S)


def _environment(folder: Path, kafka: str) -> dict[str, str]:
    """The environment of all processes; a file with the same for shells, which finds `paceline` too."""
    out = {"PACELINE_KAFKA": kafka, "PACELINE_DATA": str(folder / "data")}
    lines = [f"export {name}='{value}'" for name, value in out.items()]
    lines += [
        f"export PACELINE_SERVER=http://{default_listen('api')}",
        'export PACELINE_TOKEN="$(cat "$PACELINE_DATA/token")"',
    ]
    lines += [f"export PATH='{Path(sys.executable).parent}':\"$PATH\""]
    (folder / "env").write_text("\n".join(lines) + "\n")
    return out


def _ready(listen: str) -> bool:
    try:
        return httpx2.get(f"http://{listen}/readyz", timeout=1.0, trust_env=False).is_success
    except httpx2.TransportError:
        return False


def _say(text: str) -> None:
    sys.stdout.write(text + os.linesep)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if sys.argv[1:] else Path(tempfile.mkdtemp(prefix="paceline-cell-"))))
