from pathlib import Path

import pytest

from tests.paceline.witness.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A place for a witness."""
    return World(tmp_path)
