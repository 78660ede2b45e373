"""The client, a distribution of its own, knows the same ended states of jobs as the views."""

from paceline.client.models import ENDED
from projections.views.job_states import OVER


def test_the_client_waits_until_a_job_is_over():
    assert set(OVER) == ENDED
