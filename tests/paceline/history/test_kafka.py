"""A history on Kafka is asked like one in a folder."""

import json
from datetime import UTC, datetime

from events.log.kafka.kafka_log import KafkaLog
from events.topics import EVERY, SETTINGS
from tests.helpers.real_cell import CellProcess

LONG_AGO = "2020-01-01T00:00:00Z"


def test_it_is_verified_by_many_exported_searched_and_explained(broker, cli, tmp_path):
    broker.make_topics([topic.name for topic in EVERY], 1, SETTINGS)
    cell = CellProcess(tmp_path / "cell", broker.address, sim_hosts=3)
    cell.start()
    cell.pool("/p")
    cell.submit("huge", 1, resources={"cpu": 640})
    cell.submit("small", 20)
    cell.until(lambda: cell.state("small") == "SUCCEEDED")
    cell.stop()
    on_kafka = ("--kafka", broker.address, "--data", cell.data)

    file = tmp_path / "stretch.avro"
    now = datetime.now(UTC).isoformat()
    assert cli("log", "export", *on_kafka, "--from", LONG_AGO, "--to", now, file)[0] == 0
    verified = [
        json.loads(cli("log", "verify", *where, "-o", "json")[1])
        for where in (on_kafka, (*on_kafka, "--jobs", 2), (file,))
    ]
    for body in verified:
        assert body["identical"]
        for each in body["machines"]:
            each.pop("events_per_second")
    alone, together, from_file = (
        {each["machine"]: (each["rounds"], each["hash"]) for each in body["machines"]} for body in verified
    )
    assert alone == together == from_file
    assert alone["lifecycle"][0] > 3

    expected = ("--expect", "job huge waits for NEVER_FITS", "-o", "json")
    found = json.loads(cli("log", "bisect", *on_kafka, *expected)[1])
    assert found == json.loads(cli("log", "bisect", file, *expected)[1])
    assert found["machine"] in ("entitlement", "placement")

    log = KafkaLog(broker.address)
    at = log.bounds("paceline.lifecycle")[1] - 1
    log.close()
    code, out, _ = cli("job", "explain", "huge", *on_kafka, "--at", f"lifecycle:{at}", "-o", "json")
    assert (code, json.loads(out)["headline"]["code"]) == (0, "NEVER_FITS")
    code, _, err = cli("job", "explain", "huge", *on_kafka)
    assert (code, "name a moment with --at" in err) == (2, True)
