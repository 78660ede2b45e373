"""Copies of a file by changed pages."""

import random
from pathlib import Path

import pytest

from paceline.moments import page_files
from paceline.moments.copies import needless
from paceline.moments.page_files import Head, changed, hashes_of, heads, leave_out, line_to, put_together
from tests.helpers.drawn import seeds

PAGE = 512
EMPTY = Head(0, "", 0, "1", {}, {}, 0, 0, PAGE, 0, b"", b"", b"")


class Twin:
    """Copies in a folder, and beside them each file in full."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.draw = random.Random(seed)
        self.folder = folder
        self.file = folder / "file"
        self.whole: dict[int, bytes] = {}
        self._hashes = b""
        self._number = 0

    def change(self) -> None:
        """Changes, adds and removes some pages."""
        pages = self.read()
        for _ in range(self.draw.randrange(4)):
            pages += [self.draw.randbytes(PAGE)] * self.draw.randrange(1, 30)
        if self.draw.random() < 0.2:
            del pages[self.draw.randrange(1, len(pages) + 1) :]
        for _ in range(self.draw.randrange(10)):
            pages[self.draw.randrange(len(pages))] = self.draw.randbytes(PAGE)
        self.file.write_bytes(b"".join(pages))

    def read(self) -> list[bytes]:
        text = self.file.read_bytes() if self.file.exists() else bytes(PAGE)
        return [text[at : at + PAGE] for at in range(0, len(text), PAGE)]

    def copy(self) -> None:
        hashes = hashes_of(self.file, PAGE)
        head = Head(self._number + 1, "", self._number, "1", {}, {}, 0, 0, PAGE, len(hashes) // 8, b"", b"", b"")
        numbers = changed(self._hashes, hashes)
        page_files.write_copy(self.folder, head, page_files.pages_of(self.file, numbers, PAGE))
        self._number, self._hashes = self._number + 1, hashes
        self.whole[self._number] = self.file.read_bytes()

    def drop_one(self) -> None:
        """Leaves out any but the newest."""
        found = heads(self.folder)
        at = self.draw.randrange(len(found) - 1)
        leave_out(self.folder, found[at], found[at + 1])

    def check(self) -> None:
        found = heads(self.folder)
        for head in found:
            put_together(self.folder, line_to(found, head.number), self.folder / "out")
            assert (self.folder / "out").read_bytes() == self.whole[head.number]
        named = {head.file for head in found}
        assert {file.name for file in self.folder.glob("*.pages")} == named


@seeds(20, 5)
def test_each_copy_that_is_left_is_the_whole_file_as_it_was(tmp_path: Path, seed: int) -> None:
    twin = Twin(tmp_path, seed)
    for _ in range(12):
        twin.change()
        twin.copy()
        if len(heads(tmp_path)) > 1 and twin.draw.random() < 0.4:
            twin.drop_one()
        twin.check()
    while len(heads(tmp_path)) > 1:
        twin.drop_one()
        twin.check()


class Crash(Exception):
    pass


@pytest.mark.parametrize("step", range(8))
def test_a_crash_at_any_step_leaves_whole_copies_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Steps are what changes the folder: renaming and removing files."""
    twin = Twin(tmp_path, 5)
    for _ in range(4):
        twin.change()
        twin.copy()
    left = step
    for name in ("replace", "unlink"):
        real = getattr(Path, name)

        def broken(path: Path, *args: object, real: object = real, **more: object) -> object:
            nonlocal left
            left -= 1
            if left < 0:
                raise Crash
            return real(path, *args, **more)  # type: ignore[operator]

        monkeypatch.setattr(Path, name, broken)
    try:
        twin.change()
        twin.copy()
        twin.drop_one()
        twin.drop_one()
    except Crash:
        pass
    monkeypatch.undo()
    page_files.remove_strays(tmp_path, heads(tmp_path))
    twin.whole.setdefault(5, twin.file.read_bytes())
    found = heads(tmp_path)
    assert found[-1].number >= 4
    for head in found:
        line = line_to(found, head.number)
        assert line
        put_together(tmp_path, line, tmp_path / "out")
        assert (tmp_path / "out").read_bytes() == twin.whole[head.number]


def test_a_damaged_copy_is_noticed(tmp_path: Path) -> None:
    twin = Twin(tmp_path, 1)
    twin.change()
    twin.copy()
    [head] = heads(tmp_path)
    file = tmp_path / head.file
    text = bytearray(file.read_bytes())
    text[Twin(tmp_path, 2).draw.randrange(len(text))] ^= 1
    file.write_bytes(text)
    with pytest.raises(page_files.DAMAGED):
        put_together(tmp_path, [head], tmp_path / "out")
    file.unlink()
    with pytest.raises(OSError, match=r"\.pages"):
        put_together(tmp_path, [head], tmp_path / "out")


@seeds(5, 5)
def test_copies_are_dense_near_now_and_the_newest_is_never_left_out(seed: int) -> None:
    draw, work, kept, most = random.Random(seed), 0, list[int](), 40
    for _ in range(2000):
        work += draw.randrange(50, 150)
        kept.append(work)
        while len(kept) > most:
            at = needless(kept)
            assert at != len(kept) - 1
            del kept[at]
        for before, after in zip((0, *kept), kept, strict=False):
            age = work - before
            assert after - before <= max(400, age / 3), "a moment is never further from a copy than a third of its age"
    assert len(kept) == most
