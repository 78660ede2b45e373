"""Fixtures that several parts share."""

from collections.abc import Iterator

import pytest

from tests.broker import Broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real Kafka, started when the first test asks for it; one per test process."""
    with Broker(tmp_path_factory.mktemp("broker") / "kafka") as running:
        yield running
