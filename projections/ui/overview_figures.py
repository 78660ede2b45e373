"""The numbers at the top of the overview, each with its line over a day; and what is counted beside them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from events.pool_paths import ROOT
from paceline.client.cell_models import CellSeries, PoolSeries, Values
from projections.ui.colours import HOSTS
from projections.ui.format import grouped, lasts, short
from projections.ui.lines import Drawn, drawn
from projections.ui.overview_plots import total
from projections.ui.pool_plots import without_hosts

HEIGHT = 20
"""The height of a line, see `lines.drawn`."""
RECENT = 5
"""Points of an hour, minutes, that say how much there is of something a minute."""


class Figure(NamedTuple):
    """A number: its name, value and unit, a note, the page that it leads to, and its line."""

    name: str
    value: str
    unit: str
    note: str
    page: str
    line: Drawn
    of: str = ""
    """The target of blame that it is; empty: it is none."""


class MachineFigures(NamedTuple):
    """Figures of one machine over an hour: its largest lag in the last minutes, decisions a minute, and their lines."""

    lag_ms: int | None
    decisions: float
    lag_line: Drawn
    decisions_line: Drawn


def line(values: Sequence[float | None]) -> Drawn:
    """The line of some values."""
    return drawn(values, HEIGHT)


def figures(
    day: CellSeries, hour: CellSeries, pools: Mapping[str, PoolSeries], longest: tuple[str, int]
) -> list[Figure]:
    """The numbers, in the order in which they are asked for. `longest`: the job that waits longest, and how long."""
    job_id, longest_wait_ms = longest
    since = f"{job_id}:waiting_since" if job_id else ""
    waiting = total([day["tasks"]["queued"], day["tasks"]["backoff"]])
    oldest, running = day["oldest_wait_ms"], day["tasks"]["running"]
    others = f"{grouped(last(day['tasks']['ordered']))} starting, {grouped(last(day['tasks']['stopping']))} stopping"
    why = "/jobs?group=reason"
    return [
        Figure("Waiting tasks", grouped(last(waiting)), "", "queued, in backoff or held", why, line(waiting)),
        Figure("Longest wait", lasts(longest_wait_ms), "", "of a queued task", "/jobs?sort=wait", line(oldest), since),
        Figure("Running tasks", grouped(last(running)), "", others, "/jobs?state=RUNNING", line(running)),
        _allocated(day, pools),
        _hosts_up(day),
        _decided(day, hour),
        _lag(day, hour),
    ]


def _allocated(day: CellSeries, pools: Mapping[str, PoolSeries]) -> Figure:
    capacity = day["capacity"].get("cpu", [])
    root = pools.get(ROOT)
    used = root["placed"].get("cpu", []) if root else []
    have, without = last(capacity), last(without_hosts(root, "cpu")) if root else 0
    percent = f"{last(used) * 100 / have:.1f}" if have else "–"
    note = f"{short(last(used) / 1000)} of {short(have / 1000)} cores" + (
        f", {short(without / 1000)} without hosts" if without else ""
    )
    return Figure("CPU held", percent, "%", note, "/pools", line(used), "cell:held:cpu")


def _hosts_up(day: CellSeries) -> Figure:
    counts = hosts(day)
    down = ", ".join(f"{count} {state}" for state, count in counts if state != "up") or "none is away"
    up, all_ = dict(counts).get("up", 0), sum(count for _, count in counts)
    drawn_up = line(day["hosts"].get("up", []))
    return Figure("Hosts up", grouped(up), f"of {grouped(all_)}", down, "/hosts", drawn_up, "cell:hosts")


def _decided(day: CellSeries, hour: CellSeries) -> Figure:
    decisions = [sum(counts) for counts in zip(*(each["decisions"] for each in day["machines"].values()), strict=True)]
    rounds = sum(_a_minute(each["rounds"]) for each in hour["machines"].values())
    now = sum(_a_minute(each["decisions"]) for each in hour["machines"].values())
    return Figure("Decisions a minute", short(now), "", f"{short(rounds)} rounds", "/rounds", line(decisions))


def _lag(day: CellSeries, hour: CellSeries) -> Figure:
    recent = {name: lag for name in hour["machines"] if (lag := machine(hour, name).lag_ms) is not None}
    largest = [_most(at) for at in zip(*(each["lag_ms"] for each in day["machines"].values()), strict=True)]
    slowest = max(recent, key=lambda name: recent[name], default="")
    value = f"{recent[slowest] / 1000:.1f}" if slowest else "–"
    note = f"{slowest}, last {RECENT} min" if slowest else f"no round in {RECENT} min"
    return Figure("Largest lag", value, "s", note, "/operations", line(largest))


def machine(hour: CellSeries, name: str) -> MachineFigures:
    """The figures of a machine."""
    figures = hour["machines"][name]
    return MachineFigures(
        _most(figures["lag_ms"][-RECENT:]),
        _a_minute(figures["decisions"]),
        line(figures["lag_ms"]),
        line(figures["decisions"]),
    )


def hosts(series: CellSeries) -> list[tuple[str, int]]:
    """The number of hosts in each state; states that none has are left out."""
    return [(state, count) for state in HOSTS if (count := last(series["hosts"].get(state, [])))]


def host_bar(counts: Sequence[tuple[str, int]]) -> list[tuple[str, float]]:
    """The parts of a bar of them: colour and percent."""
    all_ = sum(count for _, count in counts)
    return [(HOSTS[state], count * 100 / all_) for state, count in counts]


def last(values: Values) -> int:
    """The newest value; 0 where it isn't known."""
    return (values[-1] if values else None) or 0


def _most(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _a_minute(counts: Sequence[int]) -> float:
    """The rate a minute over the last minutes."""
    return sum(counts[-RECENT:]) / RECENT
