"""`--fail-if`: what holds, what doesn't, and what can't be told."""

import pytest

from paceline.client.errors import InvalidValue
from paceline.whatif.compare import Effect, interval
from paceline.whatif.conditions import Answer, read_condition, worst

YES, NO, UNKNOWN = Answer.YES, Answer.NO, Answer.UNKNOWN


def effect(effect: float, within: float | None) -> Effect:
    """An effect on the mean wait of /a, which is 100 s without the change."""
    return Effect(("pool", "/a"), "mean_wait", 90.0, 100.0, 100.0 + effect, effect, within, within)


@pytest.mark.parametrize(
    ("condition", "by", "within", "answer"),
    [
        ("pool /a mean_wait > +20%", 30, 5, YES),
        ("pool /a mean_wait > +20%", 22, 5, UNKNOWN),
        ("pool /a mean_wait > +20%", 10, 5, NO),
        ("pool /a mean_wait > +20s", 25, 4.9, YES),
        ("pool /a mean_wait > 120s", 25, 4.9, YES),
        ("pool /a mean_wait > 120", 10, 5, NO),
        ("pool /a mean_wait < -10%", -20, 5, YES),
        ("pool /a mean_wait < -10%", -20, 15, UNKNOWN),
        ("pool /a mean_wait > +20%", 30, None, UNKNOWN),
    ],
)
def test_a_condition_holds_where_the_whole_interval_is_beyond_the_bound(condition, by, within, answer):
    assert read_condition(condition).answer(effect(by, within)) == answer


def test_one_that_holds_counts_most():
    condition = read_condition("cell mean_wait > 1s")
    assert worst([(condition, NO), (condition, UNKNOWN), (condition, YES)]) == YES
    assert worst([(condition, NO), (condition, UNKNOWN)]) == UNKNOWN
    assert worst([]) == NO


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("/a mean_wait > 1s", "is no condition"),
        ("pool /a mean_wait = 1s", "is no condition"),
        ("pool /a meanwait > 1s", "did you mean mean_wait"),
        ("pool /a begun > 1s", "isn't in seconds"),
    ],
)
def test_what_is_no_condition_is_refused(text, why):
    with pytest.raises(InvalidValue, match=why):
        read_condition(text)


def test_the_interval_is_students():
    # five differences with mean 3 and deviation 1.5811: t(4) at 90 % is 2.132
    assert interval([1, 2, 3, 4, 5]) == pytest.approx(2.132 * 1.5811 / 5**0.5, rel=1e-3)
    assert interval([7]) is None
