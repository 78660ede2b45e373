"""Views as they were: folded up to a cut of the log, in a folder of their own."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from sqlalchemy import Connection

from events.log.port import Log
from events.topics import VIEWED
from paceline.client.errors import PacelineError
from paceline.history.importer import history_in
from paceline.history.open_log import open_log
from paceline.history.start_state import FOLDER, VIEWS
from paceline.moments.log_cut import CutLog, write_time
from paceline.moments.resolver import Past, Resolver
from paceline.services.settings import Settings
from projections.api.problems import Problem
from projections.queries.log_time import newest_ms
from projections.views.projector import Projector
from projections.views.reader import Views


class NoSuchJob(PacelineError):
    """There was no such job then."""

    exit_code = 4


class AsItWas(NamedTuple):
    """A cell as it was: its log, a connection to its views, and the moment in words, with its time."""

    log: Log
    connection: Connection
    moment: str
    time: str


@contextmanager
def as_it_was(settings: Settings, at: str | None) -> Iterator[AsItWas]:
    """A cell at a moment, from the log that settings name, whether the cell runs or not; `at` None: at the end of its
    log. Raises `PacelineError`.
    """
    log = open_log(settings)
    try:
        stretch = history_in(settings)
        ends: Mapping[str, int]
        if at is None:
            ends, moment = log.ends(topic.name for topic in VIEWED), "the end of the log"
        else:
            resolved = Resolver({log.cell: Past(log, stretch.from_ms if stretch else 0)}).resolve(at)
            ends, moment = resolved.ends[log.cell], resolved.text
        with TemporaryDirectory(prefix="paceline-views-") as folder:
            views = views_at(log, ends, settings.data, Path(folder))
            try:
                with views.read() as connection:
                    time = write_time(newest_ms(connection)) if at is None else resolved.time
                    yield AsItWas(log, connection, moment, time)
            finally:
                views.close()
    except Problem as problem:
        raise PacelineError(f"{problem.detail}. ({problem.code})") from problem
    finally:
        log.close()


def views_at(log: Log, ends: Mapping[str, int], data: Path, folder: Path) -> Views:
    """The views of a log cut at those ends, in a file in `folder`. `data`: the folder that the log is of; where a
    stretch of history was brought there, they begin from its start.
    """
    start = data / FOLDER / VIEWS
    if start.exists():
        shutil.copyfile(start, folder / VIEWS)
    projector = Projector(CutLog(log, ends), folder)
    projector.fold_whole()
    projector.stop_reading()
    return projector.views
