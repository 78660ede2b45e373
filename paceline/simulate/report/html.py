"""The report of a run: one HTML file with plots that a person reads at a glance, nothing loaded from elsewhere."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from paceline.output import span
from paceline.simulate.report import plots
from paceline.simulate.report.plots import Bar, Range, duration, number
from paceline.simulate.report.results import Jobs
from paceline.simulate.report.series import ABSENT, Sample, main_resource
from paceline.simulate.report.style import library, modules, style
from paceline.simulate.session import Session
from projections.ui.rendering import environment

POOLS_MAX = 7
"""The most pools with a colour of their own: of more the largest, the others have one together."""
COLUMNS_MAX, ROWS_MAX = 200, 60
"""The size of the heat map; hosts beyond share rows."""
WAITS_S = (0, 1, 10, 60, 300, 900, 3600, 14_400, 43_200, 86_400, 259_200, 604_800, 2_592_000)
"""Where the classes of waiting times begin."""
OTHERS = "other pools"
SHADES = [(f"h{kind}", round(100 * kind / (plots.CLASSES - 1))) for kind in range(plots.CLASSES)]
"""Colours of the heat map, each with the percentage up to which it goes."""

Chart = tuple[str, str, Markup]
"""Title, what it shows, the plot."""


def write_report(session: Session, path: Path) -> None:
    """Writes the page of a run that has ended."""
    samples = session.series.samples
    at = main_resource(samples)
    body = session.body()
    charts = _of_jobs(session.jobs, at)
    over_time: dict[str, dict[str, Any]] = {}
    pools: list[tuple[str, str]] = []
    if len(samples) > 1 and any(samples[-1].capacity.values()):
        over_time, pools = _over_time(samples)
    if len(samples) > 1 and session.series.host_ids():
        charts.append(_heat(samples, session.series.host_ids()))
    text = (files("paceline.simulate.report") / "report.html").read_text(encoding="utf-8")
    page = environment().from_string(text).render(
        session=session, body=body, ended=_ended(session), tiles=_tiles(session, body), unit=unit_of(at),
        verdicts=session.run.watch.verdicts(), plots=over_time, pools=pools, charts=charts, shades=SHADES,
        style=style(), library=library(), modules=modules(),
    )  # fmt: skip
    path.write_text(page, encoding="utf-8")


def unit_of(resource: str) -> str:
    """The unit of a resource that plots show, in words."""
    return "cores" if resource == "cpu" else f"GPUs {resource.partition('/')[2]}".strip()


def _ended(session: Session) -> str:
    """Tells in words how the jobs ended."""
    states, refused = session.jobs.states, session.log_summary.rejected
    ended = ", ".join(f"{count:,} {state}" for state, count in sorted(states.items())) or "none"
    return f"{ended}; {refused:,} rejected" if refused else ended


def _tiles(session: Session, body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The figures to look at first."""
    figures = body["figures"]
    resource = main_resource(session.series.samples)
    used = figures.get(f"mean_{resource}_used_percent")
    return [
        ("virtual time", span(body["virtual_s"])),
        ("jobs", f"{sum(session.jobs.states.values()):,}"),
        ("tasks", f"{session.jobs.tasks:,}"),
        (f"{resource.upper()} used, mean", "-" if used is None else f"{used:.1f} %"),
        ("mean wait", _time(figures.get("mean_wait_s"))),
        ("p99 wait", _time(figures.get("p99_wait_s"))),
        ("mean slowdown", _figure(figures.get("mean_bounded_slowdown"))),
        ("runs preempted", f"{session.jobs.preempted:,}"),
        ("runs lost", f"{session.jobs.lost:,}"),
    ]


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return span(seconds) if seconds >= 10 else f"{seconds:.3g}s"


def _figure(value: float | None) -> str:
    return "-" if value is None else number(value)


def _leaves(samples: Sequence[Sample]) -> list[str]:
    """Pools without pools below, the largest first."""
    totals: dict[str, int] = {}
    at = main_resource(samples)
    for sample in samples:
        for path, row in sample.pools.items() if at in sample.names else ():
            totals[path] = totals.get(path, 0) + row.allocation[sample.names.index(at)]
    leaves = [path for path in totals if not any(other.startswith(f"{path}/") for other in totals)]
    return sorted(leaves, key=lambda path: (-totals[path], path))


def _over_time(samples: Sequence[Sample]) -> tuple[dict[str, dict[str, Any]], list[tuple[str, str]]]:
    """The plots over time, as `plots.js` describes them: the cluster, the tasks, each pool; and the pools."""
    at, leaves = main_resource(samples), _leaves(samples)
    times = [each.at_ms / 1000 for each in samples]
    largest, others = leaves[:POOLS_MAX], leaves[POOLS_MAX:]
    layers = [
        line(path, f"s{number}", _of_pool(samples, path, "allocation", at)) for number, path in enumerate(largest, 1)
    ]
    if others:
        rest = [_of_pool(samples, path, "allocation", at) for path in others]
        layers.append(line(OTHERS, "s0", [sum(values) for values in zip(*rest, strict=True)]))
    capacity = line("capacity", "ink", [each.capacity.get(at, 0) / 1000 for each in samples], line=True)
    tasks = [
        line("waiting", "waiting", [each.waiting for each in samples], line=True),
        line("running", "running", [each.running for each in samples], line=True),
    ]
    plots = {
        "cluster": {"times": times, "elapsed": True, "stacked": True, "series": [*reversed(layers), capacity]},
        "tasks": {"times": times, "elapsed": True, "series": tasks},
    }
    whole = max(each.capacity.get(at, 0) for each in samples) / 1000
    pools = [(f"pool-{number}", path) for number, path in enumerate(largest, 1)]
    for area, (name, path) in zip(layers, pools, strict=False):
        demand = [min(value, whole) for value in _of_pool(samples, path, "demand", at)]
        series = [
            {**area, "name": "allocation"},
            line("demand", "soft", demand, line=True, dash=True),
            line("entitlement", "ink", _of_pool(samples, path, "entitlement", at), line=True),
        ]
        plots[name] = {"times": times, "elapsed": True, "max": whole * 1.05, "series": series}
    return plots, pools


def line(name: str, colour: str, values: Sequence[float], **look: bool) -> dict[str, Any]:
    """A line or an area of a plot, as `plots.js` describes it."""
    return {"name": name, "colour": colour, "values": [round(value, 3) for value in values], **look}


def _of_pool(samples: Sequence[Sample], path: str, kind: str, at: str) -> list[float]:
    values = []
    for each in samples:
        row = each.pools.get(path) if at in each.names else None
        values.append(0.0 if row is None else getattr(row, kind)[each.names.index(at)] / 1000)
    return values


def _of_jobs(jobs: Jobs, at: str) -> list[Chart]:
    """The plots over jobs that ran."""
    if not jobs.wait_s:
        return []
    wait, slowdown = np.frombuffer(jobs.wait_s), np.frombuffer(jobs.slowdown)
    size = np.frombuffer(jobs.cpu_milli if at == "cpu" else jobs.gpu_milli, dtype=np.int64) / 1000
    asks = size > 0
    charts = [("Waiting times", "", plots.bars(_waits(wait), "time between submission and first task", "jobs"))]
    if asks.any():
        title = f"{unit_of(at)} that the whole job asks for"
        slowdowns = plots.ranges(_slowdowns(size[asks], slowdown[asks]), title, "bounded slowdown")
        bounded = "max(1, (wait + run) / max(run, 10 s)): dot = median, line = 10th to 90th percentile"
        charts.append(("Slowdown by size of job", bounded, slowdowns))
    return charts


def _waits(wait: NDArray[np.float64]) -> list[Bar]:
    """The number of jobs by waiting time; classes up to the longest wait."""
    last = int(np.searchsorted(WAITS_S, wait.max(), side="right"))
    counts = np.bincount(np.searchsorted(WAITS_S, wait, side="right") - 1, minlength=last)[:last].tolist()
    out = []
    for number_, count in enumerate(counts):
        begin = duration(WAITS_S[number_])
        end = duration(WAITS_S[number_ + 1]) if number_ + 1 < len(WAITS_S) else ""
        label = f"{begin} - {end}" if end else f"{begin} on"
        out.append(Bar(label, count, f"{label}: {count:,} jobs, {100 * count / len(wait):.1f} %"))
    return out


def _slowdowns(size: NDArray[np.float64], slowdown: NDArray[np.float64]) -> list[Range]:
    """By size: a class goes up to twice the one before, and is called by the smallest and largest in it."""
    kind = np.ceil(np.log2(size) - 1e-9).astype(np.int64)
    out = []
    for power in np.unique(kind).tolist():
        mine, sizes = slowdown[kind == power], size[kind == power]
        low, middle, high = (float(value) for value in np.quantile(mine, (0.1, 0.5, 0.9)))
        least, most = float(sizes.min()), float(sizes.max())
        label = number(most) if least == most else f"{number(least)} - {number(most)}"
        tooltip = f"{label}: {len(mine):,} jobs, median {number(middle)}, 10th {number(low)}, 90th {number(high)}"
        out.append(Range(label, low, middle, high, tooltip))
    return out


def _heat(samples: Sequence[Sample], ids: Sequence[str]) -> Chart:
    """Hosts over time; neighbours share a row where there are many."""
    end_ms = samples[-1].at_ms
    at_ms = np.array([each.at_ms for each in samples])
    options = np.linspace(0, end_ms, min(COLUMNS_MAX, len(samples)) + 1)
    columns = np.unique(np.searchsorted(at_ms, options, side="right") - 1).clip(0)
    cells = np.full((len(ids), len(columns)), np.nan)
    for place, column in enumerate(columns.tolist()):
        hosts = samples[column].hosts
        cells[: len(hosts), place] = np.where(hosts == ABSENT, np.nan, hosts / 100)
    together = -(-len(ids) // ROWS_MAX)
    rows = [_mean(cells[first : first + together]) for first in range(0, len(ids), together)]
    names = [ids[first] for first in range(0, len(ids), together)]
    plot = plots.heat([samples[at].at_ms / 1000 for at in columns], names, np.stack(rows), "use of hosts over time")
    shared = f" A row is the mean of {together} hosts, named by the first." if together > 1 else ""
    about = f"How much is used of the resource that a host has least left of; empty: the host isn't there.{shared}"
    return "Hosts", about, plot


def _mean(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of the hosts that are there; NaN where none is."""
    there = ~np.isnan(rows)
    count = there.sum(axis=0)
    return np.where(count > 0, np.nansum(rows, axis=0) / np.maximum(count, 1), np.nan)
