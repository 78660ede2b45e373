"""Waiting for drains and campaigns: a line for each change, until what was asked for is so."""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from events.words import listed, plural
from paceline.client.errors import TimedOut
from paceline.output import note, timed

if TYPE_CHECKING:
    from paceline.client.client import Client
    from paceline.client.host_models import Host
    from paceline.client.maintenance_models import HostMaintenance, HostWait, Maintenance, MaintenanceHost

DRAINED = "DRAINED"
TAKEN_BACK = ("UP", "CORDONED")
NAMED_MAX = 5
_PASSING = re.compile(r" \((?:in [^()]*|[^()]* ago)\)")
"""Times that are told from now on, or until now."""
_STEPS = {
    "DONE": "done",
    "FAILED": "failed",
    "SKIPPED": "skipped",
    "CHECK": "in check",
    "WORK": "at work",
    "DRAIN": "draining",
    "PENDING": "pending",
}
"""The words for the steps of hosts in a campaign, in the order in which they are told."""


def wait_text(wait: "HostWait") -> str:
    """The wait of runs on a host that drains: `web: 2 wait SLA_BUDGET_SPENT (1 of 20 unavailable, 1 may be)`."""
    runs, code = wait["runs"], wait["code"]
    if code == "RUNS_TO_ITS_END":
        return f"{wait['job_id']}: {runs} until {'it ends' if runs == 1 else 'they end'}"
    if code in ("ASKED", "NOT_YET_EVALUATED"):
        return f"{wait['job_id']}: {runs} asked for, no answer yet"
    if code == "LEAVES_LAST":
        return f"{wait['job_id']}: {runs} bound, {'leaves' if runs == 1 else 'leave'} last"
    numbers = ""
    if wait["unavailable"] is not None:
        of = f"of the group {wait['group']}" if wait["group"] else f"of {wait['instances']}"
        numbers = f" ({wait['unavailable']} {of} unavailable, {wait['allowed']} may be)"
        if code == "SLA_RATE_REACHED":
            numbers = f" ({wait['unavailable']} in an hour, {wait['allowed']} may be)"
    until = f", next at {timed(wait['until'])}" if wait["until"] else ""
    return f"{wait['job_id']}: {runs} {'waits' if runs == 1 else 'wait'} {code}{numbers}{until}"


def stage_text(maintenance: "HostMaintenance") -> str:
    """The stage of a host and what is left there: `DRAINING: 14 runs left, 2 stopping; web: ...`."""
    if maintenance["stage"] not in ("DRAINING", "DRAINING_BATCH", "FORCING"):
        return maintenance["stage"]
    text = f"{maintenance['stage']}: {plural(maintenance['runs_left'], 'run')} left"
    if stopping := maintenance.get("stopping", 0):
        text += f", {stopping} stopping"
    return "; ".join([text, *map(wait_text, maintenance.get("waits", ()))])


def host_line(host: "Host") -> str:
    """A host that is waited for in one line."""
    maintenance = host["maintenance"]
    phase = f" ({host['state']})" if host["state"] not in ("UP", "SUSPECTED") else ""
    stage = "SUSPECTED" if host["state"] == "SUSPECTED" else "UP"
    return f"host {host['host_id']} {stage_text(maintenance) if maintenance else stage}{phase}"


def campaign_line(body: "Maintenance") -> str:
    """A campaign in one line."""
    steps = [f"{body['steps'][name]} {word}" for name, word in _STEPS.items() if body["steps"].get(name)]
    bound = body.get("bound")
    return f"maintenance {body['maintenance_id']} {body['state']}: {', '.join(steps)}{f'; {bound}' if bound else ''}"


def waits_text(host: "MaintenanceHost", body: "Maintenance") -> str:
    """The wait of a host of a campaign: for its runs, or for an operator."""
    if host["step"] == "WORK" and (body["plan"].get("work") or {}).get("kind") == "manual":
        return f"until `paceline host resume {host['host_id']}`"
    return "; ".join(map(wait_text, host.get("waits", ())))


def why_text(host: "MaintenanceHost") -> str:
    """The reason by which a host failed or was skipped."""
    return f"{timed(host['message'])} ({host['code']})" if host["message"] else host["code"]


class Lines:
    """Prints a line for each thing that has changed."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def show(self, name: str, line: str) -> None:
        """Prints a line about a thing, unless it is the last one about it but for times that pass."""
        if _PASSING.sub("", self._last.get(name, "")) != _PASSING.sub("", line):
            self._last[name] = line
            note(line)

    def last(self) -> list[str]:
        """The last lines."""
        return list(self._last.values())


def wait_drained(client: "Client", host_ids: Sequence[str], timeout: float | None) -> int:
    """Waits until hosts are drained; returns the exit code. Raises `TimedOut`."""
    lines = Lines()

    def look() -> int | None:
        for hosts in client.follow_hosts(host_ids, timeout):
            for host_id, host in hosts.items():
                lines.show(host_id, host_line(host))
            stages = {host_id: host["maintenance"] for host_id, host in hosts.items()}
            if back := [each for each, of in stages.items() if of is None or of["stage"] in TAKEN_BACK]:
                note(f"{_named(back)} {'was' if len(back) == 1 else 'were'} taken back before the drain was over")
                return 1
            if all(of is not None and of["stage"] == DRAINED for of in stages.values()):
                return 0
        return None

    again = f"paceline host explain {host_ids[0]}" if len(host_ids) == 1 else "paceline host list --state DRAINING"
    return _waited(look, lines, f"{_named(host_ids)}: not drained", timeout, "the drain goes on", again)


def wait_maintained(client: "Client", maintenance_id: str, timeout: float | None) -> int:
    """Waits until a campaign is over; returns the exit code. Raises `TimedOut`."""
    lines = Lines()

    def look() -> int | None:
        for body in client.follow_maintenance(maintenance_id, timeout):
            lines.show("", campaign_line(body))
            for host in body.get("at_work", ()):
                waits = waits_text(host, body)
                lines.show(
                    host["host_id"], f"host {host['host_id']} {host['step']} {host['stage']}{': ' * bool(waits)}{waits}"
                )
            for host in body.get("not_done", ()):
                lines.show(host["host_id"], f"host {host['host_id']} {host['step']}: {why_text(host)}")
            if body["state"] == "DONE":
                return 0
            if body["state"] in ("PAUSED", "ABORTED"):
                why = f": {timed(body['message'])}" if body["message"] else ""
                note(f"maintenance {maintenance_id} is {body['state']} ({body['code']}){why}")
                return 1
        return None

    again = f"paceline maintenance status {maintenance_id}"
    what = f"maintenance {maintenance_id}: not done"
    return _waited(look, lines, what, timeout, "the maintenance goes on", again)


def _waited(
    look: Callable[[], int | None], lines: Lines, what: str, timeout: float | None, goes_on: str, again: str
) -> int:
    try:
        code = look()
    except KeyboardInterrupt:
        note(f"interrupted; {goes_on}. Look with: {again}")
        return 130
    if code is None:
        late = f"{what} after {timeout or 0:g} s; the wait ended, {goes_on}."
        raise TimedOut("\n".join([late, *(f"  {line}" for line in lines.last()[-NAMED_MAX:])]))
    return code


def _named(host_ids: Sequence[Any]) -> str:
    return f"host{'s' * (len(host_ids) > 1)} {listed(host_ids, NAMED_MAX)}"
