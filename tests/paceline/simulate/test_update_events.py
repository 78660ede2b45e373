"""Services are updated, restarted and rolled back in scenarios, and lose no more instances than they allow."""

import pytest

from events.records.lifecycle import RunsEnded
from events.records.parts import Cause
from paceline.simulate.checker import Checker, Violation
from processors.lifecycle.updates import decisions
from processors.lifecycle.updates.window import Room
from projections.queries.causes import Causes
from tests.helpers.play import CELL, play
from tests.helpers.whole_log import WholeLog

SERVICE = "kind: stateless, instances: 4, resources: {cpu: 1}, update: {UPDATE}, sla: {max_unavailable: 1}"
GOOD = "sim: {duration: 10h, ready: 1s}"
BAD = "sim: {duration: 1s, exit_code: 1}"


def scenario(update: str, *events: str, expect: str) -> str:
    service = SERVICE.replace("UPDATE", update)
    happen = ", ".join(event.replace("SERVICE", f"job_id: web, pool: /p, {service}") for event in events)
    return (
        f"{CELL}end: 10m\njobs: [{{job_id: web, pool: /p, {service}, {GOOD}}}]\nevents: [{happen}]\n"
        f"expect:\n  - {{always: job web tasks RUNNING >= 3, since: 30s}}\n{expect}"
    )


NEW = "{at: 30s, update: {SERVICE, command: [two], " + GOOD + "}}"
FAILING = "{at: 30s, update: {SERVICE, command: [bad], " + BAD + "}}"


@pytest.mark.parametrize(
    ("update", "events", "expected"),
    [
        ("batch: 1", [NEW], "UpdateStarted, RunsStopping, RunsAvailable, UpdateEnded"),
        ("", [NEW], "UpdateStarted, DisruptionAsked, DisruptionAllowed, RunsStopping, UpdateEnded"),
        ("batch: 1, max_failures: 1", [FAILING], "UpdateStarted, UpdateEnded"),
        (
            "batch: 2, max_failures: 1, max_attempts: 2, roll_back: true",
            [FAILING],
            "UpdateStarted, UpdateEnded, UpdateStarted, UpdateEnded",
        ),
        ("batch: 1, max_failures: 1", [FAILING, "{at: 50s, roll_back: web}"], "UpdateStarted, UpdateStarted"),
        ("batch: 1", [FAILING, NEW.replace("30s", "45s")], "UpdateStarted, UpdateEnded, UpdateStarted, UpdateEnded"),
        ("batch: 1", ["{at: 30s, restart: {job_id: web, batch: 1}}"], "UpdateStarted, RunsStopping, UpdateEnded"),
        (
            "batch: 1",
            [NEW, "{at: 35s, pause: web}", "{at: 2m, resume: web}"],
            "UpdateStarted, UpdatePaused, UpdatePaused, UpdateEnded",
        ),
        ("batch: 1", [NEW, "{at: 35s, abort: web}"], "UpdateStarted, UpdateEnded"),
        ("canary: 1", [NEW, "{at: 2m, promote: web}"], "UpdateStarted, UpdatePromoted, UpdateEnded"),
        ("batch: 1", [NEW, "{at: 40s, fails: h-1}", "{at: 50s, returns: h-1}"], "UpdateStarted"),
    ],
)
def test_no_update_takes_more_than_the_service_allows(update: str, events: list[str], expected: str) -> None:
    text = scenario(update, *events, expect=f"  - {{by: 10m, that: 'events {expected}'}}\n")
    if "fails" in str(events):  # what a host takes with it isn't the update's
        text = text.replace(
            "always: job web tasks RUNNING >= 3, since: 30s", "at: 10m, that: job web tasks RUNNING == 4"
        )
    session = play(text)
    assert not session.failed(), session.run.watch.verdicts()
    Checker(session.run.cell.log).look()


def test_the_checker_finds_an_update_that_takes_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "room", lambda *_: Room(4, 4))
    session = play(scenario("batch: 1", NEW, expect="").replace("RUNNING >= 3", "RUNNING >= 0"))
    with pytest.raises(Violation, match="4 instances of web updated at a time, not 1"):
        Checker(session.run.cell.log).look()


def test_a_run_that_an_update_ends_is_followed_back_to_who_was_taken() -> None:
    index = WholeLog(play(scenario("batch: 1", NEW, expect="")).run.cell.log)
    log = Causes(index)
    places = [(event, Cause(machine=name, round=number, index=at)) for (name, number), events in index.rounds.items()
              if name == "lifecycle" for at, event in enumerate(events)]  # fmt: skip
    ended = next(place for event, place in places if isinstance(event, RunsEnded))
    reached = {type(log.event(link.cause)).__name__ for link in log.back(ended)}
    assert {"RunsStopping", "DisruptionAllowed", "DisruptionAsked", "InstancesTaken"} <= reached
