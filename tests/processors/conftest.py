"""What the tests of stores and snapshots share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from events.log.embedded import EmbeddedLog


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    log = EmbeddedLog(tmp_path / "log", now_ms=lambda: 1_700_000_000_000)
    yield log
    log.close()
