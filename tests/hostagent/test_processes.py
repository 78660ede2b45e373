"""Gateways, API servers and agents as processes of their own, on a real Kafka."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from events.topics import MACHINES
from hostagent.runs import stop_all
from tests.helpers.broker import Broker
from tests.helpers.site import TOKEN, Site, empty

pytestmark = pytest.mark.xdist_group("processes")

GATEWAYS = ("gateway.0", "gateway.0.b")
APIS = ("api", "api.two")
AGENT = "agent.0"


@pytest.fixture
def site(broker: Broker, tmp_path: Path) -> Iterator[Site]:
    """Topics of one cell, no process yet; hosts are agents."""
    found = Site(tmp_path, empty(broker, 1), sim_hosts=0)
    yield found
    found.processes.stop_all()
    assert stop_all(tmp_path / AGENT)[1] == 0


def submit(site: Site, job_id: str) -> None:
    """A job that notes its start, says something, and goes on."""
    script = f"echo {job_id} >> {site.folder}/started; echo I am {job_id}; exec sleep 600"
    body = {"job_id": job_id, "pool": "/p", "command": ["sh", "-c", script], "resources": {"cpu": "10m"}}
    answer = site.request("POST", "/v1/jobs", body)
    assert answer.status_code < 300, answer.text


def started(site: Site) -> list[str]:
    path = site.folder / "started"
    return path.read_text().split() if path.exists() else []


def followed(site: Site) -> tuple[str, int]:
    """The gateway that the agent follows, and how often it connected."""
    found = re.findall(r"follows cell 0 through http://(\S+)", site.said(AGENT))
    return next((name for name in GATEWAYS if found and site.gateway(name) == found[-1]), ""), len(found)


def outputs(site: Site, job_id: str) -> set[tuple[int, str]]:
    answers = [site.request("GET", f"/v1/jobs/{job_id}/tasks/0/log", api=api) for api in APIS]
    return {(answer.status_code, answer.text) for answer in answers}


def until_moved(site: Site, before: tuple[str, int]) -> None:
    site.until(lambda: followed(site)[0] not in ("", before[0]), f"the agent to leave {before[0]}")


def test_a_task_and_its_agent_outlive_gateways(site: Site) -> None:
    for name in GATEWAYS:
        site.gateway(name)  # which the API is told
    site.start("api")
    site.until(lambda: (site.health("api") or {}).get("waits_for_views_of") == [0], "the API to wait for views")
    site.start(*MACHINES, "projector", *GATEWAYS)
    site.start("api.two", AGENT)
    site.until_ready(*MACHINES, "projector", *GATEWAYS, *APIS)
    site.pool("/p")
    submit(site, "one")
    site.until(lambda: started(site) == ["one"])
    site.until(lambda: outputs(site, "one") == {(200, "I am one\n")}, "both API servers to show the output")

    first = followed(site)
    site.kill(first[0])
    submit(site, "two")
    until_moved(site, first)
    site.until(lambda: outputs(site, "two") == {(200, "I am two\n")})
    site.until(lambda: outputs(site, "one") == {(200, "I am one\n")}, "the dead gateway to be skipped")

    site.start(first[0])
    site.until_ready(first[0])
    second = followed(site)
    site.freeze(second[0])
    submit(site, "three")
    until_moved(site, second)
    site.until(lambda: started(site) == ["one", "two", "three"])
    site.thaw(second[0])
    site.until_ready(second[0])
    site.until(lambda: [site.running(job_id) for job_id in ("one", "two", "three")] == [1, 1, 1])
    said = [site.request("GET", path, api=api).json() for path in ("/v1/jobs", "/v1/hosts") for api in APIS]
    assert (said[0], said[2]) == (said[1], said[3])
    assert [host["state"] for host in said[2]["hosts"]] == ["UP"]
    site.end()
    assert started(site) == ["one", "two", "three"]
    found = site.verify()
    assert (found["ordered"], found["live"]) == (3, 3)
    assert "3 runs go on" in site.said(AGENT)


def run(*words: str) -> str:
    """The sentence of a command that can't start; before it, where it listens and what it found of other agents."""
    done = subprocess.run([sys.executable, "-m", "paceline", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    before = ("listens at", "is taken by another agent")
    [said] = [line for line in done.stderr.splitlines() if not any(each in line for each in before)]
    return said


def test_without_a_broker_they_are_not_ready_and_end_within_ten_seconds(site: Site, broker: Broker) -> None:
    names = [*MACHINES, "projector", "gateway.0", "api"]
    site.start(*names, AGENT)
    site.until_ready(*names)
    site.until(lambda: followed(site)[1])
    data = ("--data", str(site.folder / "data"), "--listen", "127.0.0.1:0")
    assert "in use by another gateway" in run("gateway", "--kafka", site.bootstrap, "--name", "gateway.0", *data)
    broker.kill()
    site.until(lambda: not site.ready("gateway.0") and not site.ready("api"))
    begin = time.monotonic()
    site.end()
    assert time.monotonic() - begin < 10.0


def test_an_agent_that_can_not_start_says_why_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    agent = ("agent", "--data", str(tmp_path), "--server", "127.0.0.1:1", "--token-file", str(tmp_path / "token"))
    assert "is no id of a host" in run(*agent, "--host-id", "a b")
    assert "no such port" in run(*agent, "--listen", "127.0.0.1:99999")
