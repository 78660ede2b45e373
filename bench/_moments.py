"""Moments in a large log: how long until one is there to be looked at, and what the copies of views take."""

import random
import time
from pathlib import Path
from statistics import median

from bench import sized
from bench._large_cell import LargeCell, Size
from events.log.embedded import EmbeddedLog
from events.log.port import Log
from events.topics import ALL
from paceline.moments import copies
from paceline.moments.copier import LOG_TIMES, WORK_BYTES
from paceline.moments.log_cut import CutLog, before, closed, write_time
from paceline.moments.page_files import heads, size_of
from paceline.moments.source import CellMoments
from paceline.services.past import CellFolder, moments_of
from paceline.services.settings import ViewsPart, load
from projections.api.moments import Asker, Making
from projections.views.projector import Projector

SIZE = Size(jobs=sized(160_000, 300), tasks=sized(1_600_000, 3_000))
"""About 10,000,000 task events: queued, admitted, placed, ordered, started, available, some ended."""
OPENED, STEPS = sized(20, 2), sized(200, 20)
MIB = 1 << 20
POLL_S = 0.01
ASKER = Asker("bench", True)


def run(folder: Path, size: Size = SIZE) -> tuple[dict[str, float], dict[str, float]]:
    """Figures and references of a log that is written to a folder."""
    cell = LargeCell(folder, size)
    cell.write()
    cell.log.close()
    log = EmbeddedLog.open_secondary(folder / "log")
    begin = time.perf_counter()
    copying = fold_and_copy(log, folder, ViewsPart().copy_every)
    folding = time.perf_counter() - begin - copying
    seconds = open_moments(log, folder)
    copy_heads = heads(folder / copies.FOLDER)
    in_mib = sum(size_of(folder / copies.FOLDER, head) for head in copy_heads) / MIB
    log_mib = copy_heads[-1].log_bytes / MIB
    figures = {"at_open_s": max(seconds), "copies_mib": in_mib, "copies_of_log": in_mib / log_mib}
    references = {
        "at_open_median_s": median(seconds),
        "log_mib": log_mib,
        "log_on_disk_mib": sum(file.stat().st_size for file in (folder / "log").iterdir()) / MIB,
        "views_mib": (folder / "views.sqlite").stat().st_size / MIB,
        "copies": float(len(copy_heads)),
        "folding_s": folding,
        "copying_s": copying,
    }
    log.close()
    return figures, references


def fold_and_copy(log: Log, folder: Path, every: int) -> float:
    """Folds a log as a cell would that follows it: up to one time after the other; and copies the views as the copier
    would, but waits for each copy. Returns how long those took, in seconds.
    """
    work = size = 0
    copying = 0.0

    def folded(records: int, read: int) -> None:
        nonlocal work, size
        work, size = work + records + read // WORK_BYTES, size + read

    first, last = _times(log)
    for step in range(1, STEPS + 1):
        cut = CutLog(log, closed(log, before(log, first + (last - first) * step // STEPS + 1)))
        projector = Projector(cut, folder, folded)
        projector.fold_whole()
        projector.close()
        if work >= every:
            begin = time.perf_counter()
            head = copies.copy(folder / "views.sqlite", folder / copies.FOLDER, work, size)
            if head is not None:
                copies.thin_out(folder / copies.FOLDER, LOG_TIMES * head.log_bytes)
            copying += time.perf_counter() - begin
            work = size = 0
    return copying


def open_moments(log: Log, folder: Path, count: int = OPENED) -> list[float]:
    """Returns the seconds until each of `count` moments, drawn from all times of a log, is ready."""
    first, last = _times(log)
    draw, seconds = random.Random(7), []
    moments = moments_of(load(None, data=folder), {log.cell: CellFolder(log, folder)})
    try:
        for _ in range(count):
            begin = time.perf_counter()
            _open(moments, write_time(draw.randint(first, last)))
            seconds.append(time.perf_counter() - begin)
    finally:
        moments.close()
    return seconds


def _open(moments: CellMoments, at: str) -> None:
    moment = moments.resolve(at)
    while isinstance(moments.look(moment, ASKER), Making):
        time.sleep(POLL_S)


def _times(log: Log) -> tuple[int, int]:
    """When the first and the last record were appended."""
    bounds = {topic.name: log.bounds(topic.name) for topic in ALL}
    ends = [(name, at) for name, (start, end) in bounds.items() if end > start for at in (start, end - 1)]
    times = [next(log.scan(name, at)).at_ms for name, at in ends]
    return min(times), max(times)
