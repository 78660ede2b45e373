"""The pages of maintenance: campaigns with their hosts by step, and a host that drains with what holds it up."""

from events.codec import decode
from events.codes import Stage, Step
from events.records.hosts import (
    HostsDrainRequested,
    HostsResumeRequested,
    MaintenanceRequested,
    MaintenanceWindowSet,
)
from events.records.parts import DrainPlan, MaintenancePlan
from events.records.placement import HostsAnswered, MaintenanceChanged, MaintenanceWindowChanged
from events.time_zones import offsets_of
from tests.helpers.maintenance import asked, by_fact, deferred, stage_of
from tests.projections.ui.views import pages

HOSTILE = "<script>x</script>"


def campaign(shown):
    for name in ("h1", "h2", "h3"):
        shown.cell.host(name)
    shown.cell.accept("web", instances=3, kind="stateless", sla={"max_unavailable": 1})
    shown.cell.run("web", (0, 1, 2))
    plan = MaintenancePlan(drain=DrainPlan(), at_a_time=2)
    ids = ("h1", "h2", "h3")
    at = shown.cell.fact(
        MaintenanceRequested(maintenance_id="k1", command_id="c", host_ids=ids, plan=plan, reason=HOSTILE)
    )
    begins = MaintenanceChanged(maintenance_id="k1", state="RUNNING", code="ASKED", host_ids=ids, cause=by_fact(at))
    mine = {"by": "campaign", "source": "k1", "code": "CAMPAIGN"}
    shown.cell.decide("placement", begins, stage_of(Stage.UP, *ids, step=Step.PENDING, **mine))
    shown.cell.decide("placement", stage_of(Stage.DRAINING, "h1", step=Step.DRAIN, **mine))
    shown.cell.decide("lifecycle", asked("web", (0, 1, 2), shown.cell.ms // 1000))
    shown.cell.decide("sla", deferred("web", (0, 1, 2)))
    shown.fold()


def test_a_campaign_is_shown_with_its_hosts_by_step_and_what_waits_on_what(tmp_path):
    with pages(tmp_path) as shown:
        assert "No campaign was started" in shown.page("/maintenances")
        campaign(shown)
        listed = shown.page("/maintenances")
        assert '/ui/maintenances/k1"' in listed
        assert "1 draining" in listed
        page = shown.page("/maintenances/k1")
        for text in (
            "SLA_BUDGET_SPENT",
            "1 of 3 unavailable, 1 may be",
            "web may lose 1 of 3 at a time",
            "at_a_time"[:2],
        ):
            assert text in page
        assert HOSTILE not in page
        assert 'id="host:h2"' in page
        only = shown.page("/maintenances/k1?step=DRAIN")
        assert ('id="host:h1"' in only, 'id="host:h2"' in only) == (True, False)
        shown.page("/maintenances/none", 404)


def test_windows_are_shown_by_utc_and_by_their_own_clocks(tmp_path):
    with pages(tmp_path) as shown:
        assert "There is no window" in shown.page("/maintenances")
        fact = MaintenanceWindowSet(
            window_id="night",
            command_id="c",
            host_ids=("h1", "h2"),
            schedule="0 2 * * 2",
            duration_ms=3_600_000,
            zone=offsets_of("Europe/Berlin", 1_790_000_000),
            reason=HOSTILE,
        )
        at = shown.cell.fact(fact)
        times = {"opens_ms": 1_795_482_000_000, "closes_ms": 1_795_485_600_000}
        shown.cell.decide(
            "placement", MaintenanceWindowChanged(window_id="night", state="SET", cause=by_fact(at), **times)
        )
        shown.fold()
        page = shown.page("/maintenances")
        for text in ('id="window:night"', "24 Nov 01:00:00Z", "2026-11-24 02:00+01:00 Europe/Berlin"):
            assert text in page
        assert HOSTILE not in page


def test_the_page_of_a_host_says_what_holds_its_drain_up_and_offers_what_helps(tmp_path):
    with pages(tmp_path) as shown:
        campaign(shown)
        page = shown.page("/hosts/h1")
        assert "SLA_BUDGET_SPENT" in page
        assert 'href="/ui/maintenances/k1"' in page
        assert "/ui/hosts/h1/resume" in page
        assert "/ui/hosts/h1/drain" not in page
        assert "/ui/hosts/h2/drain" in shown.page("/hosts/h2")


def test_a_host_is_drained_and_taken_back_from_its_page(tmp_path):
    with pages(tmp_path) as shown:
        shown.cell.host("h1")
        shown.fold()
        csrf = shown.sign_in()
        assert "without an SLA at once" in shown.page("/hosts/h1/drain")
        shown.answer(
            "paceline.hosts",
            "placement",
            lambda at, event: (
                HostsAnswered(hosts_offset=at, command_id=event.command_id, code="DONE", host_ids=("h1",)),
            ),
        )
        for word, kind in (("drain", HostsDrainRequested), ("resume", HostsResumeRequested)):
            form = {"csrf": csrf, "of_cell": "0", "command_id": word, "reason": "disk"}
            answer = shown.browser.post(f"/ui/hosts/h1/{word}", data=form)
            assert (answer.status_code, "DONE" in answer.text) == (200, True)
            fact = decode(list(shown.cell.log.scan("paceline.hosts", 0))[-1].value)
            assert isinstance(fact, kind)
            assert (fact.host_ids, fact.reason, fact.command_id) == (("h1",), "disk", word)
