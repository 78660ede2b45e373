"""Every decision leads back to what led to it: by a position that it carries, or by the runs that both name."""

from events.codes import RunCause
from events.records import BY_NAME
from events.records.entitlement import CreditsSet
from events.records.lifecycle import RunsStopping
from events.topics import MACHINES, rounds_of
from projections.views.cause_ties import STOPPED_BY, TIES

DECISIONS = {kind for kind in BY_NAME.values() if kind.topic in {*map(rounds_of, MACHINES)}}


def test_every_decision_carries_its_cause_or_is_tied_to_it() -> None:
    carrying = {kind for kind in DECISIONS if kind.cause_fields}
    tied = {*TIES, RunsStopping}
    assert STOPPED_BY
    assert tied <= DECISIONS
    assert DECISIONS - carrying - tied == {CreditsSet}, "it follows from an entitlement and from time"


def test_every_cause_of_a_stop_is_tied_to_what_led_to_it() -> None:
    assert {*RunCause} - {*STOPPED_BY} == {RunCause.CANNOT_START}, "nothing stops a run by these"


def test_only_carried_causes_may_be_the_newest_change() -> None:
    assert all(kind.cause_fields for kind in DECISIONS if kind.newest_unless is not None)
