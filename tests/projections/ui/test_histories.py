"""The pages of pools and hosts show the newest of their history, with who and why, and lead to the rest."""

from html import unescape

import pytest

from events.records.entitlement import PoolAnswered
from events.records.hosts import HostClearRequested
from events.records.parts import Actor
from events.records.pools import PoolDefined
from tests.projections.ui.views import pages

ANN = Actor("ann", "environment", "::1")


def test_pages_of_pools_and_hosts_tell_who_did_what(tmp_path):
    with pages(tmp_path) as shown:
        cell = shown.cell
        cell.host("h1")
        for number in range(12):
            fact = PoolDefined(path="/maps", command_id="c", description=f"no {number}", reason="tidy <b>", actor=ANN)
            at = cell.fact(fact)
            cell.decide("entitlement", PoolAnswered(path="/maps", pools_offset=at, command_id="c", code="DONE"))
            cell.fact(HostClearRequested(host_id="h1", command_id=f"{number}", reason="disk replaced", actor=ANN))
            cell.ms += 1000
        shown.fold()
        pool, host = (unescape(shown.page(path)) for path in ("/pools/maps", "/hosts/h1"))
        assert "changed: description no 10 to no 11: tidy <b>" in pool
        assert "cleared: disk replaced" in host or "disk replaced" in host
        for page, path in ((pool, "/ui/pools/maps"), (host, "/ui/hosts/h1")):
            assert page.count("ann (unverified)") == 8
            assert f"{path}?history=80" in page
        assert unescape(shown.page("/pools/maps?history=80")).count("ann (unverified)") == 12
        assert "<b>" not in shown.page("/pools/maps").partition("tidy")[2][:20]


def test_the_page_of_a_job_names_who_asked(tmp_path):
    with pages(tmp_path) as shown:
        shown.cell.accept("a")
        shown.fold()
        ann = {"Paceline-Actor": "ann"}
        assert shown.client.post("/v1/jobs/a/stops", json={"reason": "enough"}, headers=ann).status_code == 202
        shown.sign_in()
        shown.fold()
        assert "ann (unverified)" in shown.page("/jobs/a/history")


@pytest.mark.parametrize("text", ["0", "-1", "x", "99999999"])
def test_a_number_of_lines_that_is_none_shows_the_first_ones(tmp_path, text):
    with pages(tmp_path) as shown:
        shown.cell.host("h1")
        shown.fold()
        assert "connected to gateway g" in shown.page(f"/hosts/h1?history={text}")
