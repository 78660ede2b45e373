"""The web UI over a large cell: 100,000 jobs of 1,000,000 tasks on 50,000 hosts.

The projector fills the views from a log written by hand, and 100 jobs a second come meanwhile. The API is a process of
its own, the log with its projector another; a third asks, or is Chromium.
"""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from httpx2 import Client

from bench import Options, Result, _moments, _why, percentile, sized
from bench._large_cell import Job, Size, host
from bench._series import series_mib_per_day
from paceline.client import cell_file
from projections.ui.contents import PAGES

TOKEN = "bench"
TARGETS = {
    "page_p99_ms": 150.0,
    "overview_load_ms": 1500.0,
    "hosts_map_load_ms": 1500.0,
    "assets_kib": 150.0,
    "watchers_cpu_percent": 30.0,
    "why_ms": 1000.0,
    "at_open_s": 3.0,
    "copies_of_log": 2.0,
    "series_mib_per_day": 500.0,
}
DRAWN = {"hosts": "hosts_map"}
"""The names of pages in browser figures, where they differ."""
WATCHED = "/ui/"
PAIRS = sized(3, 1)
WATCHERS = sized(200, 10)
ASSET_BYTES = """performance.getEntriesByType("resource")
  .filter((each) => new URL(each.name).pathname.startsWith("/ui/static/"))
  .reduce((sum, each) => sum + each.encodedBodySize, 0)"""


@dataclass(frozen=True, slots=True)
class Effort:
    """The load that is put on a cell."""

    requests: int = sized(200, 3)
    """Requests for each page."""
    loads: int = sized(5, 1)
    """Loads of a page in the browser."""
    watchers: int = WATCHERS
    watched_s: float = sized(20, 1)


def run(log: str, options: Options) -> Result:
    """On the embedded log: the views are the same over any."""
    if log != "embedded":
        raise SystemExit("the web UI is measured on the embedded log: it reads views")
    size = Size(jobs=sized(100_000, 300), tasks=sized(1_000_000, 3_000), hosts=sized(50_000, 150), pools=sized(200, 6))
    result = measured(options.folder / "cell", size, Effort())
    figures, references = delays(options.folder, PAIRS)
    causes, beside = _why.run(options.folder / "why")
    moments, of_copies = _moments.run(options.folder / "moments")
    figures, references = {**figures, **causes, **moments}, {**references, **beside, **of_copies}
    figures["series_mib_per_day"] = series_mib_per_day(options.folder / "series")
    return Result({**result.figures, **figures}, {**result.references, **references}, TARGETS)


def measured(folder: Path, size: Size, effort: Effort) -> Result:
    """The figures of a cell of a size, in a folder of its own."""
    folder.mkdir(parents=True)
    feed = ("bench._ui_feed", str(folder), *map(str, (size.jobs, size.tasks, size.hosts, size.pools)))
    with _process(*feed) as feeding:
        references: dict[str, float] = json.loads(_line(feeding))
        with _process("bench._ui_server", str(folder), TOKEN) as server:
            address = _line(server)
            figures, beside = answers(address, effort.requests)
            figures |= in_browser(address, effort.loads)
            figures |= watched(address, server.pid, effort)
            references |= beside
    return Result(figures, references, TARGETS)


def pages() -> dict[str, str]:
    """The address of each page by its name, on a cell written by hand: of the job with most tasks, a pool, a host, a
    round.
    """
    job = Job(0, 1, "").name
    there = {"job_id": job, "subject": job, "instance": "0", "path": "team-0/pool-0", "host_id": host(7)}
    there |= {"machine": "placement", "number": "3"}
    paths = {page.template.removesuffix(".html"): page.path for page in PAGES if not page.for_writing}
    for part, value in there.items():
        paths = {name: re.sub(r"\{" + part + r"(:\w+)?\}", value, path) for name, path in paths.items()}
    paths["find"] += "?q=job-"  # a search for nothing leads to the list of jobs, one for a single thing to that
    return {name: f"/ui{path}" for name, path in paths.items() if "{" not in path}


def answers(address: str, requests: int) -> tuple[dict[str, float], dict[str, float]]:
    """Measures how long each page takes the server, one request after the other; beside it the list of jobs of the API,
    and an answer that reads nothing.
    """
    with Client(base_url=f"http://{address}", headers={"Accept-Encoding": "gzip"}, timeout=60) as client:
        times = {f"page_{name}_p99_ms": _times(client, path, requests) for name, path in pages().items()}
        others = {"api_jobs_p99_ms": "/v1/jobs?page_size=100", "livez_p99_ms": "/livez"}
        beside = {name: percentile(_times(client, path, requests), 0.99) for name, path in others.items()}
    figures = {name: percentile(each, 0.99) for name, each in times.items()}
    return {"page_p99_ms": max(figures.values()), **figures}, beside


def _times(client: Client, path: str, requests: int) -> list[float]:
    """Milliseconds of each request, after one that isn't counted."""
    times = []
    for _ in range(requests + 1):
        begin = time.perf_counter()
        client.get(path).raise_for_status()
        times.append((time.perf_counter() - begin) * 1000)
    return times[1:]


def in_browser(address: str, loads: int) -> dict[str, float]:
    """Measures how long Chromium takes to show pages, each time as for the first time, and the compressed bytes that
    they load.
    """
    from tests.browser.browser import chromium, stands

    figures: dict[str, list[float]] = {}
    kib: list[float] = []
    with chromium() as browser:
        for name, path in pages().items():
            for _ in range(loads):
                page = browser.new_context(viewport={"width": 1600, "height": 1000}).new_page()
                begin = time.perf_counter()
                page.goto(f"http://{address}{path}")
                stands(page)
                figures.setdefault(f"{DRAWN.get(name, name)}_load_ms", []).append((time.perf_counter() - begin) * 1000)
                kib.append(page.evaluate(ASSET_BYTES) / 1024)
                page.context.close()
    return {name: percentile(times, 0.5) for name, times in figures.items()} | {"assets_kib": max(kib)}


def watched(address: str, pid: int, effort: Effort) -> dict[str, float]:
    """Measures what open overview pages cost the server: the share of a core that they add."""
    idle = _cpu_percent(pid, lambda: time.sleep(effort.watched_s))
    with watchers(address, effort.watchers) as received_bytes:
        busy = _cpu_percent(pid, lambda: time.sleep(effort.watched_s))
    return {
        "watchers_cpu_percent": busy - idle,
        "unwatched_cpu_percent": idle,
        "watchers_kib_per_s": received_bytes[0] / effort.watched_s / 1024,
    }


def delays(folder: Path, pairs: int) -> tuple[dict[str, float], dict[str, float]]:
    """Measures how long a submission takes to its order in `bench cell`'s steady shape, with open overview pages and
    without, in turn.
    """
    samples: dict[str, list[float]] = {}
    beside: list[float] = []
    for number in range(2 * pairs):
        watching = number % 4 in (1, 2)  # so that none is always the second
        figures, references = _steady(folder / f"steady-{number}", WATCHERS if watching else 0)
        for share in ("p50", "p99"):
            name = f"submit_to_order_{'watched_' if watching else ''}{share}_ms"
            samples.setdefault(name, []).append(figures[f"submit_to_order_{share}_ms"])
        beside.append(references["raw_five_appends_and_reads_p99_ms"])
    return (
        {name: percentile(values, 0.5) for name, values in samples.items()},
        {"raw_five_appends_and_reads_p99_ms": percentile(beside, 0.5)},
    )


def _steady(folder: Path, count: int) -> tuple[dict[str, float], dict[str, float]]:
    with _process("bench._shapes", "steady", str(folder), "embedded") as shape, ExitStack() as pages:
        while (cell := cell_file.read(folder)) is None:
            time.sleep(0.1)
        if count:
            pages.enter_context(watchers(cell.listen, count, to_the_end=True))
        printed = json.loads(_line(shape))
    return printed["figures"], printed["references"]


@contextmanager
def watchers(address: str, count: int, to_the_end: bool = False) -> Iterator[list[int]]:
    """Overview pages that are open meanwhile; afterwards the list has the bytes that they got, unless the server has
    come to its end.
    """
    with Client(base_url=f"http://{address}", timeout=60) as client:
        watch = re.search(r'data-watch="([^"]+)"', client.get(WATCHED).text)
    assert watch is not None, "the overview isn't live"
    got: list[int] = []
    with _process("bench._ui_watchers", address, watch[1], str(count)) as process:
        assert _line(process) == "open"
        yield got
        assert process.stdin is not None
        process.stdin.close()
        if not to_the_end:
            got.append(int(_line(process)))


def _cpu_percent(pid: int, meanwhile: Callable[[], Any]) -> float:
    process = psutil.Process(pid)
    before, begin = process.cpu_times(), time.perf_counter()
    meanwhile()
    after = process.cpu_times()
    spent = after.user + after.system - before.user - before.system
    return 100 * spent / (time.perf_counter() - begin)


@contextmanager
def _process(*command: str) -> Iterator["subprocess.Popen[str]"]:
    """A module of Python that runs meanwhile."""
    words = [sys.executable, "-m", *command]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def _line(process: "subprocess.Popen[str]") -> str:
    """The next line that it prints."""
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if not line:
        raise SystemExit(f"{process.args} has ended")
    return line
