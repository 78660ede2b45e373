"""The log of a cell as settings name it, with and without its archive, for reading."""

from pathlib import Path
from typing import TYPE_CHECKING

from events.log.port import Log
from paceline.services.data_folder import check_cell, recorded_cell
from paceline.services.settings import Settings

if TYPE_CHECKING:
    from events.log.embedded import EmbeddedLog
    from events.log.kafka.kafka_log import KafkaLog


def with_archive(log: Log, archive: str) -> Log:
    """A log with its archive at a URL in front; the log itself where there is none."""
    if not archive:
        return log
    from events.log.archived import ArchivedLog

    return ArchivedLog(log, archive)


def bare_log(settings: Settings) -> "KafkaLog | EmbeddedLog":
    """The log that settings name without its archive, for reading. An embedded log is of the cell of its data folder.
    Raises `LogError`, and `CannotStart` where settings name another cell.
    """
    if settings.kafka:
        from events.log.kafka.kafka_log import KafkaLog

        if settings.schema_registry_url:
            from events.log.kafka import schema_registry as registry

            registry.read(settings.schema_registry_url)
        return KafkaLog(settings.kafka, settings.cell, settings.kafka_options)
    cell = recorded_cell(settings.data)
    if cell is not None and "cell" in settings.model_fields_set:
        check_cell(settings.data, settings.cell)
    return embedded(settings.data, settings.cell if cell is None else cell)


def embedded(data: Path, cell: int = 0) -> "EmbeddedLog":
    """The embedded log of a data folder, for reading."""
    from events.log.embedded import EmbeddedLog

    return EmbeddedLog.open_secondary(data / "log", cell)
