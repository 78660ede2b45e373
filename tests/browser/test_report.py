"""The report of a simulation in a browser: one file, no server, the plots of the web UI."""

import pytest

from paceline.cli.main import run
from tests.browser.browser import Visitor
from tests.browser.test_pages import NARROW, blamed, fits
from tests.helpers import ROOT

SCENARIO = ROOT / "examples" / "scenarios" / "first.yaml"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where the report of the first example is."""
    folder = tmp_path_factory.mktemp("report")
    assert run(["simulate", str(SCENARIO), "--out", str(folder)]) == 0
    return (folder / "report.html").as_uri()


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_a_report_draws_its_plots_without_a_server(visitor: Visitor, report: str, colours: str) -> None:
    page = visitor.open(report, color_scheme=colours)
    page.locator(".plot canvas").nth(3).wait_for()
    assert page.locator(".plot canvas").count() == 4
    assert page.locator("svg.chart").count() == 3
    assert blamed(page) == []
    page.set_viewport_size(NARROW)
    assert fits(page)


def test_a_report_tells_its_figures_without_scripts(visitor: Visitor, report: str) -> None:
    page = visitor.open(report, java_script_enabled=False)
    assert page.locator(".plot table td").first.inner_text() == "0"
    assert "job nightly is SUCCEEDED" in page.inner_text("main")
