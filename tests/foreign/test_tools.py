"""What somebody sees of a cell who has the tools of Kafka's distribution, and nothing of Paceline."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from events.codec import encode
from events.kafka import KafkaLog
from events.log import NewRecord
from events.records.pools import PoolDefined
from events.topics import MACHINES, rounds_of
from paceline.machines import machines
from tests.broker import Broker
from tests.foreign.java import tool
from tests.processes.site import Site, empty


@pytest.fixture
def site(broker: Broker, tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path, empty(broker, 1))
    yield found
    found.processes.stop_all()


def pools(site: Site, *paths: str) -> None:
    """An admin defines pools."""
    events = [PoolDefined(path=path, command_id=path, cell=0) for path in paths]
    site.append(0, *(NewRecord(event.topic, event.path.encode(), encode(event)) for event in events))


def lags(site: Site) -> dict[tuple[str, str], str]:
    """What kafka-consumer-groups prints as the lag of each group in each topic; `-`: nothing is known yet."""
    printed = tool(
        "consumer.group.ConsumerGroupCommand", "--bootstrap-server", site.bootstrap, "--describe", "--all-groups"
    )
    rows = [line.split() for line in printed.splitlines() if line.startswith(("GROUP", "paceline"))]
    titles = ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    assert all(row[:6] == titles for row in rows if row[0] == "GROUP")
    return {(row[0], row[1]): row[5] for row in rows if row[0] != "GROUP"}


def keys(site: Site, *topics: str) -> list[str]:
    """The keys that kafka-console-consumer prints of all messages of topics."""
    log = KafkaLog(site.bootstrap)
    count = sum(log.bounds(topic)[1] for topic in topics)
    log.close()
    words = ["--bootstrap-server", site.bootstrap, "--include", "|".join(topics), "--from-beginning"]
    form = [f"--formatter-property=print.{part}={shown}" for part, shown in (("key", "true"), ("value", "false"))]
    return tool("consumer.ConsoleConsumer", *words, "--max-messages", str(count), *form).splitlines()


def test_the_tools_of_kafka_show_groups_lags_and_keys_that_make_sense(site: Site) -> None:
    site.start(*MACHINES)
    site.until_ready(*MACHINES)
    pools(site, "/maps", "/maps/tiles")
    shown: dict[tuple[str, str], str] = {}

    def all_read() -> bool:
        shown.clear()
        shown.update(lags(site))
        return set(shown.values()) == {"0"}

    site.until(all_read, "every lag to be 0")
    assert set(shown) == {
        (f"paceline.processor.{name}", topic)
        for name, make in machines(0).items()
        for topic in (*make().facts, *map(rounds_of, make().peers))
    }

    site.stop("entitlement")
    pools(site, "/late-1", "/late-2", "/late-3")
    assert lags(site)["paceline.processor.entitlement", "paceline.pools"] == "3", "nobody reads"
    site.start("entitlement")
    site.until(all_read, "every lag to be 0 again")

    assert keys(site, "paceline.pools") == ["/maps", "/maps/tiles", "/late-1", "/late-2", "/late-3"]
    rounds = [f"paceline.{machine}" for machine in MACHINES]
    assert set(keys(site, *rounds)) == set(MACHINES)
