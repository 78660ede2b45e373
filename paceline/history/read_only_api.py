"""A stretch of history over HTTP: the views as they were at its end. Commands are refused."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import FastAPI
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from events.topics import VIEWED
from hostagent.server import Server
from paceline.client.cell_file import FILE
from paceline.client.cell_models import Machine, ServedCell
from paceline.history.importer import HistoryInfo, info, open_history
from paceline.history.views_at import views_at
from paceline.moments.log_cut import write_time
from paceline.output import note
from paceline.services.data_folder import name_hashes, prepare
from paceline.services.operations import OperationsOf
from paceline.services.past import CellFolder, moments_of
from paceline.services.process_setup import on_end
from paceline.services.server_tls import reach_facts, server_context, url
from paceline.services.settings import UpSettings
from paceline.services.startup import listening, process_labels
from projections.api.app import create_app
from projections.api.guards import READS
from projections.api.problems import Problem
from projections.queries.log_time import newest_ms
from projections.ui.app import add_ui
from projections.views.reader import Views, chains_of

GRACE_S = 3
"""So long requests that are being answered may go on at the end."""


class ReadOnly:
    """Answers what would change something, and tells of which time the other answers are: the end of the history, where
    nobody asked for another moment.
    """

    def __init__(self, app: ASGIApp, what: str, end: str) -> None:
        self._app = app
        self._what = what
        self._end = end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Implements the ASGI application."""
        if scope["type"] == "http" and scope["method"] not in READS:
            text = f"this is {self._what}: it can be looked at, and takes no commands"
            problem = Problem(405, "READ_ONLY", text, headers={"Allow": ", ".join(sorted(READS))})
            await problem.response()(scope, receive, send)
            return

        async def with_time(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).setdefault("At", "the end of this history")
                MutableHeaders(scope=message).setdefault("As-Of", self._end)
            await send(message)

        await self._app(scope, receive, with_time)


def serve(settings: UpSettings) -> None:
    """Serves the stretch in a data folder until it is told to end."""
    data, listen = settings.data, settings.listen
    tls = server_context(settings.tls, note)
    socket_ = listening(listen)
    stretch = info(data)
    address = process_labels(socket_, listen)
    with history_app(settings, address) as app:
        file = data / FILE
        file.write_text(json.dumps({"pid": os.getpid(), **reach_facts(tls, settings.tls, address)}))
        server = Server(app, GRACE_S, tls=tls)
        on_end(lambda: setattr(server, "should_exit", True))
        try:
            reached = url(tls, address)
            note(f"cell {stretch.cell} as it was is at {reached}, {_what(stretch)}, read-only; stop with Ctrl-C")
            note(f"web UI: {reached}/ui/")
            server.run([socket_])
        finally:
            file.unlink(missing_ok=True)


@contextmanager
def history_app(settings: UpSettings, address: str) -> Iterator[FastAPI]:
    """The app over the stretch in a data folder. Its present is the end of the stretch."""
    data = settings.data
    stretch, log = info(data), open_history(data)
    views = views_at(log, log.ends(topic.name for topic in VIEWED), data, data)
    body: ServedCell = {"listen": address, "log": _what(stretch), "machines": _standings(views)}
    with views.read() as connection:
        end_ms = min(newest_ms(connection) or stretch.to_ms, stretch.to_ms)
    moments = moments_of(settings, {stretch.cell: CellFolder(log, data, stretch.from_ms)})
    app = create_app(
        views,
        log,
        token=prepare(data),
        listen=address,
        cell_info=lambda: body,
        moments=moments,
        operations=OperationsOf(log, views, settings, data, stores=False, readers=False, end_ms=end_ms),
        names=name_hashes(data),
        has_ended=True,
    )
    add_ui(app, {stretch.cell: app.state.context}, None)
    app.add_middleware(ReadOnly, what=_what(stretch), end=write_time(end_ms))
    try:
        yield app
    finally:
        moments.close()
        log.close()


def _what(stretch: HistoryInfo) -> str:
    return f"history from {write_time(stretch.from_ms)} to {write_time(stretch.to_ms)}"


def _standings(views: Views) -> dict[str, Machine]:
    with views.read() as connection:
        rows = chains_of(connection)
    return {machine: {"epoch": epoch, "round": round_, "hash": "", "lag": {}} for machine, epoch, round_ in rows}
