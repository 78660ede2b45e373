"""What a campaign takes at least, and what would keep it waiting, in words."""

from events.codes import Code
from events.records.parts import DrainPlan, MaintenancePlan, SlaPolicy
from projections.queries.campaign_estimate import CampaignJob, blocks, estimate, span

PLAN = MaintenancePlan(drain=DrainPlan(), at_a_time=60, work="time", work_ms=30_000)
WEB = CampaignJob("web", "stateless", 100, max_unavailable=1, replaced_s=22)


def test_the_budget_that_bounds_a_campaign_is_told_in_words() -> None:
    on = {f"h{number}": {"web": 1} for number in range(100)} | {f"s{number}": {} for number in range(900)}
    found = estimate(PLAN, on, {"web": WEB})
    assert found.seconds == 2200
    assert found.sentence == "web may lose 1 of 100 at a time, 22 s each: 37 minutes for it alone"
    assert [part.sentence for part in found.parts] == [
        found.sentence,
        "1000 hosts, 60 at a time, 52 s each: 15 minutes",
    ]


def test_a_rate_and_what_stays_on_its_hosts_bound_it_too() -> None:
    on = {f"h{number}": {"db": 1, "api": 2} for number in range(6)}
    jobs = {
        "db": CampaignJob("db", "stateful", 6, max_unavailable=2),
        "api": CampaignJob("api", "stateless", 12, policy=SlaPolicy(per_hour=4), replaced_s=10),
    }
    found = estimate(PLAN, on, jobs, worked_s=300)
    assert found.sentence == "api may lose 4 of 12 an hour: 2 hours for it alone"
    assert (
        found.parts[1].sentence
        == "db may lose 2 of 6 at a time, 5 minutes until its host is back: 15 minutes for it alone"
    )


def test_nothing_is_left_to_do() -> None:
    assert estimate(PLAN, {}, {}).sentence == "Nothing is left to do."


def test_a_dry_run_names_what_would_keep_hosts() -> None:
    on = {"h1": {"never": 1, "firm": 2, "db": 1, "web": 1}, "h2": {"firm": 1}}
    jobs = {
        "never": CampaignJob("never", "stateless", 3, max_unavailable=0),
        "firm": CampaignJob("firm", "batch", 3, preemptible=False),
        "db": CampaignJob("db", "stateful", 3),
        "web": WEB._replace(needs={"cpu": 2000}),
    }
    found = blocks(PLAN, on, jobs, free=[{"cpu": 1999}, {"cpu": 1000}])
    assert [(each.code, each.job_id, each.tasks, each.hosts) for each in found] == [
        (Code.SLA_NEVER_ALLOWS, "never", 1, 1),
        (Code.RUNS_TO_ITS_END, "firm", 3, 2),
        (Code.LEAVES_LAST, "db", 1, 1),
        (Code.NO_ROOM_ELSEWHERE, "web", 1, 1),
    ]
    assert found[1].sentence == "firm: 3 tasks on 2 hosts can't be preempted and run to their end"
    assert not [each for each in blocks(PLAN, on, jobs, free=[{"cpu": 2000}]) if each.code == Code.NO_ROOM_ELSEWHERE]


def test_times_are_told_in_the_unit_that_suits_them() -> None:
    assert [span(each) for each in (22, 119, 2200, 7200, 12_600, 200_000)] == [
        *("22 s", "119 s", "37 minutes", "2 hours", "3.5 hours", "2 days"),
    ]
