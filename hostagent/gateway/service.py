"""A gateway as a process of its own: a thread that steps it, one that reads the log, and one that serves HTTP.

Who steps sleeps until a record, a post or a deadline comes, so a gateway without work costs next to nothing.
"""

import faulthandler
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from fastapi import FastAPI
from starlette.routing import Route

from events.log.port import Log, LogFault, LogUnavailable
from events.process.clock import SystemClock
from events.process.file_locks import hold
from events.process.hang_watch import HANG_S, HangDetector, place
from events.process.health import Health
from events.signing_keys import SigningKeys
from hostagent.fleet import SIM_CAPACITY, Fleet, SimHost
from hostagent.gateway.agents import Agents, join_routes
from hostagent.gateway.component import Gateway
from hostagent.gateway.exec_relay import ExecRelay
from hostagent.gateway.host_ca import HostCa
from hostagent.gateway.http import exec_routes, output_routes, routes, usage_routes
from hostagent.gateway.log_pump import PumpedLog
from hostagent.gateway.secrets.folder import SecretFolder
from hostagent.gateway.secrets.routes import agent_routes, store_routes
from hostagent.gateway.secrets.store import SecretStore
from hostagent.server import Server
from hostagent.tls import ServerContext
from paceline.client.proof import Proving

SWITCH_INTERVAL_S = 0.0005
"""Threads give way this often: agents get their answers while much is folded."""
IDLE_S = 0.5
"""Longest sleep of the thread that steps: so late it may notice that it shall stop."""
GRACE_S = 1
"""So long requests that are being answered may go on at the end."""
END_S = 7.0
"""So long a step may take at the end, for one that waits for the log; what it was about is not acknowledged."""
LOOK_S = 1.0
"""So often it is looked whether the thread that steps gets on."""
BEHIND_MAX = 10_000
"""Records that it may be behind the log and still count as ready."""
HealthRoutes = Callable[[Callable[[], Health]], list[Route]]
"""Makes the health endpoints of a process from what tells its health."""


class GatewayHangs(Exception):
    """A step doesn't come to its end; the message says where."""


def run_gateway(
    log: Log,
    folder: Path,
    name: str,
    token: str,
    listening: socket.socket,
    on_ready: Callable[[], None],
    stop: threading.Event,
    sim_hosts: int = 0,
    secrets: Path | None = None,
    trouble: Callable[[], str] = lambda: "",
    health_routes: HealthRoutes = lambda health: [],
    tls: ServerContext | None = None,
    ca: HostCa | None = None,
    keys: SigningKeys | None = None,
) -> None:
    """Serves until `stop` is set, then ends within 10 s. `name`: of this gateway in its cell, the same over restarts;
    `folder`: where it keeps its fold, for this gateway alone; `on_ready` is called once agents are served;
    `sim_hosts`: so many hosts `sim-NAME-1` and so on live in this process; `secrets`: the folder of their store, None:
    `secrets` in `folder`; `trouble`: what is wrong with the log now,
    empty: nothing; `health_routes` makes the health endpoints of its health;
    `tls`: see `Server`; `ca`: the cell's own CA, whose certificates `tls` takes; `keys` sign tokens of runs.

    Raises `LogGap`, `LogFault`, `OSError`, `GatewayHangs`. While the log is away it goes on.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    folder.mkdir(parents=True, exist_ok=True)
    with listening, _hold(folder):
        turning = GatewayThread(log, folder, name, sim_hosts, on_ready, stop)
        app = _app(
            turning.gateway, token, SecretFolder(secrets or folder / "secrets"), trouble, health_routes, ca, keys
        )
        server = Server(app, GRACE_S, tls=tls)
        serving = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="http", daemon=True)
        stepping = threading.Thread(target=turning.run, name="gateway", daemon=True)
        serving.start()
        stepping.start()
        still = HangDetector()
        while not stop.wait(LOOK_S):
            if still.hangs(turning.steps, LOOK_S, HANG_S):
                faulthandler.dump_traceback(2)  # stderr
                host_of = place(stepping)
                turning.fault = GatewayHangs(f"The gateway hangs at {host_of}: it ends, its agents go to another.")
                break
        stop.set()
        stepping.join(END_S)
        server.should_exit = True
        serving.join(2 * GRACE_S)
    if turning.fault is not None:
        raise turning.fault


@dataclass
class GatewayThread:
    """The thread that steps the gateway and the simulated hosts in turn, and sleeps in between."""

    log: Log
    folder: Path
    name: str
    sim_hosts: int
    on_serving: Callable[[], None]
    stop: threading.Event
    fault: Exception | None = None
    steps: int = 0
    news: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        clock = SystemClock()
        self.gateway = Gateway(PumpedLog(self.log, self.news.set), self.folder / "gateway.msgpack", clock, self.name)
        self.gateway.on_post = self.news.set
        self._steppers: list[Gateway | Fleet] = [self.gateway]
        if self.sim_hosts:
            hosts = [SimHost(self.sim_hosts, SIM_CAPACITY, pattern=f"sim-{self.name}-#")]
            self._steppers.append(Fleet(self.gateway, hosts, clock, int(time.time() * 1000)))

    def run(self) -> None:
        """Steps until stopped; a fault stops too."""
        try:
            served = False
            while not self.stop.is_set():
                self.news.clear()
                self.steps += 1
                busy = False
                for each in self._steppers:
                    busy = each.step() or busy
                if self.gateway.serving and not served:
                    served = True
                    self.on_serving()
                if not busy:
                    waits = [wait / 1000 for each in self._steppers if (wait := each.wait_ms()) is not None]
                    self.news.wait(min([IDLE_S, *waits]))
            self.gateway.close()
        except Exception as fault:  # whatever it is: the process must end and say it
            self.fault = fault
        finally:
            self.stop.set()


def _hold(folder: Path) -> IO[str]:
    try:
        return hold(folder / "gateway.lock")
    except BlockingIOError as error:
        raise LogFault(f"{folder} is in use by another gateway: give each a folder of its own") from error


def _app(
    gateway: Gateway,
    token: str,
    secrets: SecretStore,
    trouble: Callable[[], str],
    health_routes: HealthRoutes,
    ca: HostCa | None,
    keys: SigningKeys | None,
) -> FastAPI:
    app = FastAPI(title="Paceline gateway", docs_url=None, redoc_url=None, openapi_url=None)
    agents = Agents(gateway, token, ca)
    app.include_router(routes(agents))
    app.include_router(join_routes(agents))
    app.include_router(output_routes(gateway, token))
    app.include_router(usage_routes(gateway, token))
    app.include_router(exec_routes(ExecRelay(gateway), token, agents))
    app.include_router(agent_routes(agents, secrets, keys))
    app.include_router(store_routes(gateway, secrets, token))
    app.add_middleware(Proving, token=token)

    def health() -> Health:
        gateway_names = {"gateway": gateway.name, "cell": gateway.cell}
        try:
            notice, lag = trouble(), gateway.lag(now=True)
        except LogUnavailable as unavailable:
            notice, lag = str(unavailable), 0
        if notice:
            return Health(gateway.serving, False, {**gateway_names, "trouble": notice})
        return Health(gateway.serving, gateway.serving and lag <= BEHIND_MAX, {**gateway_names, "lag": lag})

    app.router.routes += health_routes(health)
    return app
