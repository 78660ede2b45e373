"""Carries connections to a port of this machine to a port of a run."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from paceline.cli.exec_terminal import send_beside
from paceline.client.errors import PacelineError
from paceline.client.exec_frames import PING_S, Kind, pack
from paceline.client.models import ENDED
from paceline.output import note, say

if TYPE_CHECKING:
    from paceline.client.client import Client

ADDRESS = "127.0.0.1"
ACCEPT_S = 0.5
LOOK_S = 2.0
"""So often it is looked whether the job goes on."""
READ_BYTES = 16_384


def forward(client: "Client", job_id: str, instance: int, local: int, port: int) -> int:
    """Forwards until the job has ended or is not found any more; the exit code. Each connection goes to the run that
    its task has then. Raises `OSError` where the local port is taken.
    """
    state = client.job(job_id)["state"]
    with socket.create_server((ADDRESS, local)) as listening:
        listening.settimeout(ACCEPT_S)
        say(f"{ADDRESS}:{listening.getsockname()[1]} goes to port {port} of task {instance} of job {job_id}")
        looked_s = time.monotonic()
        while state not in ENDED:
            with suppress(TimeoutError):
                connection, _ = listening.accept()
                words = (client, job_id, instance, port, connection)
                threading.Thread(target=_carry, args=words, daemon=True).start()
            if time.monotonic() - looked_s >= LOOK_S:
                state = client.job(job_id)["state"]
                looked_s = time.monotonic()
    note(f"paceline: job {job_id} is {state}: nothing is forwarded any more")
    return 1


def _carry(client: "Client", job_id: str, instance: int, port: int, connection: socket.socket) -> None:
    """One connection, from its start to its end; what goes wrong is said in a line and ends it alone."""
    with connection:
        try:
            entered = client.enter(job_id, instance, port=port)
            send_beside(client, job_id, instance, entered["exec"], _sent(connection))
            for frame in client.written(job_id, instance, entered["exec"]):
                if frame.kind == Kind.DATA:
                    connection.sendall(frame.data)
                elif frame.kind == Kind.FAULT:
                    note(f"paceline: {frame.data.decode(errors='replace')}")
        except (PacelineError, OSError) as error:
            note(f"paceline: a connection ended: {error}")
        finally:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def _sent(connection: socket.socket) -> Iterator[bytes]:
    """The frames of what the local side sends, to its end; pings after that, as the answer may take long."""
    connection.settimeout(PING_S)
    ended = False
    while True:
        try:
            data = b"" if ended else connection.recv(READ_BYTES)
        except TimeoutError:
            yield pack(Kind.PING)
            continue
        except OSError:
            return
        if data:
            yield pack(Kind.DATA, data)
        elif not ended:
            ended = True
            yield pack(Kind.END_OF_INPUT)
        else:
            time.sleep(PING_S)
            if connection.fileno() < 0:
                return
            yield pack(Kind.PING)
