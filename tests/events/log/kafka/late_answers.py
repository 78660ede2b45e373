"""Asks for the ends of topics from several threads, mostly too hurried to wait for the answers."""

import sys
from threading import Thread
from time import monotonic

from events.log.kafka import offsets
from events.log.kafka.kafka_log import KafkaLog
from events.log.port import LogUnavailable

SECONDS = 5.0
THREADS = 4
HURRY_SECONDS = 0.004


def ask(log: KafkaLog, topics: list[str]) -> None:
    end = monotonic() + SECONDS
    while monotonic() < end:
        try:
            log.ends(topics)
        except LogUnavailable:
            continue


if __name__ == "__main__":
    address, *topics = sys.argv[1:]
    log = KafkaLog(address, on_trouble=lambda _: None)
    assert log.ends(topics) == dict.fromkeys(topics, 0)
    offsets.ANSWER_SECONDS, offsets.RETRY_SECONDS = HURRY_SECONDS, 0.0
    threads = [Thread(target=ask, args=(log, topics)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
