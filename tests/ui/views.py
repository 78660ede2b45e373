"""Pages over the views of a cell that is written by hand."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from projections.ui.app import add_ui
from tests.projections.conftest import LISTEN, TOKEN, Api


class Pages(Api):
    """An API with its pages, and a browser without scripts."""

    def __init__(self, folder: Path, number: int = 0) -> None:
        super().__init__(folder, number)
        add_ui(self.app, {number: self.app.state.context}, TOKEN)
        self.browser = TestClient(self.app, f"http://{LISTEN}", follow_redirects=False)

    def page(self, path: str, status: int = 200, **more: Any) -> str:
        """The HTML of a page."""
        answer = self.browser.get(f"/ui{path}", **more)
        assert answer.status_code == status, answer.text
        return answer.text

    def sign_in(self) -> str:
        """Signs in; returns what forms must carry."""
        assert self.browser.post("/ui/sign-in", data={"token": TOKEN}).status_code == 303
        found = re.search(r'name="csrf" value="(\w+)"', self.page("/jobs"))
        assert found
        return found[1]


@contextmanager
def pages(folder: Path, number: int = 0) -> Iterator[Pages]:
    """A cell with pages, until the block ends."""
    held = Pages(folder, number)
    try:
        yield held
    finally:
        held.close()


def text_of(html: str, name: str) -> str:
    """The text of the element with an id, in one line."""
    found = re.search(rf'<(\w+)[^>]* id="{re.escape(name)}".*?</\1>', html, re.DOTALL)
    assert found, f"no element {name}"
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", found[0])).split())


def links(html: str, words: str) -> list[str]:
    """The addresses of links whose text has these words."""
    found = re.findall(r'<a\b[^>]*?href="([^"]*)"[^>]*>(.*?)</a>', html, re.DOTALL)
    plain = [(unescape(href), " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())) for href, text in found]
    return [href for href, text in plain if words in text]
