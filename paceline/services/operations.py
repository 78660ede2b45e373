"""Facts about a cell beside its views, from the process that serves it; collected in the background, kept for a
while.
"""

import os
import platform
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

from events import VERSION
from events.log.port import Log, LogError
from events.topics import ALL, MACHINES
from paceline.client.operation_models import (
    Alarm,
    ArchivedTopics,
    ConsumerGroup,
    MachineSnapshot,
    ProcessInfo,
    ProcessOperations,
    SettingOrigin,
    StoredSnapshots,
    ViewCopies,
)
from paceline.services.settings import Origin, Settings, UpSettings
from projections.queries.alarms import alarms
from projections.queries.machine_lag import machine_lags
from projections.record_json import at
from projections.views.reader import Views, folded
from projections.views.tables import FORMAT

EVERY_S = 15.0
"""So long an answer is given again."""
FIRST_S = 1.0
"""So long the first answer is waited for."""
READERS = "paceline."
"""The prefix of the consumer groups of a cell's processes."""


class OperationsOf:
    """Implements `projections.api.context.Operations`. Who asks gets the last answer, and has the next one looked for
    when that is old, so nobody waits for a broker or an object store; only the first waits a moment. What can't be
    asked is told under `faults`.
    """

    def __init__(
        self,
        log: Log,
        views: Views,
        settings: Settings | UpSettings,
        folder: Path,
        stores: bool,
        readers: bool = True,
        end_ms: int = 0,
    ) -> None:
        """`folder` holds the views of the cell; `stores`: the stores of the machines too, which this process has;
        `end_ms`: when the history ends that it looks at, 0: it goes on.
        """
        self._log, self._views, self._settings = log, views, settings
        self._folder, self._stores, self._readers = folder, stores, readers
        self._started_ms = int(time.time() * 1000)
        self._end_ms = end_ms
        self._lock = threading.Lock()
        self._asked_at = -EVERY_S
        self._answer: ProcessOperations | None = None
        self._answered = threading.Event()

    def __call__(self) -> ProcessOperations | None:
        """Implements `Operations`."""
        with self._lock:
            if time.monotonic() - self._asked_at >= EVERY_S:
                self._asked_at = time.monotonic()
                threading.Thread(target=self._ask, name="operations", daemon=True).start()
        self._answered.wait(FIRST_S)
        return self._answer

    def _ask(self) -> None:
        self._answer = self.look()
        self._answered.set()

    def look(self) -> ProcessOperations:
        """Asks now."""
        faults: list[str] = []
        parts: dict[str, Callable[[], Any]] = {
            "process": self._process,
            "log": self._bounds,
            "stores": self._store_sizes,
            "readers": self._groups,
            "snapshots": self._snapshots,
            "archive": self._archived,
            "copies": self._copies,
            "settings": self._origins,
            "alarms": self._alarms,
        }
        answer = {"at": at(int(time.time() * 1000))}
        for name, part in parts.items():
            try:
                answer[name] = part()
            except Exception as error:  # one source that is away must not hide the others
                answer[name] = None
                faults.append(f"{name}: {error}")
        return cast(ProcessOperations, {**answer, "faults": faults})

    def _process(self) -> ProcessInfo:
        return {
            "version": VERSION,
            "python": platform.python_version(),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "started": at(self._started_ms),
            "views_format": FORMAT,
        }

    def _bounds(self) -> dict[str, list[int]]:
        return {topic.name: list(self._log.bounds(topic.name)) for topic in ALL}

    def _store_sizes(self) -> dict[str, int] | None:
        if not self._stores:
            return None
        sizes = {machine: _size(self._folder / "store" / machine) for machine in MACHINES}
        return {**sizes, "views": sum(map(_length, self._folder.glob("views.sqlite*")))}

    def _groups(self) -> list[ConsumerGroup] | None:
        """The consumer groups on Kafka that have to do with this cell."""
        settings, cell = self._settings, self._log.cell
        if not settings.kafka or not self._readers:
            return None
        from events.log.kafka.groups import groups

        members = groups(settings.kafka, lambda name: name.startswith(READERS), settings.kafka_options)
        ends = self._log.ends(topic.name for topic in ALL)
        out: list[ConsumerGroup] = []
        for name, group in members.items():
            read = {
                topic: offset for (topic, at_cell), offset in group.read.items() if at_cell == cell and topic in ends
            }
            behind = sum(max(0, ends[topic] - offset) for topic, offset in read.items())
            out.append({
                "name": name,
                "state": group.state,
                "members": len(group.members),
                "member": group.of(cell) or None,
                "behind": behind if read else None,
            })  # fmt: skip
        return out

    def _snapshots(self) -> StoredSnapshots | None:
        url = getattr(self._settings, "snapshots", "")
        if not url:
            return None
        from processors.runtime.snapshots import stored

        newest = {machine: next(iter(stored(url, self._log.cell, machine)), None) for machine in MACHINES}
        rounds: dict[str, MachineSnapshot] = {
            machine: {"round": each.round, "fault": each.fault} for machine, each in newest.items() if each
        }
        return {"url": _without_secrets(url), "machines": rounds}

    def _archived(self) -> ArchivedTopics | None:
        if not self._settings.archive:
            return None
        from events.log.archive import Archive

        archive, ranges = Archive(self._settings.archive, self._log.cell), {}
        for topic in ALL:
            stretches = archive.stretches(topic.name)
            if stretches:
                ranges[topic.name] = [stretches[0].start, stretches[-1].end]
        return {"url": _without_secrets(self._settings.archive), "topics": ranges}

    def _copies(self) -> ViewCopies:
        """The copies of views beside them."""
        from paceline.moments import copies, page_files

        folder = self._folder / copies.FOLDER
        view_copies = page_files.heads(folder)
        newest = view_copies[-1].positions if view_copies else {}
        size = sum(page_files.size_of(folder, head) for head in view_copies)
        return {"count": len(view_copies), "bytes": size, "newest": sum(newest.values())}

    def _origins(self) -> list[SettingOrigin]:
        origins: Iterable[Origin] = self._settings.origins
        return [
            {"name": each.name, "value": "" if each.value is None else str(each.value), "origin": each.origin}
            for each in origins
        ]

    def _alarms(self) -> list[Alarm]:
        with self._views.read() as connection:
            have = folded(connection)
            try:
                ends = self._log.ends(topic.name for topic in ALL)
            except LogError:
                ends = {}
            behind = {topic: max(0, end - have.get(topic, 0)) for topic, end in ends.items()}
            now_ms = self._end_ms or int(time.time() * 1000)
            after_ms = self._settings.alarm_unread_ms
            lags = list(machine_lags(connection, self._log, ends, now_ms, after_ms)) if ends and self._readers else []
            return [cast(Alarm, each._asdict()) for each in alarms(connection, self._log.cell, now_ms, behind, lags)]


def _size(folder: Path) -> int:
    """Bytes of the files of a folder."""
    return sum(map(_length, folder.rglob("*")))


def _length(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:  # it went meanwhile
        return 0


def _without_secrets(url: str) -> str:
    return re.sub("//[^/@]*@", "//***@", url)
