"""`paceline agent`: the agent of this machine, with pages by which a supervisor looks at it."""

import asyncio
import signal
import socket
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from prometheus_client import Gauge

from events.process.health import Health
from hostagent.agent import Agent
from hostagent.agent_settings import AgentSettings
from hostagent.agent_state import AgentFault
from hostagent.listen_address import address_of, bound
from hostagent.server import Server
from paceline.client import cell_file
from paceline.client.errors import Unreachable
from paceline.client.tls import TlsFault, client_context, pinned_context
from paceline.services.data_folder import CannotStart, agent_folder, fit
from paceline.services.health_pages import pages
from paceline.services.host_settings import host_settings
from paceline.services.own_certificate import own_certificate
from paceline.services.process_logs import configure, logger
from paceline.services.process_setup import end_at_once
from paceline.services.processes import default_listen
from paceline.services.settings import Settings

GRACE_S = 1
RUNS = Gauge("paceline_agent_runs", "Runs of this host that have not ended.", ("host",))
CONNECTED = Gauge("paceline_agent_connected", "1 while the agent has a session with a gateway.", ("host",))


def run(settings: Settings) -> int:
    """Runs until SIGTERM or SIGINT; runs of tasks go on. Raises `CannotStart`, `Unreachable`."""
    end_at_once()
    configure(settings.logs.form, settings.logs.level, process="agent")
    resolved = agent_settings(settings)
    say = logger(host=resolved.host_id).info
    try:
        remaining_runs = follow(resolved, settings.service.listen, say)
    except* (AgentFault, OSError) as faults:
        raise CannotStart(str(_first(faults))) from faults
    say(f"stopped; {remaining_runs} runs go on")
    return 0


def follow(resolved: AgentSettings, listen: str, say: Any) -> int:
    """Runs an agent and its pages in the foreground; returns how many runs go on. `listen` empty: at the port of
    agents, or where another agent of the machine has that, at any. Raises `AgentFault`, `OSError`, or a group of it.
    """
    agent: Agent | None = None

    def on_message(text: str) -> None:
        cell = None if agent is None else agent.state.cell
        say(text, **({} if cell is None else {"cell": cell}))

    if listen:
        listening = bound(listen)
    else:
        try:
            listening = bound(default_listen("agent"))
        except OSError:
            listening = bound("127.0.0.1:0")
    agent = Agent(resolved, on_message)
    agent.take()
    say(f"listens at http://{address_of(listening)}")
    asyncio.run(_serve(agent, listening))
    return len(agent.runs.alive())


def agent_settings(settings: Settings) -> AgentSettings:
    """The settings of the agent, from all settings. Raises `CannotStart`, `Unreachable`."""
    part = settings.agent
    cell = None if settings.server else cell_file.await_started(settings.data)
    server = settings.server or (cell.listen if cell else "")
    addresses = settings.service.gateways or ((server,) if server else ())
    folder = agent_folder(settings.data, part.folder)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise CannotStart(f"{folder}: {error.strerror}. Choose another folder with --folder.") from error
    urls = tuple(each if "://" in each else f"http://{each}" for each in addresses)
    trusts = partial(pinned_context, cell.tls_cert) if cell and cell.tls_cert else partial(client_context, settings.ca)
    try:
        own = own_certificate(settings, urls, folder, trusts, logger().info)
    except (AgentFault, OSError) as fault:
        raise CannotStart(str(fault)) from fault
    if own is not None:
        resolved = host_settings(part.model_copy(update={"host_id": own.host_id}), urls, "", folder, own.tls)
        return replace(resolved, certificate=own.certificate)
    token = settings.token.get_secret_value() if settings.token else cell_file.token(settings.data)
    if not addresses or not token:
        raise Unreachable(f"No cell runs on {settings.data}. Name one with --server and --token-file.")
    fit(token, "the token of the cell")
    if not any(url.startswith("https:") for url in urls):
        return host_settings(part, urls, token, folder)
    try:
        return host_settings(part, urls, token, folder, trusts())
    except TlsFault as fault:
        raise CannotStart(str(fault)) from fault


async def _serve(agent: Agent, listening: socket.socket) -> None:
    host_id = agent.settings.host_id
    RUNS.labels(host_id).set_function(lambda: len(agent.runs.alive()))
    CONNECTED.labels(host_id).set_function(lambda: agent.connected)
    server = Server(pages(lambda: Health(True, agent.connected, {"host": host_id, "cell": agent.state.cell})), GRACE_S)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    following = asyncio.create_task(agent.run())
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, following.cancel)
    try:
        with suppress(asyncio.CancelledError):
            await following
    finally:
        server.should_exit = True
        await serving


def _first(fault: BaseException) -> BaseException:
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    return fault
