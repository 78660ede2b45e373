"""The pictures of docs/ui.md, of a simulated cell: python -m tests.browser.pictures [PAGE...]."""

import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
from playwright.sync_api import expect

from tests.browser.browser import Visitor, chromium, stands
from tests.browser.cells import Shown
from tests.browser.pictured_cell import pictured
from tests.helpers import ROOT

FOLDER = ROOT / "docs" / "ui"
BYTES_MAX = 150 * 1024
SIZE = {"width": 1200, "height": 740}
MAKING_MS = 120_000
THEN = "2023-11-14T23:40:00Z"
PAGES = {
    "overview": "/",
    "jobs": "/jobs",
    "job": "/jobs/tile-server",
    "pools": "/pools",
    "pool": "/pools/maps/tiles",
    "hosts": "/hosts",
    "host": "/hosts/r03-4",
    "rounds": "/rounds",
    "round": "/rounds/entitlement/{preempting}",
    "log": "/log",
    "why": "/why/paceline.entitlement:{preempting}",
    "operations": "/operations",
    "past": f"/?at={THEN}",
}
"""The page of each picture."""


def main(names: list[str]) -> None:
    """Draws the pages that are named, all where none is."""
    FOLDER.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="paceline-pictures-") as folder, pictured(Path(folder)) as cell:
        draw(cell, {name: PAGES[name] for name in names or PAGES})


def draw(cell: Shown, pages: Mapping[str, str]) -> None:
    """Draws pages as they stand. Raises where one does what no page may, or takes too many bytes."""
    number = preempting(cell)
    with chromium() as browser:
        visitor = Visitor(browser)
        for name, path in pages.items():
            page = visitor.open(cell.url(path.format(preempting=number)), viewport=SIZE, color_scheme="light")
            expect(page.get_by_text("are being made from the log")).to_have_count(0, timeout=MAKING_MS)
            stands(page)
            file = FOLDER / f"{name}.png"
            page.screenshot(path=file, animations="disabled")
            if visitor.faults or file.stat().st_size > BYTES_MAX:
                raise SystemExit(f"{name}: {file.stat().st_size:,} bytes; {visitor.faults}")
            visitor.close()


def preempting(cell: Shown) -> int:
    """The first round of entitlement that preempts; before a restart a round stands at its number."""
    marks = httpx2.get(f"http://{cell.address}/v1/marks", trust_env=False).json()["marks"]
    first = min((mark for mark in marks if mark["shape"] == "preempted"), key=lambda mark: mark["at_ms"])
    return int(first["position"].partition(":")[2])


if __name__ == "__main__":
    main(sys.argv[1:])
