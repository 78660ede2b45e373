"""A small real history: a cell of the simulator in which hosts fail, machines are lost and jobs wait."""

from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from events.log.embedded import EmbeddedLog
from events.log.memory import MemoryLog
from events.log.port import Log, NewRecord
from events.topics import ALL
from paceline.services.data_folder import prepare
from paceline.simulate import session
from paceline.simulate.scenario.scenario import Scenario

START = "2023-11-14T22:13:20Z"
"""When virtual time begins."""
SCENARIO: dict[str, Any] = {
    "seed": 5,
    "hosts": [
        {"name": "small", "count": 2, "resources": {"cpu": 4, "memory": "16GiB"}, "fails": "25s", "returns": "2m"},
        {"name": "large", "resources": {"cpu": 8, "memory": "32GiB"}, "attributes": {"disk": "ssd"}},
    ],
    "pools": [{"path": "/batch", "share": 1}, {"path": "/maps", "share": 3, "reservation": {"cpu": 4}}],
    "jobs": [
        {
            "job_id": "nightly",
            "pool": "/batch",
            "instances": 150,
            "resources": {"cpu": 1, "memory": "1GiB"},
            "retries": {"max": 2},
            "sim": {"draw": {"uniform": ["4s", "12s"]}},
        },
        {
            "job_id": "tiles",
            "at": "12s",
            "pool": "/maps",
            "instances": 4,
            "resources": {"cpu": 1, "memory": "2GiB"},
            "constraints": [{"attribute": "disk", "values": ["ssd"]}],
            "sim": {"duration": "20s"},
        },
        {"job_id": "huge", "at": "5s", "pool": "/maps", "resources": {"cpu": 64, "memory": "1GiB"}},
    ],
    "events": [
        {"at": "15s", "lose": "lifecycle"},
        {"at": "17s", "heal": "lifecycle"},
        {"at": "20s", "lose": "entitlement"},
        {"at": "21s", "heal": "entitlement"},
        {"at": "40s", "stop": "huge"},
    ],
    "end": "100s",
}


@cache
def past() -> MemoryLog:
    """The log of it; whoever changes it makes a copy."""
    return played(SCENARIO)


def played(scenario: dict[str, Any]) -> MemoryLog:
    """The log of a scenario."""
    observers = session.of_scenario(Scenario.model_validate(scenario), "", session.RunOptions())
    observers.run.run_to_end()
    return _copied(observers.run.cell.log)


def kept(folder: Path) -> MemoryLog:
    """The log of a data folder."""
    with closing(EmbeddedLog.open_secondary(folder / "log")) as log:
        return _copied(log)


def _copied(source: Log) -> MemoryLog:
    log = MemoryLog(lambda: 0)
    for topic in ALL:
        log.topic(topic.name).records = list(source.scan(topic.name, 0))
        log.topic(topic.name).end = source.bounds(topic.name)[1]
    return log


def written(log: Log, folder: Path) -> None:
    """Writes a history to the embedded log of a data folder."""
    prepare(folder)
    now = [0]
    out = EmbeddedLog(folder / "log", log.cell, now_ms=lambda: now[0])
    records = [record for topic in ALL for record in log.scan(topic.name, 0)]
    for record in sorted(records, key=lambda each: each.at_ms):
        now[0] = record.at_ms
        out.append([NewRecord(record.topic, record.key, record.value)])
    out.close()


def changed(log: MemoryLog, topic: str, records: list[Any], end: int) -> MemoryLog:
    """The log with other records in one topic."""
    out = MemoryLog(lambda: 0, log.cell)
    out._topics = dict(log._topics)
    out._topics[topic] = held = type(log.topic(topic))()
    held.records, held.end = records, end
    return out
