"""Jobs of drawn scenarios are updated, stopped, started, held and deleted at random under faults."""

from events.spec.job import JobSpec
from paceline.simulate.faults.injection import Faults
from paceline.simulate.faults.trial import Trial
from paceline.simulate.scenario.random_life import OF_JOBS, OF_UPDATES
from paceline.simulate.scenario.random_scenario import draw_scenario
from tests.helpers.drawn import seeds

ACTS = 40


@seeds([50, 56, *range(12)], 4)
def test_updates_under_faults_break_no_promise(seed: int) -> None:
    Trial(draw_scenario(seed, ACTS), Faults(seed)).run()


@seeds([1, 4, 7], 1)
def test_services_that_their_first_update_creates_break_no_promise(seed: int) -> None:
    scenario = draw_scenario(seed, ACTS)
    jobs = [_created(job) if job.kind in ("stateless", "stateful") else job for job in scenario.jobs]
    assert jobs != scenario.jobs
    Trial(scenario.model_copy(update={"jobs": jobs}), Faults(seed)).run()


def _created(job: JobSpec) -> JobSpec:
    return job.model_copy(update={"update": job.update.model_copy(update={"creation": True})})


def test_enough_is_drawn() -> None:
    scenarios = [draw_scenario(seed, ACTS) for seed in range(16)]
    events = [event for scenario in scenarios for event in scenario.events]
    assert sum(event.update is not None for event in events) >= 20
    assert {name for event in events if (found := event.commanded()) for name in found[:1]} == {
        *("update", "restart", *OF_UPDATES, *OF_JOBS)
    }
    jobs = [job for scenario in scenarios for job in scenario.jobs]
    for field in ("health", "max_running", "max_runtime", "controller"):
        assert sum(field in job.model_fields_set for job in jobs) >= 5, field
