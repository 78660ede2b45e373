"""`paceline up`: a whole cell in one process, on the embedded log or on Kafka.

One thread steps the four machines, the projector, the gateway and the simulated hosts; another serves HTTP; the agent
of this machine has a third.
"""

import faulthandler
import functools
import json
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

from events.log.ahead import AheadLog
from events.log.port import Log, LogError
from events.process.clock import SystemClock
from hostagent.agent_state import AgentFault
from hostagent.fleet import SIM_CAPACITY, Fleet, OnOrder, SimHost
from hostagent.gateway.component import Gateway
from hostagent.gateway.host_ca import HostCa
from hostagent.listen_address import address_of
from hostagent.server import Server
from paceline.client.cell_models import Machine, ServedCell
from paceline.moments.copier import Copier
from paceline.output import note
from paceline.services.data_folder import CannotStart, agent_folder, keep_cell, lock, name_hashes, prepare
from paceline.services.forecaster import ForecastThread
from paceline.services.host_settings import host_settings
from paceline.services.issuer import sign_in_of
from paceline.services.operations import OperationsOf
from paceline.services.ownership import KafkaOwnership, LocalAgent, WhileOwned
from paceline.services.past import CellFolder, moments_of, placements_of, plans_of, replays_of, what_ifs_of
from paceline.services.process_setup import on_end, tune
from paceline.services.processes import up_group
from paceline.services.server_tls import own_context, reach_facts, server_context, url
from paceline.services.startup import instance_of, listening, retry_until_reachable, signing_keys
from paceline.services.waiting_pages import WaitingPages
from processors.cell_machines import machines
from processors.runtime.fold import HistoryDiffers
from processors.runtime.in_process import IDLE_MS, Component, Host, Ownership, Processor
from processors.runtime.store import RocksStore, StoreFault
from projections.queries import view_metrics
from projections.views.projector import PACE_MS, Projector
from projections.views.transaction import ViewsFault

if TYPE_CHECKING:
    from paceline.services.settings import UpSettings

SWITCH_INTERVAL_S = 0.0002
"""The thread that steps the machines gives way this often: the HTTP thread answers within a few milliseconds."""
LONGEST_MS = 1000
"""Longest sleep of the thread that steps the machines where whoever has work for it wakes it."""
GRACE_S = 3
"""So long requests that are being answered may go on at the end."""


def run_up(settings: "UpSettings") -> int:
    """Runs a cell until SIGINT or SIGTERM; returns the exit code. A library that crashes in C says where."""
    faulthandler.enable(2)  # stderr
    try:
        return Up(settings).run()
    except (AgentFault, CannotStart, LogError, StoreFault, HistoryDiffers, ViewsFault) as error:
        note(f"paceline: {error}")
        return 1
    except OSError as error:
        note(f"paceline: {error.filename or settings.data}: {error.strerror}. Choose another folder with --data.")
        return 1


class Up:
    """The parts of a cell in one process."""

    def __init__(self, settings: "UpSettings", on_order: OnOrder | None = None) -> None:
        tune(SWITCH_INTERVAL_S)
        self._settings = settings
        self._on_order = on_order
        self._data = settings.data
        self._stop = threading.Event()
        self._token = prepare(self._data)
        self._lock = lock(self._data)
        self._host_ca = HostCa(settings.data)
        self._tls = server_context(settings.tls, note, self._host_ca)
        self._sign_in = sign_in_of(settings.oidc, self._token, note)
        self._socket = listening(settings.listen)
        keep_cell(self._data, settings.cell)
        self._address = address_of(self._socket)  # said on pages that are being loaded when the socket is closed, too
        self._other_logs: list[Log] = []
        self._wake: Callable[[], None] | None = None
        """Wakes the thread that steps the components, where that can be woken."""
        self._ahead: AheadLog | None = None
        """The log for machines and facts, where they needn't wait for the disk."""
        self.log = self._open_log()
        self._ownership: Ownership | None = None
        components: list[Component] = []
        claimant = f"{socket.gethostname()}-{os.getpid()}"
        if settings.kafka:
            components += [self._join(settings.kafka), self._transactions()]
        self._processors = [self._processor(make, name, claimant) for name, make in machines(settings.cell).items()]
        self._copier = Copier(self._data, settings.views.copy_every, note)
        self.projector = Projector(self.log, self._data, self._copier.folded, PACE_MS)
        view_metrics.WATCHED.add(self.projector.views, self.log, settings.alarm_unread_ms)
        self._agent: LocalAgent | None = None
        self._components = [*components, *self._processors, self._for_hosts()]
        self._forecasts = ForecastThread(self.log, self._data, settings.forecast.cpu_percent, self._decides, note)

    def run(self) -> int:
        """Serves until stopped."""
        on_end(self.stop)
        server = self._serve()
        try:
            self._write_cell_file()
            note(f"cell {self.log.cell} is up at {self._url()}, data in {self._data}; stop with Ctrl-C")
            note(f"web UI: {self._url()}/ui/")
            longest_ms = LONGEST_MS if self._wake else IDLE_MS
            self._forecasts.start()
            # what real hosts say shall not wait for all machines; simulated ones are stepped by the same thread
            impatient = None if self._settings.sim_hosts else self._components[-1]
            Host(self.log, self._components, self.projector, longest_ms, impatient, self.settle).run(self._stop)
        finally:
            server.should_exit = True
            self._server_thread.join(timeout=5)
            with ExitStack() as closing:
                closing.callback(self._lock.close)
                closing.callback(self._moments.close)
                closing.callback(self._replays.close)
                closing.callback(self._plans.close)
                closing.callback(self._placements.close)
                closing.callback(self._what_ifs.close)
                closing.callback(self._copier.close)
                closing.callback(self._forecasts.close)
                closing.callback((self._data / "cell.json").unlink, missing_ok=True)
                for log in (self.log, *self._other_logs):
                    closing.callback(log.close)
        if self._agent is not None and self._agent.remaining_runs:
            note(
                f"stopped; {self._agent.remaining_runs} runs go on on this host, `paceline down --stop-runs` ends them"
            )
        else:
            note("stopped")
        return 0

    def _decides(self) -> bool:
        """Whether this process owns the cell."""
        return all(each.decides for each in self._processors)

    def stop(self) -> None:
        """Ends `run`; from any thread."""
        self._stop.set()
        if self._wake is not None:
            self._wake()

    def settle(self, idle: bool) -> bool:
        """Makes durable what components have appended, in their thread; see `AheadLog.settle`."""
        return self._ahead is not None and self._ahead.settle(idle)

    def _open_log(self) -> Log:
        """The log of the cell; on Kafka those of the other cells too, which are told of pools."""
        cell = self._settings.cell
        if not self._settings.kafka:
            from events.log.embedded import EmbeddedLog

            log = EmbeddedLog(self._data / "log", cell, on_trouble=note)
            self._wake, self._ahead = log.wake, AheadLog(log)
            return log
        from events.log.kafka.kafka_log import KafkaLog
        from events.log.kafka.topics import cells, check

        options = self._settings.kafka_options
        kafka = self._settings.kafka
        with WaitingPages(self._socket.dup, note, self._tls) as pages:
            differences, count = retry_until_reachable(
                lambda: (check(kafka, cell + 1, options), cells(kafka, options)), pages.wait_for
            )
        if differences:
            raise CannotStart("the topics on Kafka are not as they must be:\n  " + "\n  ".join(differences))
        if self._settings.schema_registry_url:
            from events.log.kafka import schema_registry as registry

            registry.use(self._settings.schema_registry_url, note)
        logs = [KafkaLog(kafka, each, options, note, shared=each == cell) for each in range(count)]
        self._other_logs = [log for log in logs if log.cell != cell]
        return logs[cell]

    def _join(self, bootstrap: str) -> KafkaOwnership:
        from events.log.kafka.groups import Group, groups
        from events.log.kafka.membership import Membership

        cell, options, instance = self._settings.cell, self._settings.kafka_options, instance_of(self._data)
        name = up_group(cell)

        def other() -> str:
            group = groups(bootstrap, name.__eq__, options).get(name, Group())
            return "" if instance in group.members else group.of(cell) or min(group.members, default="")

        self._ownership = KafkaOwnership(lambda: Membership(bootstrap, name, instance, extra=options), other, cell)
        return self._ownership

    def _transactions(self) -> Component:
        from events.log.kafka.kafka_log import KafkaLog
        from events.log.kafka.transactions import Transactions
        from events.topics import VIEWED

        assert isinstance(self.log, KafkaLog)
        return Transactions(self.log, [topic.name for topic in VIEWED])

    def _processor(self, make: Callable[[], Any], name: str, claimant: str) -> Processor:
        folder = self._data / "store" / name
        log, before = self._ahead or self.log, self._ahead.sync if self._ahead is not None else lambda: None
        return Processor(make, log, lambda: RocksStore(folder, before), claimant, self._ownership, note)

    def _for_hosts(self) -> WhileOwned:
        clock = SystemClock()
        path = self._data / "gateway.msgpack"
        self._gateway = Gateway(self.log, path, clock, instance_of(self._data), ahead=self._ahead)
        self._gateway.on_post = self._wake
        other_components: list[Component] = []
        if self._settings.sim_hosts:
            hosts = [SimHost(self._settings.sim_hosts, SIM_CAPACITY)]
            other_components.append(Fleet(self._gateway, hosts, clock, int(time.time() * 1000), self._on_order))
        if self._settings.agent:
            self._agent = LocalAgent(
                host_settings(
                    self._settings.host,
                    (self._url(),),
                    self._token,
                    agent_folder(self._data, self._settings.host.folder),
                    own_context(self._settings.tls),
                )
            )
            other_components.append(self._agent)
        return WhileOwned(self._gateway, other_components, self._decides)

    def _serve(self) -> Server:
        server = Server(self._app(), GRACE_S, tls=self._tls)
        self._server_thread = threading.Thread(
            target=server.run, kwargs={"sockets": [self._socket]}, name="http", daemon=True
        )
        self._server_thread.start()
        return server

    def _app(self) -> FastAPI:
        from fastapi import APIRouter

        from hostagent.gateway.agents import Agents, join_routes
        from hostagent.gateway.exec_relay import ExecRelay
        from hostagent.gateway.http import exec_routes, read_output, routes
        from hostagent.gateway.local_execs import LocalExecs
        from hostagent.gateway.secrets.folder import SecretFolder
        from hostagent.gateway.secrets.local import LocalSecrets
        from hostagent.gateway.secrets.routes import agent_routes
        from hostagent.gateway.usage_requests import in_time
        from projections.access.client_certificates import CertificateProver
        from projections.api.app import create_app
        from projections.ui.app import add_ui

        self._replays = replays_of(self._settings, self.log.cell)
        self._placements = placements_of(self._settings, self.log.cell)
        self._what_ifs = what_ifs_of(self._settings, self.log.cell)
        self._plans = plans_of(self._settings, self.log.cell, self._data)
        self._moments = moments_of(self._settings, {self.log.cell: CellFolder(self.log, self._data)})
        relay = ExecRelay(self._gateway)
        gateway = APIRouter()
        agents = Agents(self._gateway, self._token, self._host_ca if self._tls else None)
        gateway.include_router(routes(agents))
        gateway.include_router(join_routes(agents))
        gateway.include_router(exec_routes(relay, self._token, agents))
        secrets = SecretFolder(self._data / "secrets")
        keys = signing_keys(self._data, self._settings.signing_keys)
        gateway.include_router(agent_routes(agents, secrets, keys))
        app = create_app(
            self.projector.views,
            self.log,
            token=self._token,
            listen=self._settings.listen,
            gateway=gateway,
            cell_info=self._cell_info,
            task_log=functools.partial(read_output, self._gateway),
            host_usage=lambda host_id, job_id: in_time(self._gateway.usage_of(host_id, job_id), host_id),
            others=self._other_logs,
            moments=self._moments,
            operations=OperationsOf(self.log, self.projector.views, self._settings, self._data, stores=True),
            replays=self._replays,
            plans=self._plans,
            placements=self._placements,
            what_ifs=self._what_ifs,
            carries=LocalExecs(relay),
            secrets=LocalSecrets(secrets, self._gateway.post),
            names=name_hashes(self._data),
            signing_keys=keys,
            alarm_unread_ms=self._settings.alarm_unread_ms,
        )
        add_ui(app, {self.log.cell: app.state.context}, self._token, self._sign_in)
        if self._settings.tls.client_ca is not None:
            app.state.guards.authentication.provers.append(CertificateProver(self._host_ca.pem))
        return app

    def listen(self) -> str:
        """The address that HTTP is served on."""
        return self._address

    def _url(self) -> str:
        return url(self._tls, self.listen())

    def _cell_info(self) -> ServedCell:
        status: dict[str, Machine] = {}
        for processor in self._processors:
            driver = processor.driver
            status[processor.name] = {
                "epoch": driver.epoch if driver else 0,
                "round": driver.fold.own.round if driver else 0,
                "hash": driver.fold.state.hash.hex() if driver else "",
                "lag": driver.lag() if driver and driver.epoch else {},
            }
        log = f"kafka {self._settings.kafka}" if self._settings.kafka else "embedded"
        return {"listen": self.listen(), "log": log, "machines": status}

    def _write_cell_file(self) -> None:
        reach = reach_facts(self._tls, self._settings.tls, self.listen())
        facts = {"pid": os.getpid(), "kafka": self._settings.kafka, **reach}
        target = self._data / "cell.json"
        target.with_suffix(".tmp").write_text(json.dumps(facts))
        target.with_suffix(".tmp").replace(target)
