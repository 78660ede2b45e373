"""Intervals that are widened, against the plain definition; and that they cover as often as they say."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from events.forecasts import LEVELS, pinball
from paceline.forecast.conformal import SPREAD_MIN_MS, Quantiles, Window, missed, quantile, quantiles, widened

WAITS = st.floats(0, 1e7, allow_nan=False)
RAW = st.builds(lambda values: Quantiles(*sorted(values)), st.lists(WAITS, min_size=3, max_size=3))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40), st.integers(1, 12), st.floats(0, 1))
def test_a_window_knows_the_quantiles_of_its_last_numbers(values: list[float], size: int, level: float) -> None:
    window = Window(size)
    for value in values:
        window.add(value)
    last = sorted(values[-size:])
    assert len(window) == len(last)
    assert window.quantile(level) == quantile(last, level)


@given(RAW, WAITS, st.floats(0.1, 10))
def test_a_wait_is_inside_exactly_if_it_was_missed_by_no_more_than_the_factor(
    raw: Quantiles, actual: float, factor: float
) -> None:
    shown, by = widened(raw, factor), missed(raw, actual)
    if abs(by - factor) < 1e-9 * max(1.0, factor):
        return  # on the edge, where floats round
    assert (shown.low <= actual <= shown.high) == (by <= factor)


@given(RAW, WAITS)
def test_pinball_is_that_of_the_textbook(shown: Quantiles, actual: float) -> None:
    def loss(level: float, value: float) -> float:
        return level * (actual - value) if actual >= value else (1 - level) * (value - actual)

    expected = 2 * sum(loss(level, value) for level, value in zip(LEVELS, shown, strict=True)) / 3
    assert abs(pinball(shown, actual) - expected) <= 1e-6 * max(1.0, expected)


def test_pinball_of_one_number_is_its_distance() -> None:
    assert pinball((50.0, 50.0, 50.0), 80.0) == 30.0


def test_intervals_that_were_too_narrow_cover_four_fifths_once_they_are_widened() -> None:
    random, window, inside = Random(4), Window(300), 0
    for number in range(4000):
        middle = random.uniform(60_000, 600_000)
        raw = Quantiles(middle - 2000, middle, middle + 1000)  # far too narrow
        actual = max(0.0, middle + random.gauss(0, 20_000))
        if number >= 1000:
            shown = widened(raw, window.quantile(0.8))
            inside += shown.low <= actual <= shown.high
        window.add(missed(raw, actual))
    assert 0.78 <= inside / 3000 <= 0.82


def test_an_interval_without_width_can_be_widened() -> None:
    shown = widened(Quantiles(5000.0, 5000.0, 5000.0), 2.0)
    assert shown == Quantiles(5000 - 2 * SPREAD_MIN_MS, 5000, 5000 + 2 * SPREAD_MIN_MS)


def test_the_quantiles_of_paths_are_between_their_values() -> None:
    assert quantiles([30.0, 10.0, 20.0]) == Quantiles(10.0, 20.0, 30.0)
