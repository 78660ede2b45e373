"""Pages over the views of a cell that is written by hand."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from html.parser import HTMLParser
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


class _Element(HTMLParser):
    """Collects the text of the element with an id."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name, self._open = name, list[str]()
        self.text = list[str]()
        self.found = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("input", "meta", "link", "br", "img"):
            return
        if self._open or (dict(attrs).get("id") == self._name and not self.found):
            self._open.append(tag)
            self.found = True

    def handle_endtag(self, tag: str) -> None:
        if self._open:
            self._open.pop()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_data(self, data: str) -> None:
        if self._open:
            self.text.append(data)


def text_of(html: str, name: str) -> str:
    """The text of the element with an id, words apart by one space."""
    element = _Element(name)
    element.feed(html)
    assert element.found, f"no element {name}"
    return " ".join(" ".join(element.text).split())


def links(html: str, words: str) -> list[str]:
    """The addresses of links whose text has these words."""
    found = re.findall(r'<a\b[^>]*?href="([^"]*)"[^>]*>(.*?)</a>', html, re.DOTALL)
    plain = [(unescape(href), " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())) for href, text in found]
    return [href for href, text in plain if words in text]
