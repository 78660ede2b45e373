"""What somebody sees of a cell who has the tools of Kafka's distribution, and nothing of Paceline."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from events.codec import decode, encode
from events.log.kafka.kafka_log import KafkaLog
from events.log.port import NewRecord
from events.records.job_states import JobStateChanged
from events.records.jobs import JobSubmitted
from events.records.parts import Simulated
from events.records.pools import PoolDefined
from events.topics import FANOUT, MACHINES, VIEWED, Topic, rounds_of
from processors.cell_machines import machines
from tests.foreign.java import tool
from tests.helpers.broker import Broker
from tests.helpers.site import Site, empty
from tools import asyncapi

pytestmark = pytest.mark.xdist_group("processes")
UUID = len("-00000000-0000-0000-0000-000000000000")
"""Kafka adds one to the name of a member."""


@pytest.fixture
def site(broker: Broker, tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path, empty(broker, 1))
    yield found
    found.processes.stop_all()


def pools(site: Site, *paths: str) -> None:
    """An admin defines pools."""
    events = [PoolDefined(path=path, command_id=path, cell=0) for path in paths]
    site.append(0, *(NewRecord(event.topic, event.path.encode(), encode(event)) for event in events))


def shown(site: Site) -> dict[tuple[str, str], tuple[str, str]]:
    """What kafka-consumer-groups prints as the lag of each group in each topic (`-`: nothing is known yet), and the
    name of the member that has it (empty: nobody).
    """
    printed = tool(
        "consumer.group.ConsumerGroupCommand", "--bootstrap-server", site.bootstrap, "--describe", "--all-groups"
    )
    rows = [line.split() for line in printed.splitlines() if line.startswith(("GROUP", "paceline"))]
    titles = ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID"]
    assert all(row[:7] == titles for row in rows if row[0] == "GROUP")
    return {(row[0], row[1]): (row[5], row[6][:-UUID]) for row in rows if row[0] != "GROUP"}


def until_read(site: Site, *names: str) -> dict[tuple[str, str], str]:
    """Waits until every group is shown with a member and without a lag, in as many groups as there are parts; returns
    the members.
    """
    found: dict[tuple[str, str], tuple[str, str]] = {}

    def all_read() -> bool:
        found.clear()
        found.update(shown(site))
        groups = {group for group, _ in found}
        return len(groups) == len(names) and all(lag == "0" and member for lag, member in found.values())

    site.until(all_read, "every lag to be 0")
    return {place: member for place, (_, member) in found.items()}


def keys(site: Site, *topics: str) -> list[str]:
    """The keys that kafka-console-consumer prints of all messages of topics."""
    log = KafkaLog(site.bootstrap)
    count = sum(log.bounds(topic)[1] for topic in topics)
    log.close()
    words = ["--bootstrap-server", site.bootstrap, "--include", "|".join(topics), "--from-beginning"]
    form = [f"--formatter-property=print.{part}={shown}" for part, shown in (("key", "true"), ("value", "false"))]
    return tool("consumer.ConsoleConsumer", *words, "--max-messages", str(count), *form).splitlines()


def states(site: Site) -> list[str]:
    """The states of jobs that the fan-out has published."""
    log = KafkaLog(site.bootstrap)
    events = [decode(record.value) for record in log.scan("paceline.job-states", 0)]
    log.close()
    return [event.state for event in events if isinstance(event, JobStateChanged)]


def described(topic: Topic) -> str:
    """What the description of the topics says of the keys of one."""
    [message] = topic.messages()
    summary = YAML(typ="safe").load(asyncapi.TARGET)["components"]["messages"][message.stem]["summary"]
    found = re.search(r"Key: ([^.;]+)", summary)
    assert found is not None, summary
    return found[1]


def test_the_tools_of_kafka_show_groups_lags_and_keys_that_make_sense(site: Site) -> None:
    site.start(*MACHINES)
    site.until_ready(*MACHINES)
    pools(site, "/maps", "/maps/tiles")
    assert until_read(site, *MACHINES) == {
        (f"paceline.processor.{name}", topic): name
        for name, make in machines(0).items()
        for topic in (*make().facts, *map(rounds_of, make().peers))
    }

    site.stop("entitlement")
    pools(site, "/late-1", "/late-2", "/late-3")
    assert shown(site)["paceline.processor.entitlement", "paceline.pools"] == ("3", ""), "nobody reads"
    site.start("entitlement")
    until_read(site, *MACHINES)

    assert keys(site, "paceline.pools") == ["/maps", "/maps/tiles", "/late-1", "/late-2", "/late-3"]
    rounds = [f"paceline.{machine}" for machine in MACHINES]
    assert {key.split()[2] for key in keys(site, *rounds)} == {f"machine={machine}" for machine in MACHINES}


def test_the_tools_of_kafka_show_projector_and_fan_out_and_its_keys_are_those_of_the_description(site: Site) -> None:
    parts = (*MACHINES, "projector", "fanout")
    site.start(*parts, "gateway.0")
    site.until_ready(*parts, "gateway.0")
    pools(site, "/maps")
    job = JobSubmitted(job_id="tiles", pool="/maps", instances=4, gang_min=2, simulated=Simulated(200))
    site.append(
        0, NewRecord(job.topic, b"a stranger", b"what nobody can read"), NewRecord(job.topic, b"tiles", encode(job))
    )
    site.until(lambda: "SUCCEEDED" in states(site), "the job to succeed")
    site.stop("gateway.0")  # nobody writes facts any more

    [views] = {group for group, _ in shown(site) if group.startswith("paceline.projector.")}
    assert views.endswith(str(site.folder / "data").replace("/", "_")), "that of its data folder"
    groups = (views, "paceline.fanout")
    of_views = {(views, topic.name): "projector" for topic in VIEWED}
    of_fanout = {("paceline.fanout", rounds_of(machine)): "fanout" for machine in MACHINES}
    read = until_read(site, *parts)
    assert {place: member for place, member in read.items() if place[0] in groups} == of_views | of_fanout

    for name in ("projector", "fanout"):
        site.stop(name)
    pools(site, "/late-1", "/late-2")
    site.until(lambda: shown(site)["paceline.fanout", "paceline.entitlement"][0] != "0", "what is to be published")
    found = shown(site)
    assert found[views, "paceline.pools"] == ("2", ""), "nobody reads"
    assert {found[place][1] for place in (*of_views, *of_fanout)} == {""}
    site.start("projector", "fanout")
    assert until_read(site, *parts) == read

    named = {
        "JOB/INSTANCE": {"tiles/0", "tiles/1", "tiles/2", "tiles/3"},
        "JOB/FIRST INSTANCE": {"tiles/0", "tiles/2", "tiles/3"},
        "the job": {"tiles"},
        "TOPIC:OFFSET of the record": {"paceline.jobs:0"},
    }
    for topic in FANOUT:
        if topic.name != "paceline.preemptions":  # there was none
            assert set(keys(site, topic.name)) == named[described(topic)], topic.name
    site.end()
