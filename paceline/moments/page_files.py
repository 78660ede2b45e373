"""Copies of a SQLite file that hold the pages that differ from the copy before (decision 049).

A copy is two files: one holds the pages, some at a time compressed, `N.head` says which pages they are and names that
file. The head is written last, so a copy is there whole or not at all. The first of a line of copies holds all pages. A
copy is left out by giving its pages to the one after it, where that doesn't have newer ones.
"""

import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from heapq import merge
from pathlib import Path
from typing import IO

import msgspec
import numpy as np
import numpy.typing as npt
from cramjam import DecompressionError, zstd

from events.structs import known

HEAD, PAGES, PART = ".head", ".pages", ".part"
BLOCK = 16
"""Pages that are compressed together."""
LEVEL = 1
HASH_BYTES = 8
DAMAGED = (OSError, ValueError, DecompressionError)
"""Exceptions that reading copies raises where their files aren't whole."""

Numbers = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]


class Head(msgspec.Struct, frozen=True):
    """A copy. `previous`: the copy it goes on from, 0: none. `positions`: where the topics of the log ended; `chains`:
    the last round of each machine with its hash; `work`, `log_bytes`: how much was folded up to it, in units of work
    and in bytes; `pages`: size of the file; `packed_numbers`: the pages that it has; `ends`: where each block of them
    ends; `sums`: a hash of each.
    """

    number: int
    file: str
    previous: int
    format: str
    positions: dict[str, int]
    chains: dict[str, tuple[int, bytes]]
    work: int
    log_bytes: int
    page_bytes: int
    pages: int
    packed_numbers: bytes = msgspec.field(name="held")
    ends: bytes
    sums: bytes

    @property
    def numbers(self) -> Numbers:
        """The pages that it holds, counted from 0, ascending."""
        return np.frombuffer(self.packed_numbers, np.int64)

    @property
    def block_ends(self) -> Numbers:
        """Where each block of pages ends in the file."""
        return np.frombuffer(self.ends, np.int64)


def heads(folder: Path) -> list[Head]:
    """All finished copies of a folder, the oldest first; those that can't be read are left out."""
    copies = []
    for file in folder.glob(f"*{HEAD}"):
        try:
            copies.append(msgspec.msgpack.decode(file.read_bytes(), type=known(Head)))
        except (OSError, msgspec.DecodeError):
            continue
    return sorted(copies, key=lambda head: head.number)


def size_of(folder: Path, head: Head) -> int:
    """The bytes that a copy takes."""
    return _head_file(folder, head.number).stat().st_size + (folder / head.file).stat().st_size


def line_to(copies: Sequence[Head], number: int) -> list[Head]:
    """The copies that a copy is put together from, itself first; empty where one is missing."""
    by_number = {head.number: head for head in copies}
    line = []
    while number:
        head = by_number.get(number)
        if head is None:
            return []
        line.append(head)
        number = head.previous
    return line


def put_together(folder: Path, line: Sequence[Head], target: Path) -> None:
    """Writes the file that a line of copies stands for, the newest first. Raises what is `DAMAGED`."""
    newest = line[0]
    missing = np.ones(newest.pages, np.bool_)
    with target.open("wb") as file:
        file.truncate(newest.pages * newest.page_bytes)
    out = np.memmap(target, np.uint8, "r+", shape=(newest.pages, newest.page_bytes))
    for head in line:
        needed = _in(missing, head.numbers)
        for numbers, pages in _read_blocks(folder, head, needed):
            out[numbers] = pages
        missing[head.numbers[needed]] = False
    if missing.any():
        raise OSError(f"{folder} lacks pages of copy {newest.number}")


def read_pages(folder: Path, head: Head, numbers_wanted: Marks) -> Iterator[tuple[int, bytes]]:
    """The pages of a copy that are marked, ascending, each with its number."""
    for numbers, pages in _read_blocks(folder, head, numbers_wanted):
        yield from zip(numbers.tolist(), map(bytes, pages), strict=True)


def _read_blocks(folder: Path, head: Head, selected: Marks) -> Iterator[tuple[Numbers, npt.NDArray[np.uint8]]]:
    """The pages of a copy that are marked, with their numbers, those of a block at a time."""
    start = 0
    with (folder / head.file).open("rb") as file:
        for at, end in enumerate(head.block_ends.tolist()):
            part = slice(at * BLOCK, (at + 1) * BLOCK)
            marks = selected[part]
            if marks.any():
                file.seek(start)
                packed = file.read(end - start)
                if _sum(packed) != head.sums[at * HASH_BYTES : (at + 1) * HASH_BYTES]:
                    raise ValueError(f"{head.file} is damaged")
                pages = np.frombuffer(bytes(zstd.decompress(packed)), np.uint8).reshape(-1, head.page_bytes)
                yield head.numbers[part][marks], pages[marks]
            start = end


def write_copy(folder: Path, head: Head, pages: Iterable[tuple[int, bytes]]) -> Head:
    """Writes a copy with those pages, ascending; the head is told which they are."""
    name = f"{head.number:08}-{secrets.token_hex(4)}{PAGES}"
    numbers: list[int] = []
    ends: list[int] = []
    sums: list[bytes] = []
    block: list[bytes] = []

    def flush(file: IO[bytes]) -> None:
        if block:
            packed = bytes(zstd.compress(b"".join(block), LEVEL))
            file.write(packed)
            ends.append(file.tell())
            sums.append(_sum(packed))
            block.clear()

    with (folder / name).open("wb") as file:
        for number, page in pages:
            numbers.append(number)
            block.append(page)
            if len(block) == BLOCK:
                flush(file)
        flush(file)
        file.flush()
        os.fsync(file.fileno())
    packed = {"packed_numbers": np.array(numbers, np.int64).tobytes(), "ends": np.array(ends, np.int64).tobytes()}
    whole = msgspec.structs.replace(head, file=name, sums=b"".join(sums), **packed)
    part = folder / f"{head.number:08}{PART}"
    part.write_bytes(msgspec.msgpack.encode(whole))
    part.replace(_head_file(folder, head.number))
    return whole


def leave_out(folder: Path, head: Head, after: Head) -> Head:
    """Removes a copy, which `after` goes on from; returns what that is now."""
    old = ~np.isin(head.numbers, after.numbers) & (head.numbers < after.pages)
    new = np.ones(len(after.numbers), np.bool_)
    merged = merge(read_pages(folder, head, old), read_pages(folder, after, new), key=lambda pair: pair[0])
    new_head = write_copy(folder, msgspec.structs.replace(after, previous=head.previous), merged)
    (folder / after.file).unlink(missing_ok=True)
    remove(folder, head)
    return new_head


def remove(folder: Path, head: Head) -> None:
    """Removes the files of a copy, its head first."""
    _head_file(folder, head.number).unlink(missing_ok=True)
    (folder / head.file).unlink(missing_ok=True)


def remove_strays(folder: Path, copies: Sequence[Head]) -> None:
    """Removes what a copy that was never finished has left."""
    page_files = {head.file for head in copies}
    for file in folder.iterdir():
        if file.suffix == PART or (file.suffix == PAGES and file.name not in page_files):
            file.unlink(missing_ok=True)


def hashes_of(file: Path, page_bytes: int) -> bytes:
    """A hash of each page of a file."""
    with file.open("rb") as pages:
        return b"".join(
            blake2b(page, digest_size=HASH_BYTES).digest() for page in iter(lambda: pages.read(page_bytes), b"")
        )


def changed(before: bytes, now: bytes) -> Numbers:
    """The numbers of the pages whose hashes differ, those that are new among them."""
    old, new = np.frombuffer(before, np.int64), np.frombuffer(now, np.int64)
    both = min(len(old), len(new))
    return np.concatenate((np.flatnonzero(old[:both] != new[:both]), np.arange(both, len(new))))


def pages_of(file: Path, numbers: Numbers, page_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Pages of a file by number."""
    with file.open("rb") as pages:
        for number in numbers.tolist():
            pages.seek(number * page_bytes)
            yield number, pages.read(page_bytes)


def _in(marks: Marks, numbers: Numbers) -> Marks:
    """A mask of the numbers that are marked; those beyond the marks aren't."""
    marked = np.zeros(len(numbers), np.bool_)
    inside = numbers < len(marks)
    marked[inside] = marks[numbers[inside]]
    return marked


def _sum(packed: bytes) -> bytes:
    return blake2b(packed, digest_size=HASH_BYTES).digest()


def _head_file(folder: Path, number: int) -> Path:
    return folder / f"{number:08}{HEAD}"
