"""A cell of separate processes on Kafka: whoever dies, the one who entered a run hears of it, and so does the log."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from events.codec import decode
from events.log.kafka.kafka_log import KafkaLog
from events.log.lookup import records
from events.records.tasks import ExecClosed, ExecOpened
from events.topics import TASKS
from tests.helpers.broker import Broker
from tests.helpers.site import READY_S, TOKEN, Site, empty

pytestmark = pytest.mark.xdist_group("processes")
HEARD_S = 10.0


def closed(log: KafkaLog) -> dict[str, list[ExecClosed]]:
    """The ends of all who entered."""
    found: dict[str, list[ExecClosed]] = {}
    for record in records(log, TASKS.name, *log.bounds(TASKS.name)):
        event = decode(record.value)
        if isinstance(event, ExecOpened):
            found.setdefault(event.exec_id, [])
        elif isinstance(event, ExecClosed):
            found[event.exec_id].append(event)
    return found


def sleeping(mark: str) -> bool:
    return subprocess.run(["pgrep", "-f", f"sleep {mark}"], capture_output=True, check=False).returncode == 0


def entered(site: Site, job: str, script: str) -> subprocess.Popen[str]:
    """A client in a run of a job whose script has said "in". An agent or a gateway that was just started again may not
    be connected yet: that is told, and it enters once it is.
    """
    words = ["job", "exec", job, "--server", site.address("api"), "--", "sh", "-c", script]
    deadline = time.monotonic() + READY_S
    while True:
        client = subprocess.Popen(
            [sys.executable, "-m", "paceline", *words],
            env={**os.environ, "PACELINE_TOKEN": TOKEN},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert client.stdout is not None
        if client.stdout.readline() == "in\n":
            return client
        _, errors = client.communicate()
        assert "(NOT_REACHED)" in errors, errors
        assert time.monotonic() < deadline, errors


def test_whoever_is_killed_the_one_who_entered_hears_of_it_and_the_run_goes_on(broker: Broker, tmp_path: Path) -> None:
    site = Site(tmp_path, empty(broker, 1), sim_hosts=0)
    log = KafkaLog(broker.address)
    try:
        site.begin("agent.0")
        site.pool("/p")
        site.submit("web", kind="stateless", command=["sh", "-c", "while :; do sleep 0.2; done"])
        site.until(lambda: site.running("web") == 1)
        for number, name in enumerate(("agent.0", "gateway.0", "api", "client")):
            mark = f"{3000 + number}.{os.getpid()}"
            inside = entered(site, "web", f"echo in; sleep {mark}; exit 7")
            began = time.monotonic()
            if name == "client":
                inside.send_signal(signal.SIGKILL)
                inside.communicate(timeout=HEARD_S)
            else:
                site.kill(name)
                _, errors = inside.communicate(timeout=3 * HEARD_S)
                assert (inside.returncode, "connection" in errors) == (255, True), errors
                assert time.monotonic() - began < 2 * HEARD_S
                site.start(name)
            site.until(lambda mark=mark: not sleeping(mark), f"the command to end after {name} was killed")
            if name != "client":
                site.until_ready(*([name] if name != "agent.0" else []))
            site.until(lambda: all(len(each) == 1 for each in closed(log).values()), f"one end for {name}")
            assert site.running("web") == 1
        assert len(closed(log)) == 4
        assert {end.exit_code for ends in closed(log).values() for end in ends} == {255}
        site.request("POST", "/v1/jobs/web/stops", {"command_id": "end", "reason": ""})
        site.until(lambda: site.state("web") == "KILLED")
        site.end()
    finally:
        site.processes.stop_all()
        log.close()
    site.verify()
