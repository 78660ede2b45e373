"""`--fail-if`: what holds, what doesn't, and what can't be told."""

from dataclasses import replace

import pytest

from events.resources import Unit
from paceline.client.errors import InvalidValue
from paceline.whatif.compare import Comparison, Effect, Trust, interval
from paceline.whatif.conditions import Answer, answers, read_condition, worst
from paceline.whatif.report import guesses_text

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
        ("pool /a mean_wait > 2m", 10, 5, NO),
        ("pool /a mean_wait > +0.01h", 30, 5, NO),
        ("pool /a mean_wait > +0", 30, 5, YES),
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
        ("pool /a begun:gpu > 1", "begun isn't by resource; those are lost_work, use"),
        ("pool /a use: > 1", "is no condition"),
        ("pool /a mean_wait > +30", "mean_wait is a time, and 30 has no unit; there are ms, s, m, h and d"),
        ("pool /a mean_wait > +30min", "min is no unit; there are ms, s, m, h and d, as in 30m, and %"),
    ],
)
def test_what_is_no_condition_is_refused(text, why):
    with pytest.raises(InvalidValue, match=why):
        read_condition(text)


UNITS = {"cpu": Unit.MILLI, "memory": Unit.MIB, "gpu": Unit.MILLI}
ALIKE = Comparison(
    pairs=2,
    effects=[
        Effect(("pool", "/a"), "use", 0.0, 8.0, 4.0, -4.0, 1.0, 1.0, "cpu"),
        Effect(("pool", "/a"), "use", 0.0, 2.0, 3.0, 1.0, 0.0, 0.0, "gpu"),
        Effect(("pool", "/a"), "use", 0.0, 8192.0, 4096.0, -4096.0, 0.0, 0.0, "memory"),
        Effect(("cell", ""), "use", 0.0, 8.0, 8.0, 0.0, 0.0, 0.0, "cpu"),
    ],
    trust=Trust({}, None, 0, 0),
    flags={},
    core_ms={},
    rules={},
    units=UNITS,
)


@pytest.mark.parametrize(
    ("condition", "answer"),
    [
        ("pool /a use < 6", YES),  # of cores
        ("pool /a use:cpu < 6", YES),
        ("pool /a use:gpu < 6", YES),
        ("pool /a use:gpu > +40%", YES),
        ("pool /a use:gpu>+60%", NO),
        ("pool /a use:memory < 5GiB", YES),
        ("pool /a use:memory < 4095MiB", NO),
        ("pool /a use:memory < -3GiB", YES),
        ("cell use:gpu < 1", YES),  # no job there asks for it
        ("cell use:gpu > +0", NO),
    ],
)
def test_a_condition_may_name_a_resource(condition, answer):
    ((_, found),) = answers(ALIKE, [read_condition(condition)], calibrated=True)
    assert found == answer


@pytest.mark.parametrize(("guessed", "answer"), [(0, YES), (50, YES), (51, UNKNOWN)])
def test_a_condition_on_what_lengths_decide_cant_be_told_where_most_are_guessed(guessed, answer):
    comparison = replace(ALIKE, core_ms={"observed": 100 - guessed, "guessed": guessed})
    ((_, found),) = answers(comparison, [read_condition("pool /a use < 6")], calibrated=True)
    assert found == answer
    assert comparison.tells_of("mean_wait")


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, ""),
        (0.004, "less than 1% of the core-seconds rest on guessed lengths: history knows no runs as long as these"),
        (0.5, "50% of the core-seconds rest on guessed lengths: history knows no runs as long as these"),
    ],
)
def test_the_part_that_rests_on_guesses_is_told(share, text):
    assert guesses_text({"lengths": {"guessed": {"runs": 1.0, "core_seconds": share}}}) == text


def test_a_condition_about_who_has_no_job_in_the_stretch_is_refused():
    with pytest.raises(InvalidValue, match="no batch job of pool /b is in the stretch"):
        answers(ALIKE, [read_condition("pool /b use:gpu < 6")], calibrated=True)


def test_a_count_is_no_size():
    with pytest.raises(InvalidValue, match="begun isn't a size: leave out GiB"):
        read_condition("pool /a begun < 6GiB")


def test_the_interval_is_students():
    # five differences with mean 3 and deviation 1.5811: t(4) at 90 % is 2.132
    assert interval([1, 2, 3, 4, 5]) == pytest.approx(2.132 * 1.5811 / 5**0.5, rel=1e-3)
    assert interval([7]) is None
