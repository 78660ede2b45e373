"""Plots over time: drawn from the JSON beside them, and anew when that has changed; read at the cursor and without."""

import json
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, Route

from projections.ui import rendering
from tests.browser.browser import Visitor

ADDRESS = "http://127.0.0.1:9"
KINDS = {"js": "text/javascript", "css": "text/css"}
STATIC = files("projections.ui") / "static"
PAGE = """<!doctype html><html lang="en"><title>plots</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="/vendor/uplot/uPlot.min.css"><link rel="stylesheet" href="/paceline.css">
<script src="/vendor/uplot/uPlot.iife.min.js" defer></script><script src="/plots.js" type="module"></script>
<body>{% from "macros.html" import plot with context %}{{ plot("a", label="tasks") }}"""
AREAS = [
    {"name": "waiting", "colour": "s1", "values": [1, 2, None, 12345]},
    {"name": "running", "colour": "s2", "values": [4, 5, 6, 7]},
    {"name": "limit", "colour": "ink", "line": True, "values": [9, 9, 9, 9]},
]
TIMES = [1_700_000_000 + 60 * at for at in range(4)]


def shown(visitor: Visitor, plot: dict[str, Any], **options: Any) -> Page:
    """A page with one plot."""
    page = visitor.somebody(**options).new_page()
    html = rendering.environment().from_string(PAGE).render(plots={"a": plot})

    def answer(route: Route) -> None:
        name = urlsplit(route.request.url).path[1:]
        kind = KINDS.get(name.rpartition(".")[2], "text/html")
        route.fulfill(body=(STATIC / name).read_text() if name != "page" else html, content_type=kind)

    page.route(f"{ADDRESS}/**", answer)
    page.goto(f"{ADDRESS}/page")
    return page


def legend(page: Page) -> list[str]:
    """The values of the table beside the plot."""
    return page.locator("[data-now]").all_inner_texts()


@pytest.mark.parametrize("stacked", [True, False])
def test_a_plot_is_drawn_and_read_at_the_cursor(visitor: Visitor, stacked: bool) -> None:
    page = shown(visitor, {"times": TIMES, "stacked": stacked, "series": AREAS})
    canvas = page.locator(".plot canvas")
    canvas.wait_for()
    assert legend(page) == ["12.3k", "7", "9"]
    over = page.locator(".u-over").bounding_box()
    assert over is not None
    page.mouse.move(over["x"] + 2, over["y"] + 20)
    page.wait_for_function("document.querySelector('[data-now]').textContent === '1'")
    assert legend(page) == ["1", "4", "9"]
    assert page.inner_text("[data-when]") == "22:13"
    page.mouse.move(0, 0)
    page.wait_for_function("document.querySelector('[data-when]').textContent === 'now'")
    assert legend(page) == ["12.3k", "7", "9"]


def test_a_plot_whose_values_have_changed_is_drawn_anew(visitor: Visitor) -> None:
    page = shown(visitor, {"times": TIMES, "series": AREAS})
    page.locator(".plot canvas").wait_for()
    for series in (AREAS[:1], AREAS):
        changed = json.dumps({"times": TIMES, "series": [{**each, "values": [3, 3, 3, 3]} for each in series]})
        page.evaluate(
            "text => { document.getElementById('plot-a').textContent = text;"
            "document.querySelector('.canvas').dispatchEvent(new CustomEvent('paceline:swap')) }",
            changed,
        )
        page.locator(".u-over").hover()
        page.wait_for_function("document.querySelector('[data-now]').textContent === '3'")
        assert page.locator(".plot canvas").count() == 1


def test_elapsed_time_is_read_as_such(visitor: Visitor) -> None:
    page = shown(visitor, {"times": [0, 90, 7200], "elapsed": True, "series": [{**AREAS[0], "values": [1, 2, 3]}]})
    over = page.locator(".u-over").bounding_box()
    assert over is not None
    page.mouse.move(over["x"] + over["width"] * 0.02, over["y"] + 20)
    page.wait_for_function("document.querySelector('[data-when]').textContent === '1m30s'")


def test_a_plot_can_be_read_without_scripts(visitor: Visitor) -> None:
    page = shown(visitor, {"times": TIMES, "series": AREAS}, java_script_enabled=False)
    assert legend(page) == ["12.3k", "7", "9"]


def test_nothing_to_plot_is_said(visitor: Visitor) -> None:
    page = shown(visitor, {"times": [], "series": [{**AREAS[0], "values": []}]})
    assert "Nothing has happened yet" in page.inner_text("body")
