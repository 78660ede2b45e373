"""Views as they were: folded up to a cut of the log, in a folder of their own."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from events.log.port import Log
from paceline.client.errors import PacelineError
from paceline.history.start_state import FOLDER, VIEWS
from paceline.moments.log_cut import CutLog
from projections.views.projector import Projector
from projections.views.reader import Views


class NoSuchJob(PacelineError):
    """There was no such job then."""

    exit_code = 4


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
