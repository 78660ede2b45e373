"""Fixtures that several parts share."""

from collections.abc import Iterator

import pytest

from tests.broker import Broker, answers


@pytest.fixture(scope="session")
def one_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real Kafka, started when the first test asks for it; one per test process."""
    with Broker(tmp_path_factory.mktemp("broker") / "kafka") as running:
        yield running


@pytest.fixture
def broker(one_broker: Broker) -> Broker:
    """The broker of this test process, started again where a test that failed has left it down."""
    if not answers(one_broker.address):
        one_broker.kill()
        one_broker.start()
    return one_broker
