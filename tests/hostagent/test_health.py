"""Health checks of real processes by a real agent."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from events.records.jobs import JobSubmitted
from events.records.parts import HealthCheck
from hostagent.health import _command_fault
from hostagent.run_record import Check
from hostagent.runs import stop_all
from tests.helpers.ports import kept_port
from tests.hostagent.cell import stopping
from tests.hostagent.test_agent import HOST, Site, shell

PATIENT = 60
"""So many checks a server has until it listens."""
FAST = {"interval_ms": 100, "timeout_ms": 5000, "failures": 2}
SERVER = """
import http.server, os, pathlib
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        ill = self.path == "/ready" and pathlib.Path("ill").exists()
        self.send_response(503 if ill else 200)
        self.end_headers()
        self.wfile.write(b"out of cheese" if ill else b"fine")
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", int(os.environ["PACELINE_PORT_WEB"])), Handler).serve_forever()
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path / "agent")
    site.start_agent()
    yield site
    if site.agent is not None:
        site.stop_agent()
    assert stop_all(site.folder)[1] == 0
    site.cell.turn()
    site.cell.gateway.close()
    site.server.stop()


def check(kind: str, **more: Any) -> HealthCheck:
    return HealthCheck(kind, **{"port": "" if kind == "command" else "web", "path": "/ready", **FAST, **more})


def server(health: HealthCheck) -> JobSubmitted:
    command = (sys.executable, "-c", SERVER)
    return JobSubmitted(job_id="web", pool="/p", command=command, ports=("web",), health=health)


def work(site: Site, job_id: str) -> Path:
    return site.folder / "tasks" / f"{job_id}.0.1"


def test_a_server_is_healthy_once_it_answers_and_unhealthy_when_it_answers_otherwise(site: Site) -> None:
    site.run(server(check("http", failures=PATIENT)), kept_port())
    site.says("web", 0, 1, "STARTED", 0)
    site.says("web", 0, 1, "HEALTHY", 0)
    (work(site, "web") / "ill").touch()
    site.says("web", 0, 1, "UNHEALTHY", 0)
    [why] = site.cell.why()
    assert why.startswith(f"the health check failed {PATIENT} times in a row: GET http://127.0.0.1:")
    assert why.endswith("/ready was answered with 503")
    site.cell.decide(stopping([("web", 0, 1)], [HOST]))
    site.says("web", 0, 1, "STOPPED", 143)


def test_a_connection_is_enough_for_a_check_over_tcp(site: Site) -> None:
    site.run(server(check("tcp", failures=PATIENT)), kept_port())
    site.says("web", 0, 1, "HEALTHY", 0)


def test_a_port_on_which_nobody_listens_is_unhealthy(site: Site) -> None:
    site.run(shell("j", "sleep 600", ports=("web",), health=check("tcp")), kept_port())
    site.says("j", 0, 1, "UNHEALTHY", 0)
    assert "refused" in site.cell.why()[0].lower() or "connect" in site.cell.why()[0].lower()


def test_a_program_checks_with_the_environment_and_the_folder_of_its_task(site: Site) -> None:
    script = 'test "$MINE" = yes && cat state'
    health = check("command", command=("sh", "-c", script), failures=PATIENT)
    site.run(shell("j", "echo fine > state; sleep 600", env={"MINE": "yes"}, health=health))
    site.says("j", 0, 1, "HEALTHY", 0)
    (work(site, "j") / "state").unlink()
    site.says("j", 0, 1, "UNHEALTHY", 0)
    [why] = site.cell.why()
    assert why.startswith(f"the health check failed {PATIENT} times in a row: sh exited with 1: ")
    assert "state: No such file" in why


def test_a_check_that_takes_too_long_fails_and_is_killed(site: Site) -> None:
    health = check("command", command=("sh", "-c", "echo $$ > pid; sleep 600"), timeout_ms=300, failures=1)
    site.run(shell("j", "sleep 600", health=health))
    site.says("j", 0, 1, "UNHEALTHY", 0)
    assert site.cell.why() == ["the health check failed once: no answer within 300 ms"]
    pid = int((work(site, "j") / "pid").read_text())
    site.cell.until(lambda: not Path(f"/proc/{pid}").exists())


def test_a_check_is_over_with_its_program_whatever_that_leaves(site: Site) -> None:
    script = "sleep 600 & echo $! > child; setsid sleep 30 & echo $! > escaped; exit 0"
    site.run(shell("j", "sleep 600", health=check("command", command=("sh", "-c", script), timeout_ms=2000)))
    site.says("j", 0, 1, "HEALTHY", 0)
    child = int((work(site, "j") / "child").read_text())
    site.cell.until(lambda: not Path(f"/proc/{child}").exists())


def test_a_program_that_does_not_exist_fails_its_check(site: Site) -> None:
    site.run(shell("j", "sleep 600", health=check("command", command=("no-such-program",), failures=1)))
    site.says("j", 0, 1, "UNHEALTHY", 0)
    assert "No such file or directory: 'no-such-program'" in site.cell.why()[0]


def test_a_run_that_is_being_stopped_is_checked_no_more(site: Site) -> None:
    script = 'trap "touch asked; sleep 600 & wait; exit 0" TERM; touch fine; while :; do sleep 0.05; done'
    site.run(shell("j", script, stop_grace_ms=1500, health=check("command", command=("test", "!", "-e", "asked"))))
    site.says("j", 0, 1, "HEALTHY", 0)
    site.cell.decide(stopping([("j", 0, 1)], [HOST]))
    site.says("j", 0, 1, "STOPPED", 137)
    assert ("j", 0, 1, "UNHEALTHY", 0) not in list(site.cell.said())


def test_an_agent_that_starts_anew_knows_what_was_healthy_and_goes_on_checking(site: Site) -> None:
    health = check("command", command=("test", "-e", "fine"), failures=PATIENT)
    site.run(shell("j", "touch fine; sleep 600", health=health))
    site.says("j", 0, 1, "HEALTHY", 0)
    assert site.stop_agent() == 1
    site.start_agent()
    assert site.cell.inventories()[-1] == [("j", 0, 1, "HEALTHY", 0)]
    (work(site, "j") / "fine").unlink()
    site.says("j", 0, 1, "UNHEALTHY", 0)
    assert site.stop_agent() == 1
    site.start_agent()
    assert site.cell.inventories()[-1] == [("j", 0, 1, "UNHEALTHY", 0)]


def test_a_check_begins_after_its_delay(site: Site) -> None:
    """Were it not so, a run that is ready late would be ended first."""
    script = "import pathlib, time; p = pathlib.Path('first'); p.exists() or p.write_text(str(time.time()))"
    health = check("command", command=(sys.executable, "-c", script), delay_ms=1500)
    site.run(shell("j", "date +%s.%N > begun; sleep 600", health=health))
    site.says("j", 0, 1, "HEALTHY", 0)
    begun, first = ((work(site, "j") / name).read_text() for name in ("begun", "first"))
    assert float(first) - float(begun) > 1.0


@pytest.mark.anyio
@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs programs as another user")
async def test_a_check_as_another_user_gains_nothing_from_a_setuid_program() -> None:
    user = {"uid": 12345, "gid": 12345, "groups": []}
    words = ("sh", "-c", "grep NoNewPrivs /proc/self/status; exit 1")
    check = Check(HealthCheck(kind="command", command=words), 0, "/", {"PATH": "/usr/bin:/bin"}, user)
    assert (await _command_fault(check, 10.0)).endswith("NoNewPrivs:\t1")
