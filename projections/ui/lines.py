"""Lines without axes, drawn by the server."""

from collections.abc import Sequence
from typing import NamedTuple


class Drawn(NamedTuple):
    """A line of values one unit apart, the largest at the top, and the area below it: paths of an SVG of so many units.
    Both are empty where nothing is known.
    """

    line: str
    area: str
    width: int


def drawn(values: Sequence[float | None], height: int) -> Drawn:
    """The line of some values; what isn't known is left out."""
    most = max((value for value in values if value is not None), default=0) or 1
    points = [(at, height - value / most * height) for at, value in enumerate(values) if value is not None]
    line = "M" + "L".join(f"{at} {y:.1f}" for at, y in points) if points else ""
    return Drawn(line, f"{line}V{height}H{points[0][0]}Z" if points else "", max(1, len(values) - 1))
