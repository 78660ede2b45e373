"""A transaction that nobody ends holds back all readers of its topic, and is told."""

from collections.abc import Callable
from time import monotonic

import pytest
from confluent_kafka import Producer
from prometheus_client import REGISTRY

from events.log.kafka import transactions as kafka_transactions
from events.log.kafka.kafka_log import KafkaLog
from events.log.kafka.transactions import Transactions
from events.log.port import NewRecord
from events.topics import SETTINGS
from tests.events.log.contract import PATIENCE
from tests.helpers.broker import Broker

TOPIC, OTHER = "contract.held", "contract.free"


def held(topic: str) -> float:
    seconds = REGISTRY.get_sample_value("paceline_transaction_open_seconds", {"cell": "0", "topic": topic})
    assert seconds is not None
    return seconds


def test_a_topic_that_an_open_transaction_holds_back_is_told_with_its_time(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_transactions, "LOOK_S", 0.0)
    broker.make_topics([TOPIC, OTHER], 1, SETTINGS)
    log = KafkaLog(broker.address)
    transactions = Transactions(log, [TOPIC, OTHER])

    def look_until(come: Callable[[], bool]) -> None:
        end = monotonic() + PATIENCE
        while True:
            transactions.step()
            if come():
                return
            assert monotonic() < end, "it never came"

    log.append([NewRecord(TOPIC, b"", b"free")])
    look_until(lambda: held(TOPIC) == held(OTHER) == 0)
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": "forgotten"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(TOPIC, b"not committed")
    producer.flush()
    log.append([NewRecord(TOPIC, b"", b"behind it"), NewRecord(OTHER, b"", b"free")])
    look_until(lambda: held(TOPIC) > 0.5)
    assert held(OTHER) == 0
    producer.commit_transaction()
    look_until(lambda: held(TOPIC) == 0)
    log.close()


def test_a_broker_that_is_away_is_left_to_those_who_read(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_transactions, "LOOK_S", 0.0)
    broker.make_topics([TOPIC], 1, SETTINGS)
    log = KafkaLog(broker.address)
    transactions = Transactions(log, [TOPIC])
    transactions.step()
    broker.kill()
    transactions.step()
    assert transactions._client is None
    broker.start()
    end = monotonic() + PATIENCE
    while transactions._client is None:
        assert monotonic() < end, "it asks again"
        transactions.step()
    log.close()
