"""The score of a forecast (decision 128)."""

from collections.abc import Sequence

LEVELS = (0.1, 0.5, 0.9)
"""The quantiles that are forecast: the ends of an 80 % interval, and its middle."""


def pinball(quantiles: Sequence[float], actual: float) -> float:
    """Twice the mean pinball loss of the quantiles of `LEVELS`. For one and the same number three times it is the
    distance.
    """
    pairs = zip(LEVELS, quantiles, strict=True)
    return 2 * sum(max(level * (actual - each), (level - 1) * (actual - each)) for level, each in pairs) / len(LEVELS)
