"""Settings of a cell over HTTP: each can be changed alone, and is written as users write it."""

import pytest

from events.codec import decode
from events.records.entitlement import PoolAnswered
from events.records.pools import CellConfigured


def done(at, event):
    return (PoolAnswered(path="/", pools_offset=at, command_id=event.command_id, code="DONE"),)


def change(api, **settings):
    return api.client.patch("/v1/cell/settings?wait=30s", json=settings)


def test_a_setting_is_changed_and_all_others_stay(api):
    before = api.get("/v1/cell/settings")
    assert (before["preemption_delay"], before["resources"]) == ("2m", [])
    api.answer("paceline.pools", "entitlement", done)
    assert change(api, preemption_delay="500ms", ended_jobs_max=5).json()["code"] == "DONE"
    answer = change(api, resources=[{"name": "gpu/a100"}, {"name": "scratch", "unit": "MiB", "amount": "2TiB"}])
    assert answer.status_code == 200
    assert change(api, resources=[{"name": "matlab", "amount": 20}]).status_code == 200
    assert api.get("/v1/cell/settings") == {
        **before,
        "preemption_delay": "500ms",
        "ended_jobs_max": 5,
        "resources": [
            {"name": "gpu/a100", "unit": "milli"},
            {"name": "scratch", "unit": "MiB", "amount": "2TiB"},
            {"name": "matlab", "unit": "milli", "amount": 20},
        ],
    }


def test_the_fact_names_only_what_is_changed(api):
    assert api.client.patch("/v1/cell/settings", json={"preemption_delay": "1m"}).status_code == 202
    fact = decode(list(api.cell.log.scan("paceline.pools", 0))[-1].value)
    assert isinstance(fact, CellConfigured)
    assert (fact.preemption_delay_ms, fact.host_lost_after_ms, fact.resources) == (60_000, None, ())


@pytest.mark.parametrize(
    ("settings", "pointer", "message"),
    [
        ({"preemption_dely": "1s"}, "/preemption_dely", "is not a known field; did you mean preemption_delay?"),
        ({"preemption_delay": 5}, "/preemption_delay", "must be a time with a unit"),
        ({"preemption_delay": None}, "/preemption_delay", "must be a time with a unit"),
        ({"reserve_for": "0s"}, "/reserve_for", "must be from 1s to"),
        ({"hold_for": "999ms"}, "/hold_for", "must be from 1s to"),
        ({"host_lost_percent_per_minute": 101}, "/host_lost_percent_per_minute", "less than or equal to 100"),
        ({"resources": [{"name": "cpus"}]}, "/resources", "cpus is too close to cpu"),
        ({"resources": [{"name": "a", "unit": "GiB"}]}, "/resources/0/unit", "must be 'milli' or 'MiB'"),
        ({"resources": [{"name": "matlab", "amount": "2GiB"}]}, "/resources/0", "must be a number, such as 2"),
        ({"resources": [{"name": "a", "unit": "milli", "amount": "1GiB"}]}, "/resources/0", "must be a number"),
    ],
)
def test_wrong_names_and_values_are_refused_before_anything_is_written(api, settings, pointer, message):
    body = api.problem(change(api, **settings), 422, "INVALID_SETTINGS")
    (error,) = body["errors"]
    assert (error["pointer"], message in error["message"]) == (pointer, True), error
    api.problem(change(api), 422, "INVALID_SETTINGS")


def test_settings_that_the_cell_refuses_are_refused(api):
    def no(at, event):
        code, message = "INVALID_SETTINGS", "resources: a is written as a size"
        return (PoolAnswered(path="/", pools_offset=at, command_id=event.command_id, code=code, message=message),)

    api.answer("paceline.pools", "entitlement", no)
    body = api.problem(change(api, resources=[{"name": "a"}]), 422, "INVALID_SETTINGS")
    assert body["detail"] == "resources: a is written as a size"
