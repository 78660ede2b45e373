"""The ledger of waits as stacked bars: what tasks waited for, and what became of their running."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection

from events.codes import Code
from paceline.client.waits_models import WaitSums
from projections.queries.waits import job_ledger, pool_waits
from projections.ui.colours import PALETTE, REASONS, REST
from projections.ui.format import lasts, percent
from projections.views.ledger_rows import WEEK_MS
from projections.views.rows import JobRow

WEEKS = 8
"""Weeks that the page of a pool shows, this one last."""
RUNNING = (
    ("kept_ms", "running", "ran, kept"),
    ("lost_to_preemption_ms", "preempted", "ran, lost to preemption"),
    ("lost_to_hosts_ms", "lost", "ran, lost with hosts"),
    ("lost_to_failures_ms", "failed", "ran, lost by failures"),
)


class Part(NamedTuple):
    """A part of a bar: its name, colour and percent, and its time in words."""

    name: str
    colour: str
    percent: float
    time: str


class Bar(NamedTuple):
    """A bar, its parts from the left, and what it is of."""

    title: str
    parts: Sequence[Part]
    text: str

    @property
    def rects(self) -> list[tuple[str, float]]:
        """Colours and percents, as the macro `bar` takes them."""
        return [(each.colour, each.percent) for each in self.parts]


def of_job(connection: Connection, job: JobRow, now_ms: int) -> Bar | None:
    """The bar of a job; None: no time has passed."""
    sums = job_ledger(connection, job, now_ms)
    return _bar("", sums, sums["waiting_ms"] + sums["running_ms"])


def of_pool(connection: Connection, path: str, now_ms: int) -> list[Bar]:
    """The bars of the last weeks of a pool and those below it, on one scale, the oldest first."""
    since_ms = now_ms - (WEEKS - 1) * WEEK_MS
    groups = pool_waits(connection, "week", since_ms, now_ms, path, None, WEEKS + 1)["groups"]
    whole = max((each["waiting_ms"] + each["running_ms"] for each in groups), default=0)
    bars = (_bar(_week(each["week"] or "", now_ms), each, whole) for each in groups)
    return [bar for bar in bars if bar is not None]


def _week(monday: str, now_ms: int) -> str:
    """From when until when a week counts, UTC: of the last one until now."""
    begin = datetime.fromisoformat(monday).replace(tzinfo=UTC)
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    if now < begin + timedelta(weeks=1):
        return f"{monday} until {now:%Y-%m-%d %H:%M}"
    return f"{monday} to {begin + timedelta(days=6):%Y-%m-%d}"


def keys(bars: Sequence[Bar]) -> dict[str, str]:
    """The colours of the parts of bars, by name."""
    return {part.name: part.colour for bar in bars for part in bar.parts}


def _bar(title: str, sums: WaitSums, whole: int) -> Bar | None:
    if not whole:
        return None
    waits = [(each["code"], _colour(each["code"]), each["task_ms"]) for each in sums["waiting"]]
    ran = [(name, colour, sums["running"][key]) for key, colour, name in RUNNING]  # type: ignore[literal-required]
    parts = [Part(name, colour, percent(ms, whole), lasts(ms)) for name, colour, ms in (*waits, *ran) if ms]
    text = ", ".join(f"{each.name} {each.time}" for each in parts)
    return Bar(title, parts, text)


def _colour(code: str) -> str:
    """The colour of a code: its own, or one of those that the others share."""
    if code in REASONS:
        return REASONS[code]
    if code == Code.STARTING:
        return "ordered"
    return REST if code == Code.NOT_YET_EVALUATED else PALETTE[sum(code.encode()) % len(PALETTE)]
