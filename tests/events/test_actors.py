"""What stands in a fact beside its actor."""

import pytest

from events.actors import body_without_actor
from events.codec import encode
from events.records.jobs import JobStopRequested
from events.records.parts import Actor


@pytest.mark.parametrize(
    "actor",
    [
        None,
        Actor("ann", "system-user", "127.0.0.1"),
        Actor("ci", "token", "::1", 17, 23, "t-3f2a", "for the release", bytes(range(64))),
    ],
)
def test_a_fact_is_the_same_whoever_wrote_it(actor: Actor | None) -> None:
    nobodys = JobStopRequested(job_id="a", command_id="b")
    assert body_without_actor(encode(JobStopRequested(job_id="a", command_id="b", actor=actor)), actor) == (
        body_without_actor(encode(nobodys), None)
    )
