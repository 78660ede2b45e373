"""Servers over a small real history, which show it as it was."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from events.log.embedded import EmbeddedLog
from events.log.port import Log
from paceline.moments.log_cut import CutLog
from paceline.moments.source import CellMoments
from paceline.services.past import CellFolder, moments_of
from paceline.services.settings import for_up, load
from projections.api.app import create_app
from projections.views.projector import Projector, rebuild
from projections.views.reader import Views
from tests.helpers.past import past, written

TOKEN, LISTEN = "secret", "127.0.0.1:7400"


class Server(NamedTuple):
    """A server of a log in a folder."""

    log: Log
    folder: Path
    app: FastAPI
    client: TestClient
    moments: CellMoments

    def get(self, path: str, **query: Any) -> httpx2.Response:
        """What is answered, once its views are made."""
        while True:
            answer = self.client.get(path, params=query)
            if answer.status_code != 503 or answer.json()["code"] != "MOMENT_IN_THE_MAKING":
                return answer

    def problem(self, at: str) -> tuple[int, str, str]:
        """The problem of a moment."""
        answer = self.client.get("/v1/jobs", params={"at": at})
        return answer.status_code, answer.json()["code"], answer.json()["detail"]


def app_of(views: Views, log: Log, moments: CellMoments | None = None) -> FastAPI:
    return create_app(views, log, token=TOKEN, listen=LISTEN, cell_info=lambda: {"cell": log.cell}, moments=moments)


def client_of(app: FastAPI) -> TestClient:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return TestClient(app, f"http://{LISTEN}", headers=headers, raise_server_exceptions=False)


def then(log: Log, ends: Mapping[str, int], folder: Path) -> TestClient:
    """A server of the present that a log ended at."""
    cut = CutLog(log, ends)
    folder.mkdir()
    return client_of(app_of(Views(rebuild(cut, folder)), cut))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("cell")
    written(past(), folder)
    with ExitStack() as stack:
        log = EmbeddedLog.open_secondary(folder / "log")
        stack.callback(log.close)
        projector = Projector(log, folder)
        stack.callback(projector.close)
        projector.fold_whole()
        moments = moments_of(for_up(load(None, data=folder)), {0: CellFolder(log, folder)})
        stack.callback(moments.close)
        app = app_of(projector.views, log, moments)
        yield Server(log, folder, app, client_of(app), moments)
