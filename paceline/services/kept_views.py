"""The views that are kept in a data folder, for commands that look at them and what they find wrong there."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Connection

from projections.queries.preemption_loops import loops
from projections.queries.stalls import stalls
from projections.views import tables

_CELL = re.compile(r"cell-(\d+)")


def kept_views(data: Path, only: int | None = None) -> Iterator[Connection]:
    """The views of a data folder, those of one cell alone or of all."""
    for path in [data / "views.sqlite", *sorted(data.glob("cell-*/views.sqlite"))]:
        match = _CELL.fullmatch(path.parent.name)
        engine = tables.attach(path) if only is None or match is None or int(match[1]) == only else None
        if engine is None:
            continue
        try:
            with engine.connect() as connection:
                yield connection
        finally:
            engine.dispose()


def circles_and_stalls(data: Path, only: int | None = None) -> list[str]:
    """A sentence for each loop of preemption that goes on, and for each job that is forgotten."""
    now_ms = int(time.time() * 1000)
    sentences: list[str] = []
    for connection in kept_views(data, only):
        sentences += [loop.sentence for loop in loops(connection, now_ms)]
        sentences += [stall.sentence for stall in stalls(connection)]
    return [f"{sentence[0].upper()}{sentence[1:]}." for sentence in sentences]
