"""Secrets in a cell of separate processes on Kafka: the API keeps nothing, all gateways have them, no topic does."""

import base64
import os
import subprocess
import sys
from pathlib import Path

import pytest

from events.log.kafka.kafka_log import KafkaLog
from events.log.lookup import records
from events.topics import EVERY
from tests.helpers.broker import Broker
from tests.helpers.site import TOKEN, Site, empty

pytestmark = pytest.mark.xdist_group("processes")


def test_any_gateway_of_a_cell_hands_out_what_was_put_through_the_api(broker: Broker, tmp_path: Path) -> None:
    canary, store = f"canary-{os.urandom(12).hex()}", tmp_path / "shared" / "secrets"
    store.parent.mkdir()
    site = Site(tmp_path / "site", empty(broker, 1), sim_hosts=0, PACELINE_SERVICE__SECRETS=str(store))
    log = KafkaLog(broker.address)
    try:
        site.gateway("gateway.0.b")  # the API is to know it
        site.begin("gateway.0.b", "agent.0")
        site.pool("/p")
        done = subprocess.run(
            [sys.executable, "-m", "paceline", "secret", "put", "db", "--server", site.address("api")],
            input=canary.encode(),
            capture_output=True,
            env={**os.environ, "PACELINE_TOKEN": TOKEN},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        script = "wc -c < $PACELINE_SECRET_DB; cat $PACELINE_SECRET_DB; exec sleep 600"
        for job_id, gone in (("one", "gateway.0"), ("two", "gateway.0.b")):
            job = {"kind": "stateless", "command": ["sh", "-c", script], "secrets": ["db"], "sim": None}
            site.submit(job_id, **job)
            site.until(lambda job_id=job_id: site.running(job_id) == 1, f"{job_id} to run")
            covered = f"{len(canary)}\n{'*' * len(canary)}"
            path = f"/v1/jobs/{job_id}/tasks/0/log?run=1"
            site.until(lambda path=path, covered=covered: site.request("GET", path).text == covered)
            site.kill(gone)
        forms = [canary.encode(), *(base64.b64encode(b"\0" * pad + canary.encode())[4:-4] for pad in range(3))]
        for topic in EVERY:
            for record in records(log, topic.name, *log.bounds(topic.name)):
                assert not [form for form in forms if form in record.value + record.key], topic.name
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert {path for path in files if store.parent in path.parents} == {
            store.with_suffix(".key"),
            store / "db" / "1",
        }
        assert not [path for path in files if any(form in path.read_bytes() for form in forms)]
        site.start("gateway.0")
        site.until_ready("gateway.0")
        for job_id in ("one", "two"):
            site.request("POST", f"/v1/jobs/{job_id}/stops", {"command_id": f"end-{job_id}"})
        site.until(lambda: not site.running("one") + site.running("two"))
    finally:
        site.processes.stop_all()
        log.close()
