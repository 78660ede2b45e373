"""Writes the index of the design decisions by number: `python -m tools.decision_index`."""

import re
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parents[1] / "docs" / "decisions"
INDEX = FOLDER / "README.md"
HEADING = re.compile(r"^## (\d{3}) (.+)$", re.MULTILINE)
HEAD = """\
# Design decisions

A decision has a number for good and stands, under it, in the page of its topic. Code and pages cite it by number
(`decision 033`). A new one takes the next number. `python -m tools.decision_index` makes this index; numbers that are
missing were never given.

| number | decision | topic |
| --- | --- | --- |
"""


class Decision(NamedTuple):
    """A heading of a topic page."""

    number: str
    title: str
    page: Path

    @property
    def anchor(self) -> str:
        """The anchor that GitHub gives the heading."""
        return anchor(f"{self.number} {self.title}")


def anchor(heading: str) -> str:
    """The anchor that GitHub gives a heading: lower case, without punctuation, with hyphens for spaces."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def decisions() -> list[Decision]:
    """All decisions of all topic pages, by number; a number that is given twice occurs twice."""
    pages = [page for page in sorted(FOLDER.glob("*.md")) if page != INDEX]
    return sorted(Decision(one[1], one[2], page) for page in pages for one in HEADING.finditer(page.read_text()))


def index() -> str:
    """The text of the index."""
    return HEAD + "".join(
        f"| [{one.number}]({one.page.name}#{one.anchor}) | {one.title} | {_topic(one.page)} |\n" for one in decisions()
    )


def _topic(page: Path) -> str:
    title = page.read_text().partition("\n")[0].removeprefix("# ").removesuffix(": decisions")
    return f"[{title}]({page.name})"


if __name__ == "__main__":
    INDEX.write_text(index())
