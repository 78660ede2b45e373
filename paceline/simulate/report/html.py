"""The report of a run: one HTML file with plots that a person reads at a glance, nothing loaded from elsewhere."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from paceline.output import span
from paceline.simulate.report import plots
from paceline.simulate.report.plots import Bar, Range, duration, number
from paceline.simulate.report.results import Jobs
from paceline.simulate.report.series import ABSENT, Sample, main_resource
from paceline.simulate.report.style import PAGE
from paceline.simulate.session import Session

POOLS_MAX = 7
"""Of more pools the largest have a colour of their own, the others one together."""
COLUMNS_MAX, ROWS_MAX = 200, 60
"""Of the heat map; hosts beyond share rows."""
WAITS_S = (0, 1, 10, 60, 300, 900, 3600, 14_400, 43_200, 86_400, 259_200, 604_800, 2_592_000)
"""Where the classes of waiting times begin."""
OTHERS = "other pools"


def write_report(session: Session, path: Path) -> None:
    """Writes the page of a run that has ended."""
    samples = session.series.samples
    sections = [_tiles(session), _expectations(session)]
    if len(samples) > 1 and any(samples[-1].capacity.values()):
        sections += _over_time(samples)
    sections += _of_jobs(session.jobs, main_resource(samples))
    if len(samples) > 1 and session.series.host_ids():
        sections.append(_heat(samples, session.series.host_ids()))
    title = escape(session.name)
    path.write_text(PAGE.replace("{title}", title).replace("{body}", "\n".join(sections)), encoding="utf-8")


def _unit(resource: str) -> str:
    return "cores" if resource == "cpu" else f"GPUs {resource.partition('/')[2]}".strip()


def _tiles(session: Session) -> str:
    """The figures to look at first."""
    body = session.body()
    figures, states = body["figures"], session.jobs.states
    resource = main_resource(session.series.samples)
    used = figures.get(f"mean_{resource}_used_percent")
    tiles = [
        ("virtual time", span(body["virtual_s"])),
        ("jobs", f"{sum(states.values()):,}"),
        ("tasks", f"{session.jobs.tasks:,}"),
        (f"{resource.upper()} used, mean", "-" if used is None else f"{used:.1f} %"),
        ("mean wait", _time(figures.get("mean_wait_s"))),
        ("p99 wait", _time(figures.get("p99_wait_s"))),
        ("mean bounded slowdown", _figure(figures.get("mean_bounded_slowdown"))),
        ("runs preempted", f"{session.jobs.preempted:,}"),
        ("runs lost", f"{session.jobs.lost:,}"),
    ]
    shown = "".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in tiles)
    ended = ", ".join(f"{count:,} {state}" for state, count in sorted(states.items()))
    refused = f"; {session.log_summary.rejected:,} rejected" if session.log_summary.rejected else ""
    head = f"<h1>{escape(session.name)}</h1><p>seed {session.seed}; jobs: {ended or 'none'}{refused}</p>"
    log = f"{body['records']:,} records, hash <code>{body['hash']}</code>"
    rerun_command = f"<code>{escape(session.rerun_command)}</code>"
    return f"<header>{head}<dl>{shown}</dl><p>{log}. Again: {rerun_command}</p></header>"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return span(seconds) if seconds >= 10 else f"{seconds:.3g}s"


def _figure(value: float | None) -> str:
    return "-" if value is None else number(value)


def _expectations(session: Session) -> str:
    verdicts = session.run.watch.verdicts()
    if not verdicts:
        return ""
    rows = "".join(
        f'<tr><td class="{"holds" if each.holds else "fails"}">{"holds" if each.holds else "FAILED"}</td>'
        f"<td>{escape(each.text)}</td><td>{each.at_s}</td><td>{escape(each.observation)}</td>"
        f"<td><code>{escape(each.position)}</code></td></tr>"
        for each in verdicts
    )
    head = "<tr><th></th><th>expected</th><th>decided at</th><th>seen</th><th>after round</th></tr>"
    return _section("Expectations", "", f"<table>{head}{rows}</table>")


def _section(title: str, about: str, *parts: str) -> str:
    tooltip = f"<p>{about}</p>" if about else ""
    return f"<section><h2>{title}</h2>{tooltip}{''.join(parts)}</section>"


def _legend(entries: Sequence[tuple[str, str]]) -> str:
    """Names and the classes that colour them."""
    items = "".join(f'<li><i class="{colour}"></i>{escape(name)}</li>' for name, colour in entries)
    return f'<ul class="legend">{items}</ul>'


def _leaves(samples: Sequence[Sample]) -> list[str]:
    """Pools without pools below, the largest first."""
    held: dict[str, int] = {}
    at = main_resource(samples)
    for sample in samples:
        for path, row in sample.pools.items() if at in sample.names else ():
            held[path] = held.get(path, 0) + row.allocation[sample.names.index(at)]
    leaves = [path for path in held if not any(other.startswith(f"{path}/") for other in held)]
    return sorted(leaves, key=lambda path: (-held[path], path))


def _over_time(samples: Sequence[Sample]) -> list[str]:
    """What is plotted over time: the cluster, the queue, each pool."""
    at, leaves = main_resource(samples), _leaves(samples)
    times = [each.at_ms / 1000 for each in samples]
    unit = _unit(at)
    shown, others = leaves[:POOLS_MAX], leaves[POOLS_MAX:]
    layers = [(path, f"s{number}", _of_pool(samples, path, "allocation", at)) for number, path in enumerate(shown, 1)]
    if others:
        rest = [_of_pool(samples, path, "allocation", at) for path in others]
        layers.append((OTHERS, "s0", [sum(values) for values in zip(*rest, strict=True)]))
    most = [each.capacity.get(at, 0) / 1000 for each in samples]
    legend = _legend([*((name, colour) for name, colour, _ in layers), ("capacity", "most")])
    cluster = _section(
        "The cluster over time", f"{unit} that each pool holds", legend, plots.stacked(times, layers, most, unit)
    )
    queue = [
        ("waiting", "line s6", [float(each.waiting) for each in samples]),
        ("running", "line s1", [float(each.running) for each in samples]),
    ]
    tasks = _section("Tasks", "", _legend([("waiting", "s6"), ("running", "s1")]), plots.lines(times, queue, "tasks"))
    return [cluster, tasks, _shares(samples, times, layers, at)] if layers else [cluster, tasks]


def _of_pool(samples: Sequence[Sample], path: str, kind: str, at: str) -> list[float]:
    found = []
    for each in samples:
        row = each.pools.get(path) if at in each.names else None
        found.append(0.0 if row is None else getattr(row, kind)[each.names.index(at)] / 1000)
    return found


def _shares(
    samples: Sequence[Sample], times: list[float], layers: Sequence[tuple[str, str, Sequence[float]]], at: str
) -> str:
    """A plot for each pool, all to the same scale."""
    whole = max(each.capacity.get(at, 0) for each in samples) / 1000
    parts = []
    for path, colour, held in layers:
        if path == OTHERS:
            continue
        found = [
            ("allocation", f"area {colour}", held),
            ("demand", "line demand", [min(value, whole) for value in _of_pool(samples, path, "demand", at)]),
            ("entitlement", "line most", _of_pool(samples, path, "entitlement", at)),
        ]
        plot = plots.lines(times, found, _unit(at), top=whole, size=(440, 180))
        parts.append(f"<figure><figcaption>{escape(path)}</figcaption>{plot}</figure>")
    legend = _legend([("entitlement", "most"), ("demand, as far as the cluster goes", "demand")])
    about = "The area is what the pool holds; all to the scale of the whole cluster"
    return _section("Entitlement and allocation by pool", about, legend, f'<div class="pair">{"".join(parts)}</div>')


def _of_jobs(jobs: Jobs, at: str) -> list[str]:
    """What is plotted over jobs that ran."""
    if not jobs.wait_s:
        return []
    wait, slowdown = np.frombuffer(jobs.wait_s), np.frombuffer(jobs.slowdown)
    size = np.frombuffer(jobs.cpu_milli if at == "cpu" else jobs.gpu_milli, dtype=np.int64) / 1000
    asks = size > 0
    sections = [
        _section("Waiting times", "", plots.bars(_waits(wait), "time between submission and first task", "jobs"))
    ]
    if asks.any():
        title = f"{_unit(at)} that the whole job asks for"
        slowdowns = plots.ranges(_slowdowns(size[asks], slowdown[asks]), title, "bounded slowdown")
        bounded = "max(1, (wait + run) / max(run, 10 s)): dot = median, line = 10th to 90th percentile"
        sections.append(_section("Slowdown by size of job", bounded, slowdowns))
    return sections


def _waits(wait: NDArray[np.float64]) -> list[Bar]:
    """How many jobs waited how long; classes up to the longest wait."""
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


def _heat(samples: Sequence[Sample], ids: Sequence[str]) -> str:
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
    shades = [(f"{round(100 * kind / (plots.CLASSES - 1))} %", f"h{kind}") for kind in range(plots.CLASSES)]
    return _section("Hosts", about, _legend(shades), plot)


def _mean(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of the hosts that are there; NaN where none is."""
    there = ~np.isnan(rows)
    count = there.sum(axis=0)
    return np.where(count > 0, np.nansum(rows, axis=0) / np.maximum(count, 1), np.nan)
