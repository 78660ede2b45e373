"""Plots as inline SVG of what isn't a value over time: bars, ranges, a heat map; axes with titles and round numbers.

Colours are CSS variables of the page, so that a plot follows its light or dark mode. Everything that is drawn has a
`title`, which a browser shows under the pointer.
"""

import math
from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

F64 = NDArray[np.float64]
STEPS_S = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 21_600, 43_200)
DAY_S = 86_400
CLASSES = 8
"""Shades of a heat map: nothing, then seven equal parts of 100 %."""


class Bar(NamedTuple):
    """A bar: its label, its height and what is shown under the pointer."""

    label: str
    value: float
    tooltip: str


class Range(NamedTuple):
    """A range with its middle, the label below and what is shown under the pointer."""

    label: str
    low: float
    middle: float
    high: float
    tooltip: str


class Frame:
    """A plot's area: from data to pixels, x from `left` to `right` and y from 0 (`low` if logarithmic) to `top`."""

    def __init__(self, width: int, height: int, right: float, top: float, low: float = 0.0) -> None:
        """`low` above 0: the axis of y is logarithmic from there on."""
        self.width, self.height = width, height
        self.x0, self.x1, self.y0, self.y1 = 66, width - 12, height - 42, 10
        self._right, self._top, self._low = right or 1.0, top or 1.0, low

    def x(self, value: float) -> float:
        """The pixel of a value on the axis of x."""
        return round(self.x0 + (self.x1 - self.x0) * value / self._right, 1)

    def y(self, value: float) -> float:
        """The pixel of a value on the axis of y."""
        if self._low:
            part = math.log(max(value, self._low) / self._low) / math.log(self._top / self._low)
        else:
            part = value / self._top
        return round(self.y0 - (self.y0 - self.y1) * part, 1)

    def svg(self, parts: Sequence[str], what: str) -> Markup:
        """The whole plot. `what` says what it shows to who can't see it."""
        head = f'<svg class="chart" viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{escape(what)}">'
        return Markup(f"{head}{''.join(parts)}</svg>")

    def axis_y(self, title: str, ticks: Sequence[float]) -> str:
        """Lines at round numbers, their labels and the title of the axis."""
        out = []
        for tick in ticks:
            y = self.y(tick)
            out.append(f'<line class="grid" x1="{self.x0}" x2="{self.x1}" y1="{y}" y2="{y}"/>')
            out.append(f'<text x="{self.x0 - 6}" y="{y + 4}" text-anchor="end">{number(tick)}</text>')
        middle = (self.y0 + self.y1) / 2
        turned = f'transform="rotate(-90 12 {middle})" text-anchor="middle"'
        return "".join(out) + f'<text class="axis" x="12" y="{middle}" {turned}>{escape(title)}</text>'

    def axis_x(self, title: str, ticks: Sequence[tuple[float, str]]) -> str:
        """Labels below (at pixels) and the title of the axis."""
        base = f'<line class="base" x1="{self.x0}" x2="{self.x1}" y1="{self.y0}" y2="{self.y0}"/>'
        out = [f'<text x="{at}" y="{self.y0 + 16}" text-anchor="middle">{escape(label)}</text>' for at, label in ticks]
        middle = (self.x0 + self.x1) / 2
        below = f'<text class="axis" x="{middle}" y="{self.height - 6}" text-anchor="middle">{escape(title)}</text>'
        return base + "".join(out) + below

    def time_axis(self, end_s: float) -> str:
        """The axis of x of a plot over time."""
        return self.axis_x("time from the start", [(self.x(at), duration(at)) for at in time_ticks(end_s)])


def bars(data: Sequence[Bar], title: str, unit: str) -> Markup:
    """A bar for each class, with its number above."""
    highest = max((bar.value for bar in data), default=0.0)
    marks = ticks(highest * 1.08, 1.0)
    frame = Frame(900, 260, len(data), marks[-1])
    wide = (frame.x1 - frame.x0) / max(1, len(data))
    middles = [frame.x0 + wide * (at + 0.5) for at in range(len(data))]
    labels = [(round(middle, 1), bar.label) for middle, bar in zip(middles, data, strict=True)]
    thick = min(80.0, wide * 0.8)
    parts = [frame.axis_y(unit, marks), frame.axis_x(title, labels)]
    for middle, bar in zip(middles, data, strict=True):
        top, x = frame.y(bar.value), round(middle - thick / 2, 1)
        box = f'x="{x}" width="{thick:.1f}" y="{top}" height="{max(0.0, frame.y0 - top):.1f}"'
        parts.append(f'<rect class="f-s1" rx="2" {box}><title>{escape(bar.tooltip)}</title></rect>')
        if bar.value:
            label = number(bar.value)
            parts.append(f'<text x="{middle:.1f}" y="{top - 4}" text-anchor="middle">{label}</text>')
    return frame.svg(parts, f"{unit} by {title}")


def ranges(data: Sequence[Range], title: str, unit: str) -> Markup:
    """A line from low to high for each class with a dot at its middle; the axis of y is logarithmic from 1 on."""
    highest = max((each.high for each in data), default=1.0)
    top = 10 ** max(1, math.ceil(math.log10(max(highest, 1.0)) - 1e-9))
    frame = Frame(900, 280, len(data), top, low=1.0)
    wide = (frame.x1 - frame.x0) / max(1, len(data))
    middles = [round(frame.x0 + wide * (at + 0.5), 1) for at in range(len(data))]
    decades = [10.0**power for power in range(round(math.log10(top)) + 1)]
    labels = [(middle, each.label) for middle, each in zip(middles, data, strict=True)]
    parts = [frame.axis_y(unit, decades), frame.axis_x(title, labels)]
    for middle, each in zip(middles, data, strict=True):
        ends = f'x1="{middle}" x2="{middle}" y1="{frame.y(each.low)}" y2="{frame.y(each.high)}"'
        dot = f'<circle class="dot" r="5" cx="{middle}" cy="{frame.y(each.middle)}"/>'
        label = f'<text x="{middle + 9}" y="{frame.y(each.middle) + 4}">{number(each.middle)}</text>'
        parts.append(f'<g><line class="range" {ends}/>{dot}{label}<title>{escape(each.tooltip)}</title></g>')
    return frame.svg(parts, f"{unit} by {title}")


def heat(times: Sequence[float], rows: Sequence[str], cells: F64, title: str) -> Markup:
    """Shares of 0 to 1 by row and time ([rows, times], NaN: there was nothing), from each time until the next."""
    high = max(4, min(18, 420 // max(1, len(rows))))
    frame = Frame(900, 52 + high * len(rows), times[-1], 1.0)
    frame.x0 = 130
    shade = np.where(np.isnan(cells), -1, np.ceil(np.nan_to_num(cells) * (CLASSES - 1))).astype(np.int64)
    drawn: dict[int, list[str]] = {}
    for at, row in enumerate(shade):
        y = frame.y1 + at * high
        for first, last, kind in _runs_of_equal(row):
            if kind >= 0:
                x, right = frame.x(times[first]), frame.x(times[last])
                drawn.setdefault(kind, []).append(f"M{x} {y}h{right - x:.1f}v{high - 1}h-{right - x:.1f}z")
    parts = [frame.time_axis(times[-1])]
    for kind, paths in sorted(drawn.items()):
        tooltip = "nothing" if kind == 0 else f"up to {round(100 * kind / (CLASSES - 1))} %"
        parts.append(f'<path class="f-h{kind}" d="{"".join(paths)}"><title>{tooltip}</title></path>')
    every = max(1, -(-14 // high))
    for at in range(0, len(rows), every):
        middle = frame.y1 + at * high + high / 2 + 4
        parts.append(f'<text x="{frame.x0 - 6}" y="{middle}" text-anchor="end">{escape(rows[at])}</text>')
    return frame.svg(parts, title)


def _runs_of_equal(row: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """First, end and kind of each stretch of cells alike; the last time only ends the one before it."""
    edges = [0, *(np.flatnonzero(np.diff(row[:-1])) + 1).tolist(), len(row) - 1]
    for first, last in pairwise(edges):
        yield first, last, int(row[first])


def number(value: float) -> str:
    """A number as people read it: 1,234 or 0.25 or 1.2M."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g}M"
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def duration(seconds: float) -> str:
    """A time on an axis: 0, 30s, 2m30s, 2h, 10d."""
    rest, out = int(seconds), ""
    for unit, size in (("d", DAY_S), ("h", 3600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        out += f"{count}{unit}" if count else ""
    return out or "0"


def ticks(top: float, least: float = 0.0) -> list[float]:
    """About five round numbers from 0 to `top` or a little above, at least `least` apart."""
    step = max(_round_step(top / 5), least)
    return [step * at for at in range(math.ceil(top / step - 1e-9) + 1)] if top > 0 else [0.0, 1.0]


def time_ticks(end_s: float) -> list[float]:
    """At most ten round times from 0 to an end."""
    step = next((step for step in STEPS_S if end_s / step <= 10), None)
    if step is None:
        step = DAY_S * max(1, round(_round_step(end_s / DAY_S / 10)))
    return [float(at) for at in range(0, math.floor(end_s) + 1, step)]


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 5, 10, 20, ... that isn't below."""
    power = 10.0 ** math.floor(math.log10(max(least, 1e-9)))
    return next(power * one for one in (1, 2, 5, 10) if power * one >= least - 1e-12)
