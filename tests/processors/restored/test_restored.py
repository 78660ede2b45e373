"""A process that takes over decides what the one before it would have decided, now and for the rounds that follow."""

from random import Random

import pytest

from tests.helpers.drawn import seeds
from tests.processors.restored.histories import KINDS


@seeds(12, 3)
@pytest.mark.parametrize("machine", KINDS)
def test_whoever_takes_over_from_the_rows_decides_as_the_one_before(machine: str, seed: int) -> None:
    KINDS[machine](Random(seed)).play(100)
