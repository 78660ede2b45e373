"""`paceline api`: the HTTP API over the views that a projector keeps in the same data folder."""

import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sqlalchemy import select

from events.log.kafka.kafka_log import KafkaLog
from events.log.kafka.topics import cells as count_cells
from events.process.health import Health
from hostagent.gateway.remote_execs import RemoteExecs
from hostagent.gateway.remote_hosts import RemoteHosts
from hostagent.gateway.secrets.remote import RemoteSecrets
from paceline.client.cell_models import Machine, ServedCell
from paceline.client.tls import client_context
from paceline.moments.planner import CellPlans
from paceline.moments.replays import CellReplays
from paceline.moments.source import CellMoments
from paceline.moments.what_ifs import CellWhatIfs
from paceline.services.data_folder import name_hashes
from paceline.services.health_pages import waiting
from paceline.services.http_serving import LateApp, serve_http
from paceline.services.issuer import sign_in_of
from paceline.services.operations import OperationsOf
from paceline.services.past import CellFolder, moments_of, placements_of, plans_of, replays_of, what_ifs_of
from paceline.services.settings import Settings
from paceline.services.startup import Start, folder_of, signing_keys
from projections.access.client_certificates import CertificateProver
from projections.api.app import create_app
from projections.api.cell_router import create_cells_app
from projections.ui.app import add_ui
from projections.views import tables
from projections.views.reader import AttachedViews, Views, ViewsAway

LOOK_S = 0.2


class Api:
    """The apps of all cells; those whose views aren't there yet are waited for."""

    def __init__(self, settings: Settings, start: Start) -> None:
        self._settings = settings
        self._start = start
        gateways = settings.service.gateways
        self._tls = client_context(settings.ca) if any(each.startswith("https:") for each in gateways) else None
        """The context by which gateways are verified; None: all are plain."""
        self._sign_in = sign_in_of(settings.oidc, start.token, lambda text: start.say(None, text))
        self._apps: dict[int, Any] = {}
        self._logs: list[KafkaLog] = []
        self._replays: list[CellReplays] = []
        self._plans: list[CellPlans] = []
        self._what_ifs: list[CellWhatIfs] = []
        self._moments: CellMoments | None = None
        self._cells = range(count_cells(settings.kafka, settings.kafka_options))
        self.app = LateApp(waiting(self._health, self._why))

    def come_up(self, stop: threading.Event) -> None:
        """Waits for the views of all cells, then serves them until `stop` is set."""
        for cell in self._cells:
            path = folder_of(self._settings, cell) / "views.sqlite"
            announced = False
            while (views := _attached(path)) is None:
                if not announced:
                    self._start.say(cell, f"waits for the views in {path}: does `paceline projector` run here?")
                announced = True
                if stop.wait(LOOK_S):
                    return
            self._apps[cell] = self._app(cell, views)
        folders = {log.cell: CellFolder(log, folder_of(self._settings, log.cell)) for log in self._logs}
        self._moments = moments_of(self._settings, folders)
        app = create_cells_app(self._apps, self._moments)
        contexts = {cell: each.state.context for cell, each in self._apps.items()}
        add_ui(app, contexts, self._start.token, self._sign_in)
        if self._settings.tls.client_ca is not None:
            app.state.guards.authentication.provers.append(CertificateProver())
        self.app.app = app
        self._start.say(None, f"serves cells {', '.join(map(str, self._cells))}")
        stop.wait()

    def close(self) -> None:
        """Gives back the logs."""
        with ExitStack() as closing:
            if self._moments is not None:
                closing.callback(self._moments.close)
            for replays in self._replays:
                closing.callback(replays.close)
            for plans in self._plans:
                closing.callback(plans.close)
            for what_ifs in self._what_ifs:
                closing.callback(what_ifs.close)
            for log in self._logs:
                closing.callback(log.close)

    def _app(self, cell: int, views: Views) -> Any:
        settings, start, gateways = self._settings, self._start, self._settings.service.gateways
        log = KafkaLog(settings.kafka, cell, settings.kafka_options, on_trouble=lambda text: start.say(cell, text))
        self._logs.append(log)
        hosts = RemoteHosts(gateways, start.token, cell, self._tls)
        return create_app(
            views,
            log,
            token=start.token,
            listen=start.address,
            cell_info=lambda: self._info(views),
            task_log=hosts.output,
            host_usage=hosts.usage,
            operations=OperationsOf(log, views, settings, folder_of(settings, cell), stores=False),
            replays=self._replay(cell),
            plans=self._plan(cell),
            placements=placements_of(settings, cell),
            what_ifs=self._what_if(cell),
            carries=RemoteExecs(gateways, start.token, self._tls),
            secrets=RemoteSecrets(gateways, start.token, cell, self._tls),
            names=name_hashes(settings.data),
            signing_keys=signing_keys(settings.data, settings.service.signing_keys),
            alarm_unread_ms=settings.alarm_unread_ms,
        )

    def _replay(self, cell: int) -> CellReplays:
        self._replays.append(replays_of(self._settings, cell))
        return self._replays[-1]

    def _plan(self, cell: int) -> CellPlans:
        self._plans.append(plans_of(self._settings, cell, folder_of(self._settings, cell)))
        return self._plans[-1]

    def _what_if(self, cell: int) -> CellWhatIfs:
        self._what_ifs.append(what_ifs_of(self._settings, cell))
        return self._what_ifs[-1]

    def _health(self) -> Health:
        return Health(False, False, {"waits_for_views_of": self._waits()})  # once all are there, another app answers

    def _why(self) -> str:
        if not (waits := self._waits()):
            return "the API is about to serve: try again in a second"
        return f"the views of cells {', '.join(map(str, waits))} aren't there yet: is `paceline projector` up?"

    def _waits(self) -> list[int]:
        return [cell for cell in self._cells if cell not in self._apps]

    def _info(self, views: Views) -> ServedCell:
        with views.read() as connection:
            chains = connection.execute(select(tables.chains.c.machine, tables.chains.c.epoch, tables.chains.c.round))
            status: dict[str, Machine] = {
                machine: {"epoch": epoch, "round": round_} for machine, epoch, round_ in chains
            }
        return {
            "listen": self._start.address,
            "log": f"kafka {self._settings.kafka}",
            "machines": status,
        }


def _attached(path: Path) -> Views | None:
    try:
        return AttachedViews(path)
    except ViewsAway:
        return None


def serve(settings: Settings, start: Start) -> None:
    """Runs until SIGTERM or SIGINT."""
    api, stop = Api(settings, start), threading.Event()
    try:
        serve_http(api.app, start.listening, stop, lambda: api.come_up(stop), start.tls)
    finally:
        api.close()
