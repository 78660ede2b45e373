"""The place where heads are published: `cell-N/head-000000000017.txt` below a folder or a URL of fsspec.

A head is written once. Where another has its place, somebody else signs heads, or the place was changed.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from events.log.object_store import Files
from paceline.client.errors import PacelineError
from paceline.witness.alarms import Alarm, Alarmed, Finding
from paceline.witness.head import SignedHead
from paceline.witness.notes import Note, NoteFault
from processors.runtime.replay import Difference, Mismatch

READ_AT_ONCE = 16
"""So many heads are fetched at once: an object store takes its time for each."""
_NAME = re.compile(r"head-(\d{12})\.txt")


class Published(NamedTuple):
    """A head that is published, with its signatures."""

    head: SignedHead
    note: Note


class Heads:
    """The heads of a cell under a URL. Methods raise `LogUnavailable` where it doesn't answer."""

    def __init__(self, url: str, cell: int) -> None:
        self.url = url
        self._files = Files(url)
        self._folder = f"cell-{cell}"

    def numbers(self) -> list[int]:
        """The numbers of the heads that are there, in their order."""
        names = map(_NAME.fullmatch, self._files.names(self._folder))
        return [int(name[1]) for name in names if name]

    def read(self, number: int) -> Published:
        """A head. Raises `FileNotFoundError`, and `Alarmed` where the file holds none."""
        return self._parsed(number, self._files.read(self._name(number)))

    def read_all(self, numbers: list[int]) -> Iterator[Published]:
        """Heads in the order that is given; many are fetched at once."""
        with ThreadPoolExecutor(READ_AT_ONCE) as pool:
            for at in range(0, len(numbers), 1000):
                part = numbers[at : at + 1000]
                data = pool.map(self._files.read, map(self._name, part))
                yield from map(self._parsed, part, data)

    def publish(self, published: Published) -> None:
        """Writes a head, unless it is there. Raises `Alarmed` where another one is."""
        number, data = published.head.number, published.note.pack()
        try:
            there = self._files.read(self._name(number))
        except FileNotFoundError:
            self._files.write(self._name(number), data)
            return
        if self._parsed(number, there).note.text != published.note.text:
            raise Alarmed(forked(number, f"another head {number} is published at {self.url}"))

    def _parsed(self, number: int, data: bytes) -> Published:
        try:
            published = parsed(data)
        except NoteFault as fault:
            raise Alarmed(forked(number, f"head {number} at {self.url} can't be read: {fault}")) from fault
        if published.head.number != number:
            raise Alarmed(forked(number, f"head {published.head.number} has the place of head {number}"))
        return published

    def _name(self, number: int) -> str:
        return f"{self._folder}/head-{number:012}.txt"


def parsed(data: bytes) -> Published:
    """The head in some bytes. Raises `NoteFault`."""
    note = Note.parse(data)
    return Published(SignedHead.parse(note.text), note)


def forked(number: int, text: str) -> Finding:
    """That heads are no chain."""
    return Finding(Alarm.FORKED_HEADS, Difference("", 0, 0, None, None, text, (), Mismatch.LOG), number)


def no_heads(heads: Heads, cell: int) -> PacelineError:
    """That there is none."""
    return PacelineError(
        f"There are no heads of cell {cell} at {heads.url}: name what `paceline witness --publish` named."
    )
