"""The type of each problem is a path that tells what it means and what helps."""

import ast
import html
import re

import pytest

from events.codes import Code
from projections.api.cell_router import create_cells_app
from projections.api.problem_pages import problem_kinds
from tests.helpers import ROOT
from tests.projections.conftest import LISTEN, CheckedClient


def codes_of_problems() -> set[str]:
    """The codes that code of the API and of the pages says itself."""
    codes = set()
    for folder in ("projections", "paceline/services", "paceline/moments", "paceline/plans"):
        for file in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Problem" and len(node.args) > 1:
                    code = node.args[1]
                    codes |= {str(code.value)} if isinstance(code, ast.Constant) else set()
    return codes


def test_each_code_has_its_words():
    assert codes_of_problems() | {code.value for code in Code} <= problem_kinds().keys()
    assert all(kind["means"] for kind in problem_kinds().values())


def test_a_code_of_the_machines_is_not_explained_twice():
    alone = re.findall(r"^\| `([A-Z_]+)`", (ROOT / "docs" / "problems.md").read_text(), re.M)
    assert alone == sorted(alone)
    assert not set(alone) & {code.value for code in Code}


def test_the_type_of_a_problem_leads_to_its_words(api):
    problem = api.client.get("/v1/jobs/none").json()
    told = api.get(problem["type"])
    assert told["code"] == problem["code"] == "NOT_FOUND"
    assert told["who"] == "you"
    assert told["means"].startswith("There is no such job, pool or host")
    assert api.get("/problems/POOL_IN_USE")["helps"] == "End the jobs, remove the children first."
    api.problem(api.client.get("/problems/no-such-code"), 404, "NOT_FOUND")


@pytest.mark.parametrize("code", ["unknown-parameter", "done"])
def test_a_browser_gets_a_page(api, code):
    page = api.client.get(f"/problems/{code}", headers={"Accept": "text/html,*/*;q=0.8"})
    assert page.headers["content-type"].startswith("text/html")
    assert problem_kinds()[code.upper().replace("-", "_")]["means"] in html.unescape(page.text)


def test_a_server_of_several_cells_has_them_too(api):
    client = CheckedClient(create_cells_app({0: api.app}), f"http://{LISTEN}")
    assert client.get("/problems/wrong-cell").json()["code"] == "WRONG_CELL"
