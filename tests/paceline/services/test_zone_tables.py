"""`paceline cell check` names windows whose tables of time zones end within a year."""

import time

from msgspec.structs import replace

from events.records.hosts import MaintenanceWindowSet
from events.records.parts import SlaPolicy, SlaWindow, ZoneOffsets
from events.records.placement import HostsAnswered, MaintenanceWindowChanged
from paceline.services.zone_tables import ending
from projections.views.projector import Projector
from tests.helpers.maintenance import by_fact
from tests.helpers.written_cell import Cell, accepted, job

DAY_S = 86_400


def zone(days, name="Europe/Berlin"):
    """A zone whose rules are known for so many days from now on."""
    return ZoneOffsets(name, (0,), (3600,), int(time.time()) + days * DAY_S)


def window(cell, window_id, offsets):
    times = {"schedule": "0 2 * * *", "duration_ms": 3_600_000}
    fact = MaintenanceWindowSet(window_id=window_id, command_id=window_id, host_ids=(), zone=offsets, **times)
    at = cell.fact(fact)
    said = MaintenanceWindowChanged(window_id=window_id, state="SET", opens_ms=1, closes_ms=2, cause=by_fact(at))
    cell.decide("placement", said, HostsAnswered(hosts_offset=at, command_id=window_id, code="DONE"))


def test_windows_of_hosts_and_of_jobs_whose_table_ends_within_a_year_are_named(tmp_path):
    cell = Cell()
    window(cell, "soon", zone(364))
    window(cell, "later", zone(366))
    window(cell, "utc", ZoneOffsets())
    for job_id, days in (("web", 10), ("api", 4000)):
        policy = SlaPolicy(
            windows=(SlaWindow("0 2 * * *", 3_600_000, zone(days)), SlaWindow("0 3 * * *", 1, zone(900)))
        )
        fact = replace(job(job_id, kind="stateless"), sla=policy)
        cell.decide("lifecycle", *accepted(fact, cell.fact(fact)))
    projector = Projector(cell.log, tmp_path)
    while projector.step():
        pass
    projector.close()
    lines = ending(tmp_path)
    assert [line.partition(" until ")[0] for line in lines] == [
        "The cell knows the time zone of maintenance window soon",
        "The cell knows the time zone of a window of job web",
    ]
    assert lines[0].endswith("Set it again: `paceline maintenance window set FILE`.")
    assert ending(tmp_path / "nothing") == []
