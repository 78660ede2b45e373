"""Windows of maintenance over HTTP: what is written, what is refused, and what is shown of them."""

from datetime import UTC, datetime

import pytest

from events import time_zones
from events.codec import decode
from events.codes import Stage
from events.records.hosts import MaintenanceWindowRemoved, MaintenanceWindowSet
from events.records.parts import Cause
from events.records.placement import HostsAnswered, MaintenanceWindowChanged
from projections.views.projector import rebuild
from tests.helpers.maintenance import NOBODY, by_fact, stage_of
from tests.helpers.written_cell import dump

NIGHT = {
    "hosts": {"attribute": "rack", "values": ["a"]},
    "schedule": "0 2 * * 2",
    "duration": "4h",
    "time_zone": "Europe/Berlin",
    "lead": "1h",
}
PATH = "/v1/maintenance-windows/night"


def ms(text):
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def hosts(api, *names, **attributes):
    for name in names:
        api.cell.host(name, **attributes)
    api.fold()


def last(api):
    return decode(list(api.cell.log.scan("paceline.hosts", 0))[-1].value)


def said(api, state, opens="", hours=4, cause=None):
    opens_ms = ms(opens) if opens else 0
    closes_ms = opens_ms + hours * 3_600_000 if opens else 0
    times = {"opens_ms": opens_ms, "closes_ms": closes_ms}
    return MaintenanceWindowChanged(window_id="night", state=state, cause=cause, **times)


def set_(api, opens, **more):
    """Sets the window, as placement answers."""
    assert api.client.put(PATH, json={**NIGHT, **more}).status_code == 202
    at = api.cell.log.bounds("paceline.hosts")[1] - 1
    answer = HostsAnswered(hosts_offset=at, command_id=last(api).command_id, code="DONE")
    api.cell.decide("placement", said(api, "SET", opens, cause=by_fact(at)), answer)
    api.fold()


def passes(api, *events):
    api.cell.ms += 1000
    api.cell.decide("placement", *events)
    api.fold()


def test_a_window_is_written_with_the_offsets_of_its_zone(api):
    hosts(api, "h1", "h10", "h2", rack="a")
    hosts(api, "h3", rack="b")
    answer = api.client.put(PATH, json={**NIGHT, "escalate": "force", "reason": "patches", "command_id": "mine"})
    assert (answer.status_code, answer.headers["location"]) == (202, PATH)
    fact = last(api)
    assert isinstance(fact, MaintenanceWindowSet)
    assert (fact.window_id, fact.host_ids, fact.command_id) == ("night", ("h1", "h2", "h10"), "mine")
    assert (fact.schedule, fact.duration_ms, fact.lead_ms) == ("0 2 * * 2", 14_400_000, 3_600_000)
    assert (fact.escalate, fact.reason, fact.zone.name) == ("force", "patches", "Europe/Berlin")
    assert len(fact.zone.offset_s) > 18
    assert fact.actor is not None


def refused(api, **more):
    end = api.cell.log.bounds("paceline.hosts")[1]
    body = api.problem(api.client.put(PATH, json={**NIGHT, **more}), 422, "INVALID_REQUEST")
    assert api.cell.log.bounds("paceline.hosts")[1] == end
    return [(each["pointer"], each["message"]) for each in body["errors"]]


def test_a_zone_that_is_unknown_is_refused_with_the_nearest_name(api):
    hosts(api, "h1", rack="a")
    [(pointer, message)] = refused(api, time_zone="Europe/Zurch")
    assert (pointer, "did you mean Europe/Zurich" in message) == ("/time_zone", True)


def test_without_data_about_zones_a_sentence_says_so_and_nothing_is_written(api, monkeypatch):
    hosts(api, "h1", rack="a")

    def nothing(name):
        raise KeyError(name)

    time_zones._zone.cache_clear()
    monkeypatch.setattr(time_zones, "ZoneInfo", nothing)
    monkeypatch.setattr(time_zones, "available_timezones", set)
    [(pointer, message)] = refused(api, time_zone="Europe/Vienna")
    assert pointer == "/time_zone"
    assert "this system has no data about time zones: install its package tzdata, or write UTC" in message
    assert api.client.put(PATH, json={**NIGHT, "time_zone": "UTC"}).status_code == 202


@pytest.mark.parametrize(
    ("more", "pointer"),
    [
        ({"schedule": "0 25 * * *"}, "/schedule"),
        ({"duration": "8d"}, "/duration"),
        ({"duration": "30s"}, "/duration"),
        ({"lead": "8d"}, "/lead"),
        ({"escalate": "cordon"}, "/lead"),
    ],
)
def test_what_makes_no_sense_is_refused_by_the_field(api, more, pointer):
    hosts(api, "h1", rack="a")
    assert [each for each, _ in refused(api, **more)] == [pointer]


def test_hosts_that_nobody_knows_are_refused(api):
    hosts(api, "h1", rack="a")
    one_unknown = {**NIGHT, "hosts": {"ids": ["h1", "h9"]}}
    api.problem(api.client.put(PATH, json=one_unknown), 404, "NOT_FOUND")
    api.problem(api.client.get(PATH), 404, "NOT_FOUND")
    api.problem(api.client.delete(PATH), 404, "NOT_FOUND")


def test_windows_are_shown_by_utc_and_by_their_own_clocks(api):
    hosts(api, "h1", "h2", rack="a")
    set_(api, "2026-11-24T01:00")
    [window] = api.get("/v1/maintenance-windows")["windows"]
    assert (window["state"], window["opens_at"], window["opens_local"], window["closes_at"]) == (
        "SET",
        "2026-11-24T01:00:00.000Z",
        "2026-11-24T02:00+01:00",
        "2026-11-24T05:00:00.000Z",
    )
    assert (window["time_zone"], window["duration"], window["lead"], window["hosts"]) == (
        "Europe/Berlin",
        "4h",
        "1h",
        2,
    )
    assert "host_ids" not in window
    assert api.get(PATH)["host_ids"] == ["h1", "h2"]
    assert window["known_until"] > "2030"


def test_the_last_missed_opening_is_told_and_an_edit_keeps_it(api):
    hosts(api, "h1", rack="a")
    set_(api, "2026-11-24T01:00")
    missed = Cause(due_ms=ms("2026-11-24T01:00"))
    passes(api, said(api, "MISSED", "2026-12-01T01:00", cause=missed))
    set_(api, "2026-12-01T01:00", reason="other words")
    window = api.get(PATH)
    assert (window["state"], window["missed_at"], window["opens_at"]) == (
        "SET",
        "2026-11-24T01:00:00.000Z",
        "2026-12-01T01:00:00.000Z",
    )
    assert (window["reason"], window["closed_at"]) == ("other words", None)


def test_a_window_opens_closes_and_is_removed_and_its_hosts_know(api, tmp_path):
    hosts(api, "h1", rack="a")
    set_(api, "2026-11-24T01:00", reason="patches")
    mine = {"by": "window", "source": "night", "code": "WINDOW"}
    passes(api, stage_of(Stage.DRAINING, "h1", **mine), said(api, "LEADING", "2026-11-24T01:00"))
    assert api.get(PATH)["state"] == "LEADING"
    assert api.get("/v1/hosts/h1")["maintenance"]["reason"] == "patches"
    passes(api, said(api, "OPEN", "2026-11-24T01:00"))
    assert api.get(PATH)["state"] == "OPEN"
    set_(api, "2026-11-24T01:00", duration="5h")
    assert api.get(PATH)["state"] == "OPEN", "it goes on"
    back = {**mine, **NOBODY}
    passes(api, stage_of(Stage.UP, "h1", **back), said(api, "CLOSED", "2026-12-01T01:00"))
    window = api.get(PATH)
    assert (window["state"], window["closed_at"]) == ("SET", "2026-11-24T05:00:00.000Z")
    assert api.client.delete(f"{PATH}?reason=over").status_code == 202
    fact = last(api)
    assert isinstance(fact, MaintenanceWindowRemoved)
    assert fact.reason == "over"
    at = api.cell.log.bounds("paceline.hosts")[1] - 1
    done = HostsAnswered(hosts_offset=at, command_id=fact.command_id, code="DONE")
    passes(api, said(api, "REMOVED", cause=by_fact(at)), done)
    assert api.get("/v1/maintenance-windows")["windows"] == []
    events = api.get("/v1/hosts/h1/history")["events"]
    assert [each["text"] for each in events if each["event"] not in ("HostConnected", "HostOffered")] == [
        "window night set: 0 2 * * 2 for 4h, of h1: patches",
        "DRAINING: WINDOW (window night)",
        "window night set: 0 2 * * 2 for 5h, of h1",
        "UP: WINDOW",
        "window night REMOVED",
    ]
    marks = [each["text"] for each in api.get("/v1/marks")["marks"] if each["shape"] == "window"]
    assert marks == ["Window night opened, Window night closed"]
    (tmp_path / "again").mkdir()
    assert dump(api.projector.views.engine) == dump(rebuild(api.cell.log, tmp_path / "again"))
