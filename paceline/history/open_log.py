"""The log that settings name, for reading: of a cell, or of a history that was brought here."""

from events.log.port import Log
from paceline.history.start_state import is_history
from paceline.services.cell_log import bare_log, with_archive
from paceline.services.settings import Settings


def open_log(settings: Settings) -> Log:
    """The log that settings name, behind its archive where they name one, for reading, whether its cell runs or not.
    Raises `LogError`.
    """
    if not settings.kafka and is_history(settings.data):
        from paceline.history.importer import open_history

        return open_history(settings.data)
    return with_archive(bare_log(settings), settings.archive)
