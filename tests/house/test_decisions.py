"""Each design decision stands once, in the page of its topic; whoever cites one or links to it finds it."""

import re
import subprocess
from collections import Counter
from pathlib import Path

from tests.helpers import ROOT
from tools.decision_index import FOLDER, INDEX, anchor, decisions, index

PAGES = sorted(page for page in FOLDER.glob("*.md") if page != INDEX)
CITED = re.compile(r"\b[Dd]ecisions? ((?:[01]\d\d(?:, | and )?)+)")
LINK = re.compile(r"\]\(([\w./-]*)(?:#([\w-]+))?\)")


def numbers() -> list[str]:
    """Numbers of all decisions."""
    return [one.number for one in decisions()]


def texts() -> dict[Path, str]:
    """Everything that may cite a decision."""
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.md", "*.py"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return {ROOT / name: (ROOT / name).read_text() for name in names.stdout.split() if (ROOT / name).exists()}


def citations(text: str) -> set[str]:
    """The numbers that a text cites by word, or by a link to the heading."""
    words = {number for cited in CITED.findall(text) for number in re.findall(r"\d{3}", cited)}
    return words | {target[:3] for _, target in LINK.findall(text) if re.match(r"[01]\d\d-", target)}


def broken(page: Path, text: str) -> list[str]:
    """Links of a page to files that aren't there, or to decisions that have no such heading."""
    wrong = []
    for name, target in LINK.findall(text):
        file = (page.parent / name).resolve() if name else page
        if not file.exists():
            wrong.append(f"{name}: no such file")
        elif target and file.suffix == ".md" and target not in anchors(file.read_text()):
            wrong.append(f"{name}#{target}: no such heading")
    return wrong


def anchors(text: str) -> set[str]:
    """The anchors of all headings outside of code blocks."""
    outside = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return {anchor(re.sub(r"[`*]", "", heading)) for heading in re.findall(r"^#+ (.+)$", outside, re.MULTILINE)}


def test_each_number_is_given_once() -> None:
    assert [number for number, count in Counter(numbers()).items() if count > 1] == []


def test_a_decision_stands_in_the_page_of_its_topic() -> None:
    alone = [page.name for page in PAGES if re.match(r"\d", page.name)]
    assert alone == [], "write it as a heading, `## NNN Title`, of a topic's page; CONTRIBUTING.md says how"


def test_the_index_lists_all_decisions() -> None:
    assert INDEX.read_text() == index(), "run python -m tools.decision_index"


def test_a_decision_that_is_cited_exists() -> None:
    there = set(numbers())
    missing = [
        (str(path), sorted(citations(text) - there)) for path, text in texts().items() if citations(text) - there
    ]
    assert missing == []


def test_each_decision_is_cited_where_somebody_needs_it() -> None:
    outside = {number for path, text in texts().items() if path.parent != FOLDER for number in citations(text)}
    assert sorted(set(numbers()) - outside) == [], "cite it in a module's docstring, or in a page of docs/"


def test_links_of_pages_lead_somewhere() -> None:
    pages = {path: text for path, text in texts().items() if path.suffix == ".md"}
    assert {str(path): broken(path, text) for path, text in pages.items() if broken(path, text)} == {}


def test_each_decision_says_what_was_decided() -> None:
    for page in PAGES:
        for section in re.split(r"^## ", page.read_text(), flags=re.MULTILINE)[1:]:
            assert re.search(r"\*\*Decision[.:]", section), section.partition("\n")[0]


def test_nobody_cites_a_document_that_is_not_here() -> None:
    section = "design " + "§"
    assert [str(path) for path, text in texts().items() if section in text] == []
