"""Sentences with links in them."""

import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote

PAGES = {"job": "/jobs/", "host": "/hosts/", "pool": "/pools"}


def page_of(kind: str, name: str) -> str:
    """The path of the page of a job, host or pool; of a machine that of the rounds."""
    return PAGES[kind] + quote(name, safe="/" if kind == "pool" else "") if kind in PAGES else "/rounds"


def linked(text: str, links: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The pieces of a sentence: text, and the path of the page where it first names something; empty for the rest.
    `links`: kind and name of what it names.
    """
    pages = {name: page_of(kind, name) for kind, name in links if name}
    if pages:
        names = "|".join(map(re.escape, sorted(pages, key=len, reverse=True)))
        text_at = 0
        for found in re.finditer(rf"(?<![\w/.-])(?:{names})(?![\w/-])", text):
            if found[0] in pages:
                yield text[text_at : found.start()], ""
                yield found[0], pages.pop(found[0])
                text_at = found.end()
        text = text[text_at:]
    yield text, ""
