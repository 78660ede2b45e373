"""Measures how much the file of the views grows with the time series of many pools."""

import random
from pathlib import Path

from sqlalchemy import Engine

from bench import sized
from events.records.entitlement import EntitlementsSet, PoolAnswered
from events.records.pools import PoolDefined
from events.resources import STANDARD
from projections.views.projector import Projector
from projections.views.series_table import DAY, HOUR, RESOLUTIONS, SHARES
from tests.helpers.written_cell import Cell

POOLS = sized(10_000, 200)
CHANGED = 100
HOURS = 1
AMOUNT_MAX = 1_000_000_000
MIB = 1024 * 1024


def series_mib_per_day(folder: Path, hours: int = HOURS) -> float:
    """Measures how many MiB the file grows in a day of log time while in each finest step 100 of 10,000 pools, drawn by
    seed, have other amounts of four resources: taken from an hour of it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    draw, cell = random.Random(1), Cell()
    paths = [f"/division-{at % 100}/team-{at}" for at in range(POOLS)]
    for path in paths:
        at = cell.fact(PoolDefined(path=path, command_id="c"))
        cell.decide("entitlement", PoolAnswered(path=path, pools_offset=at, command_id="c", code="DONE"))
    _set(cell, draw, paths)
    projector = Projector(cell.log, folder)
    projector.fold_whole()
    before = _bytes(projector.views.engine)
    for _ in range(hours * HOUR // RESOLUTIONS[0].step_s):
        cell.ms += RESOLUTIONS[0].step_s * 1000
        _set(cell, draw, draw.sample(paths, CHANGED))
        projector.fold_whole()
    grown = _bytes(projector.views.engine) - before
    projector.close()
    return grown / MIB * DAY / (hours * HOUR)


def _set(cell: Cell, draw: random.Random, paths: list[str]) -> None:
    """Entitlement says what pools may use, demand and hold."""
    size = len(paths) * len(STANDARD)
    amounts = {kind: [draw.randrange(AMOUNT_MAX) for _ in range(size)] for kind in SHARES}
    cell.decide("entitlement", EntitlementsSet.pack(pools=tuple(paths), resources=tuple(STANDARD), **amounts))


def _bytes(engine: Engine) -> int:
    """The size of the file in bytes, without its free pages."""
    with engine.connect() as connection:
        pages, free, size = (
            int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
            for name in ("page_count", "freelist_count", "page_size")
        )
    return (pages - free) * size
