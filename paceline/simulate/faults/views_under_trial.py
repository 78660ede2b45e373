"""Projections that live through a trial, to be compared with rebuilt ones."""

from pathlib import Path
from typing import Any

from sqlalchemy import Engine, select

from paceline.simulate.faults.injection import Faults, FaultyLog
from projections.queries import pages
from projections.queries.entities import jobs_json
from projections.views import tables
from projections.views.comparison import rows_of
from projections.views.projector import Projector, rebuild
from projections.views.rows import JobRow

LOOKED_EVERY = 64
"""Steps, of which most do nothing."""


class Views:
    """The views of a cell in a folder; their process crashes like any other, and begins again on the same file."""

    def __init__(self, log: FaultyLog, folder: Path, faults: Faults) -> None:
        self._log = log
        self._folder = folder
        self._faults = faults
        for name in ("live", "again"):
            (folder / name).mkdir(parents=True)
        self._projector = Projector(log, folder / "live")
        self._steps = 0

    def step(self) -> bool:
        """Implements `Component.step`."""
        if self._faults.hit("projector lost"):
            self._projector.close()
            self._projector = Projector(self._log, self._folder / "live")
        self._steps += 1
        return self._projector.step()

    def unexplained(self) -> str:
        """Now and then, a job of which tasks neither run nor are over though nothing is said of why; empty: none is."""
        if self._steps % LOOKED_EVERY:
            return ""
        jobs = tables.jobs.c
        moving = jobs.queued + jobs.ordered + jobs.stopping_tasks + jobs.backoff
        with self._projector.views.read() as connection:
            rows = pages.rows_of(connection, JobRow, select(tables.jobs).where(jobs.ended_ms == 0, moving > 0))
            return next((each["job_id"] for each in jobs_json(connection, rows) if each["reason"] is None), "")

    def close(self) -> None:
        """Gives back the reader and the files."""
        self._projector.close()

    def difference(self) -> str:
        """The name of a table whose rows differ from those of rebuilt views; empty: none."""
        again = rebuild(self._log, self._folder / "again")
        live = self._projector.views.engine
        differs = next((name for name in tables.metadata.tables if _rows(live, name) != _rows(again, name)), "")
        again.dispose()
        return differs


def _rows(engine: Engine, name: str) -> list[Any]:
    table = tables.metadata.tables[name]
    with engine.connect() as connection:
        return sorted(map(repr, rows_of(connection, table)))
