"""Pages read without a browser, over views that a log of a test or of a simulation makes."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from events.log.port import Log
from projections.api.app import create_app
from projections.ui.app import add_ui
from projections.views.projector import Projector
from tests.helpers.play import play
from tests.projections.conftest import LISTEN, TOKEN


class Rows(HTMLParser):
    """The rows of all tables of a page: the id of each, and the text of its cells."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[tuple[str, list[str]]] = []
        self._cell = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append((dict(attrs).get("id") or "", []))
        elif tag in ("td", "th") and self.rows:
            self.rows[-1][1].append("")
            self._cell = True

    def handle_endtag(self, tag: str) -> None:
        self._cell = self._cell and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self._cell:
            self.rows[-1][1][-1] += data

    def of(self, prefix: str) -> dict[str, list[str]]:
        """The rows whose id begins so, by the rest of it."""
        return {name.removeprefix(prefix): cells for name, cells in self.rows if name.startswith(prefix)}


class Site:
    """The pages and the API over the views of a log."""

    def __init__(self, log: Log, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        projector = Projector(log, folder)
        while projector.step():
            pass
        app = create_app(
            projector.views,
            log,
            token=TOKEN,
            listen=LISTEN,
            cell_info=lambda: {"cell": 0},
            task_log=None,
            streams_max=2,
        )
        add_ui(app, {0: app.state.context}, TOKEN)
        self.projector = projector
        self.client = TestClient(app, f"http://{LISTEN}")

    def page(self, path: str, status: int = 200, **query: Any) -> str:
        """The HTML of a page."""
        answer = self.client.get(f"/ui{path}", params=query)
        assert answer.status_code == status, answer.text
        return answer.text

    def api(self, path: str) -> Any:
        """What the API says."""
        answer = self.client.get(path, headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 200, answer.text
        return answer.json()


BUSY = """
name: busy
seed: {seed}
end: 3m
hosts:
  - {{name: a, count: 6, resources: {{cpu: 16, memory: 64GiB}}, attributes: {{rack: r1}}}}
  - {{name: g, count: 2, resources: {{cpu: 32, memory: 256GiB, gpu: 4}}, attributes: {{rack: r2}}}}
pools:
  - {{path: /maps, reservation: {{cpu: 40}}}}
  - {{path: /maps/tiles, limit: {{cpu: 30}}, reservation: {{cpu: 10, memory: 100MiB}}, share: 3}}
  - {{path: /maps/routes, share: 2}}
  - {{path: /search, reservation: {{cpu: 60}}}}
  - {{path: /search/index, reservation: {{cpu: 50}}, preemption_delay: 5s}}
  - {{path: /batch}}
jobs:
  - {{job_id: logs, pool: /batch, instances: 150, resources: {{cpu: 1, memory: 1000MiB}},
     sim: {{draw: {{uniform: [1m, 9m]}}}}}}
  - {{job_id: tiles, at: 20s, pool: /maps/tiles, instances: 40, resources: {{cpu: 1.5, memory: 1GiB}},
     sim: {{duration: 9m}}}}
  - {{job_id: patch, at: 22s, pool: /maps/tiles, instances: 4, priority: 9, resources: {{cpu: 2}},
     sim: {{duration: 9m}}}}
  - {{job_id: index, at: 40s, pool: /search/index, instances: 60, resources: {{cpu: 1}}, sim: {{duration: 9m}}}}
  - {{job_id: train, at: 50s, pool: /maps/routes, instances: 3, resources: {{cpu: 4, gpu: 2}}, sim: {{duration: 9m}}}}
  - {{job_id: giant, at: 50s, pool: /maps/routes, instances: 2, resources: {{cpu: 64}}, sim: {{duration: 9m}}}}
events:
  - {{at: 2m, pool: {{path: /maps/tiles, limit: {{cpu: 20}}, reservation: {{cpu: 10}}, share: 3}}}}
"""
"""Pools that have too little and too much, tasks that wait for several reasons, preemptions, a change."""


@lru_cache(4)
def busy_log(seed: int) -> Log:
    """The log of a cell that was played until all of that was so."""
    return play(BUSY.format(seed=seed)).run.cell.log


@contextmanager
def site(log: Log, folder: Path) -> Iterator[Site]:
    """The same, until it is left."""
    found = Site(log, folder)
    yield found
    found.projector.close()


def number(text: str) -> float:
    """The first number in a text of a page, or of the API: a size in GiB."""
    found = re.search(r"-?[\d,]+(?:\.\d+)?", text)
    assert found is not None, text
    value = float(found[0].replace(",", ""))
    return value / 1024 if "MiB" in text else value * 1024 if "TiB" in text else value
