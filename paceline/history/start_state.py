"""The state that an imported log range starts from, in its data folder: `DIR/start`.

`start/MACHINE` is the store of a machine after its last round before the stretch, `start/views.sqlite` the views there.
Nothing writes to them.
"""

from pathlib import Path

from paceline.client.errors import PacelineError
from processors.runtime.store import MemoryStore, RocksStore
from processors.state.table import hash_rows

FOLDER = "start"
VIEWS = "views.sqlite"


def is_history(data: Path) -> bool:
    """Whether a stretch of history was brought to a data folder."""
    return (data / FOLDER).is_dir()


def start_of(data: Path, machine: str) -> MemoryStore | None:
    """The store that a machine starts from there; None: the first record of the log. Raises `PacelineError` where its
    rows are not those of the round that it stands at.
    """
    folder = data / FOLDER / machine
    if not folder.is_dir():
        return None
    stored = RocksStore(folder)
    try:
        progress, rows = stored.progress(), list(stored.rows())
        if progress is None or hash_rows(rows) != progress.hash:
            raise PacelineError(f"The rows of {machine} in {data} are not those that the history starts from.")
        store = MemoryStore()
        store.commit(rows, progress)
        return store
    finally:
        stored.close()
