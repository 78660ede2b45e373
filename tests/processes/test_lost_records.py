"""Acknowledged records are gone: each kind of process stops and says so, and none of them skips anything."""

from pathlib import Path

from events.log.kafka.topics import create
from events.log.port import NewRecord
from events.topics import ALL, MACHINES
from tests.helpers.broker import Broker
from tests.helpers.site import Site, empty

FOLLOWERS = (*MACHINES, "projector", "fanout", "gateway.0")


def ends_with_its_reason(site: Site, name: str, reason: str) -> None:
    """One sentence that names a topic and what to do, in the last line that it says."""
    assert site.until_ended(name) == 1, name
    last = site.said(name).splitlines()[-1]
    assert "paceline." in last, last
    assert reason in last, last
    assert "estore " in last, last
    assert "Traceback" not in site.said(name), name


def test_a_broker_that_lost_its_data_stops_the_cell(tmp_path: Path) -> None:
    with Broker(tmp_path / "kafka") as broker:
        create(broker.address, 1)
        site = Site(tmp_path / "site", broker.address)
        try:
            site.begin()
            site.pool("/p")
            site.submit("before", 5)
            site.finish("before")
            broker.kill()
            # Nobody looks between the start and the new topics: who has nothing stored yet may begin anew after a look
            # that finds no topic.
            for name in FOLLOWERS:
                site.freeze(name)
            broker.lose_data()
            broker.start()
            create(broker.address, 1)
            for name in FOLLOWERS:
                site.thaw(name)
            for name in FOLLOWERS:
                ends_with_its_reason(site, name, "")
            assert site.state("before") == "SUCCEEDED", "what was read is still shown"
            answer = site.request("GET", "/readyz")
            assert answer.status_code == 503
            assert "records are missing" in answer.text
            refused = site.request("POST", "/v1/jobs", {"job_id": "after", "pool": "/p", "command": ["true"]})
            assert (refused.status_code, refused.json()["code"]) == (503, "RECORDS_MISSING")
        finally:
            site.processes.stop_all()


def test_records_that_were_removed_before_they_were_read_stop_the_cell(broker: Broker, tmp_path: Path) -> None:
    site = Site(tmp_path, empty(broker, 1))
    names = ("entitlement", "projector", "fanout", "gateway.0")
    try:
        site.start(*names)
        site.until_ready(*names)
        for name in names:
            site.freeze(name)
        for topic in ALL:
            [offset] = site.append(0, NewRecord(topic.name, b"", b"nobody reads this"))
            site.remove(0, topic.name, offset + 1)
        for name in names:
            site.thaw(name)
        for name in names:
            ends_with_its_reason(site, name, "starts at")
    finally:
        site.processes.stop_all()
