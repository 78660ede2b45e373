"""The fan-out as a process on a real Kafka: killed, frozen, moved, cut off; nothing is missing, little comes twice."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AclOperation

from events.log.kafka import topics as kafka_topics
from events.log.kafka.kafka_log import KafkaLog
from events.log.port import NewRecord
from events.topics import EVERY, MACHINES, SETTINGS, rounds_of
from paceline.services.processes import group_of
from tests.helpers.broker import Broker
from tests.helpers.broker.security import Security
from tests.helpers.ports import kept_port
from tests.projections.fanout.complete import whole
from tests.projections.fanout.world import Site, copy, crowd, ends, history

CELLS = 2
ROUNDS = [rounds_of(machine) for machine in MACHINES]


class World(Site):
    """A fan-out, and the logs of two cells that it publishes."""

    def __init__(self, folder: Path, broker: Broker) -> None:
        super().__init__(folder, broker.address)
        self.address = broker.address
        self.logs = [KafkaLog(broker.address, cell) for cell in range(CELLS)]

    def whole(self, starts: int | None = None) -> int:
        """Checks all cells; returns how many messages were decided."""
        found = [whole(self.address, cell, starts) for cell in range(CELLS)]
        return sum(each["messages"] for each in found)


@pytest.fixture
def world(broker: Broker, tmp_path: Path) -> Iterator[World]:
    broker.make_topics([topic.name for topic in EVERY], CELLS, SETTINGS)
    world = World(tmp_path, broker)
    yield world
    world.processes.stop_all()
    for log in world.logs:
        log.close()


def test_a_process_that_is_killed_in_large_rounds_repeats_at_most_the_last(world: World) -> None:
    world.start()
    world.until(lambda: world.cells() == [0, 1])
    copy(crowd(4000), world.logs[0])
    copy(history(1), world.logs[1], 0.5)
    for least in (3000, 9000):
        world.until(lambda least=least: ends(world.address) > least)
        world.kill()
        world.start()
    copy(history(1), world.logs[1], 1.0, 0.5)
    world.until_caught_up(cells=CELLS)
    metrics = world.get("/metrics").text
    assert 'paceline_fanout_lag_records{cell="0",machine="placement"} 0.0' in metrics
    assert 'paceline_fanout_messages_total{cell="1",topic="paceline.task-states"}' in metrics
    assert world.get("/livez").status_code == world.get("/startupz").status_code == 200
    world.stop()
    world.start()
    world.until_caught_up(cells=CELLS)
    world.stop()
    assert world.whole(world.starts - 1) > 6 * 4000, "the start after a clean stop repeats nothing"


def test_cells_of_a_process_that_dies_or_freezes_go_on_in_another(world: World) -> None:
    for name in ("one", "two"):
        world.start(name)
    world.until(lambda: sorted(world.cells("one") + world.cells("two")) == [0, 1] and len(world.cells("one")) == 1)
    for cell, log in enumerate(world.logs):
        copy(history(cell), log, 0.3)
    world.freeze("one")
    world.until_caught_up("two", CELLS)
    for cell, log in enumerate(world.logs):
        copy(history(cell), log, 0.6, 0.3)
    world.until_caught_up("two", CELLS)
    world.thaw("one")
    world.until(lambda: len(world.cells("one")) == len(world.cells("two")) == 1)
    world.kill("two")
    for cell, log in enumerate(world.logs):
        copy(history(cell), log, 1.0, 0.6)
    world.until_caught_up("one", CELLS)
    world.stop("one")
    assert world.whole() > 0


def test_the_group_is_told_where_it_stands_in_topics_too_in_which_nothing_more_comes(world: World) -> None:
    """What was there before the first fan-out is counted as read; else Kafka's tools would never show a lag."""
    for cell, log in enumerate(world.logs):
        copy(history(cell), log)
    world.start()
    all_ = {cell: log.ends(ROUNDS) for cell, log in enumerate(world.logs)}
    world.until(lambda: {cell: told(world, cell) for cell in range(CELLS)} == all_)
    world.stop()
    assert world.whole() > 0


def told(world: World, cell: int) -> dict[str, int]:
    """How far the group has been told that a cell is."""
    reader = Consumer({"bootstrap.servers": world.address, "group.id": group_of("fanout")})
    found = reader.committed([TopicPartition(topic, cell) for topic in ROUNDS], timeout=30)
    reader.close()
    return {each.topic: each.offset for each in found}


def away(world: World) -> bool:
    """Whether all cells say that their broker is away."""
    return all("can't be reached" in world.standing(cell).get("trouble", "") for cell in range(CELLS))


def test_bytes_of_strangers_are_passed_over_and_a_broker_that_is_away_is_waited_for(
    world: World, broker: Broker
) -> None:
    world.start()
    copy(history(0), world.logs[0], 0.5)
    world.logs[0].append([NewRecord(rounds_of("placement"), b"", b"no round"), NewRecord(rounds_of("sla"), b"", b"")])
    world.until_caught_up(cells=CELLS)
    assert 'paceline_fanout_ignored_total{cause="NO_KEY",cell="0",machine="placement"}' in world.get("/metrics").text
    broker.kill()
    world.until(lambda: away(world))
    broker.start()
    copy(history(0), world.logs[0], 1.0, 0.5)
    world.until_caught_up(cells=CELLS)
    broker.kill()
    world.until(lambda: away(world))
    world.stop()
    broker.start()
    said = Counter(json.loads(line).get("cell") for line in world.said().splitlines() if "can't be reached" in line)
    assert said == dict.fromkeys((None, *range(CELLS)), 2), f"once each time: {world.said()}"
    assert world.whole() > 0


def test_a_cell_whose_log_lost_records_stops_alone_and_says_so(world: World) -> None:
    world.start()
    for cell, log in enumerate(world.logs):
        copy(history(cell), log, 0.5)
    world.until_caught_up(cells=CELLS)
    world.stop()
    lifecycle = rounds_of("lifecycle")
    for cell, log in enumerate(world.logs):
        copy(history(cell), log, 1.0, 0.5)
    world.logs[1].truncate(lifecycle, world.logs[1].bounds(lifecycle)[1])
    world.start()
    world.until(lambda: "starts" in world.standing(1).get("failed", ""))
    assert world.get("/readyz").status_code == 503
    [line] = [json.loads(line) for line in world.said().splitlines() if '"stopped: ' in line]
    assert (line["process"], line["cell"], line["machine"]) == ("fanout", 1, "lifecycle")
    ends = world.logs[0].ends(ROUNDS)
    world.until(lambda: world.standing(0).get("ready") and told(world, 0) == ends)
    behind, ends = told(world, 1), world.logs[1].ends(ROUNDS)
    assert behind[lifecycle] < ends[lifecycle], "what is not published may be needed"
    world.stop()
    whole(world.address, 0, world.starts - 1)
    world.logs[0].truncate(lifecycle, world.logs[0].bounds(lifecycle)[1])
    (world.folder / "data" / "one" / "fanout" / "lifecycle-0.msgpack").unlink()
    world.start()
    assert world.until_ended() == 1
    assert f"{lifecycle} starts at" in world.said().splitlines()[-1]


@pytest.mark.xdist_group("security")
def test_passwords_and_certificates_are_handed_through_and_a_right_that_is_missing_is_told(tmp_path: Path) -> None:
    security = Security(tmp_path / "certificate", kept_port(), kept_port())
    with Broker(tmp_path / "kafka", security=security) as broker:
        kafka_topics.create(broker.address, 1)
        log = KafkaLog(broker.address, 0)
        for name, share in (("scram", 0.5), ("tls", 1.0)):
            site = Site(tmp_path / name, getattr(security, f"{name}_address"), getattr(security, name)())
            try:
                site.start()
                copy(history(0), log, share, share - 0.5)
                site.until_caught_up()
                site.stop()
            finally:
                site.processes.stop_all()
        log.close()
        assert whole(broker.address, 0, 2)["messages"] > 0
        rights = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS
        site = Site(tmp_path / "guest", security.scram_address, security.guest(broker.address, *rights))
        try:
            site.start()
            assert site.until_ended() == 1
            line = site.said().splitlines()[-1]
            assert "Read on group paceline.fanout, with `kafka-acls.sh`" in line
        finally:
            site.processes.stop_all()
