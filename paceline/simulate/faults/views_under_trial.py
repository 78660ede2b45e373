"""Projections that live through a trial, to be compared with rebuilt ones."""

from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from paceline.simulate.faults.injection import Faults, FaultyLog
from projections.views import tables
from projections.views.comparison import rows_of
from projections.views.projector import Projector, rebuild


class Views:
    """The views of a cell in a folder; their process crashes like any other, and begins again on the same file."""

    def __init__(self, log: FaultyLog, folder: Path, faults: Faults) -> None:
        self._log = log
        self._folder = folder
        self._faults = faults
        for name in ("live", "again"):
            (folder / name).mkdir(parents=True)
        self._projector = Projector(log, folder / "live")

    def step(self) -> bool:
        """See `Component.step`."""
        if self._faults.hit("projector lost"):
            self._projector.close()
            self._projector = Projector(self._log, self._folder / "live")
        return self._projector.step()

    def close(self) -> None:
        """Gives back the reader and the files."""
        self._projector.close()

    def difference(self) -> str:
        """The name of a table whose rows differ from those of views made anew; empty: none."""
        again = rebuild(self._log, self._folder / "again")
        live = self._projector.views.engine
        differs = next((name for name in tables.metadata.tables if _rows(live, name) != _rows(again, name)), "")
        again.dispose()
        return differs


def _rows(engine: Engine, name: str) -> list[Any]:
    table = tables.metadata.tables[name]
    with engine.connect() as connection:
        return sorted(map(repr, rows_of(connection, table)))
