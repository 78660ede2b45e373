"""Copies of the views of a cell: which are kept, and which a moment begins from."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

from paceline.moments.page_files import (
    Head,
    changed,
    hashes_of,
    heads,
    leave_out,
    line_to,
    pages_of,
    put_together,
    remove,
    remove_strays,
    size_of,
    write_copy,
)
from projections.views.tables import FORMAT

FOLDER = "copies"
COUNT_MAX = 128
STEP_PAGES = 4096
"""Pages that SQLite's backup copies in a step."""
HASHES, COPIED = "hashes", "copied.part"


def nearest(copies: Sequence[Head], ends: Mapping[str, int]) -> Head | None:
    """The last copy of views of this format that has nothing beyond those ends."""
    fit = [
        head
        for head in copies
        if head.format == FORMAT
        and all(position <= ends.get(topic, 0) for topic, position in head.positions.items())
        and line_to(copies, head.number)
    ]
    return max(fit, key=lambda head: sum(head.positions.values()), default=None)


def begin_from(folder: Path, ends: Mapping[str, int], target: Path) -> bool:
    """Writes the views that a moment begins from to a file, if there is a copy. Raises what is
    `page_files.DAMAGED`.
    """
    copies = heads(folder)
    head = nearest(copies, ends)
    if head is not None:
        put_together(folder, line_to(copies, head.number), target)
    return head is not None


def copy(views: Path, folder: Path, work: int, log_bytes: int) -> Head | None:
    """Copies the views as they stand. `work` and `log_bytes` were folded since the last copy. None: the copies that are
    there reach further, since these views are being rebuilt.
    """
    folder.mkdir(exist_ok=True)
    copies = heads(folder)
    remove_strays(folder, copies)
    copied = folder / COPIED
    try:
        _back_up(views, copied)
        with closing(sqlite3.connect(f"{copied.absolute().as_uri()}?immutable=1", uri=True)) as connection:
            if not all(_is_before(connection, head) for head in copies):
                for head in copies:
                    remove(folder, head)
                copies = []
            positions = dict(connection.execute("SELECT topic, position FROM positions"))
            chains = {
                machine: (number, hash_)
                for machine, number, hash_ in connection.execute("SELECT machine, round, hash FROM chains")
            }
            [page_bytes] = connection.execute("PRAGMA page_size").fetchone()
        newest = copies[-1] if copies else None
        if newest and sum(newest.positions.values()) >= sum(positions.values()):
            return None
        hashes = hashes_of(copied, page_bytes)
        before = _hashes(folder, newest)
        head = Head(
            number=newest.number + 1 if newest else 1,
            file="",
            previous=newest.number if newest and before else 0,
            format=FORMAT,
            positions=positions,
            chains=chains,
            work=work + (newest.work if newest else 0),
            log_bytes=log_bytes + (newest.log_bytes if newest else 0),
            page_bytes=page_bytes,
            pages=copied.stat().st_size // page_bytes,
            packed_numbers=b"",
            ends=b"",
            sums=b"",
        )
        new_head = write_copy(folder, head, pages_of(copied, changed(before, hashes), page_bytes))
        _keep_hashes(folder, new_head.number, hashes)
        return new_head
    finally:
        copied.unlink(missing_ok=True)


def thin_out(folder: Path, bytes_max: int) -> None:
    """Leaves out copies until there are few enough, and they take little enough room."""
    copies = heads(folder)
    while len(copies) > 1:
        if len(copies) <= COUNT_MAX and sum(size_of(folder, head) for head in copies) <= bytes_max:
            return
        at = copies[needless([head.work for head in copies])]
        after = next((head for head in copies if head.previous == at.number), None)
        if after is None:
            remove(folder, at)
        else:
            leave_out(folder, at, after)
        copies = heads(folder)


def needless(work: Sequence[int]) -> int:
    """Finds the copy that is missed least, of those at `work`, ascending: the longest way that a moment is then from
    the copy before it is compared with how long ago it is. Never the newest.
    """
    newest = work[-1]
    gaps = [
        ((after - before) / (newest - at + 1), number)
        for number, (before, at, after) in enumerate(zip((0, *work[:-2]), work[:-1], work[1:], strict=True))
    ]
    return min(gaps)[1]


def _back_up(views: Path, target: Path) -> None:
    """SQLite's backup of a file that another process may be writing to, as it stands in one transaction."""
    target.unlink(missing_ok=True)
    with closing(sqlite3.connect(views, isolation_level=None)) as source, closing(sqlite3.connect(target)) as out:
        out.execute("PRAGMA synchronous=OFF")
        source.execute("BEGIN")  # one state, however long it takes: the backup doesn't start again at each batch
        source.execute("SELECT value FROM meta").fetchone()
        source.backup(out, pages=STEP_PAGES)
        source.execute("ROLLBACK")


def _is_before(connection: sqlite3.Connection, head: Head) -> bool:
    """Whether a copy is of the log and the format of these views, as far as they know rounds that it had."""
    if head.format != FORMAT:
        return False
    for machine, (number, hash_) in head.chains.items():
        row = connection.execute(
            "SELECT hash FROM rounds WHERE machine = ? AND number = ?", (machine, number)
        ).fetchone()
        if row is not None and row[0] != hash_:
            return False
    return True


def _hashes(folder: Path, newest: Head | None) -> bytes:
    """The hashes of the pages of the newest copy; none where they are not known."""
    with suppress(OSError):
        number, _, hashes = (folder / HASHES).read_bytes().partition(b"\n")
        if newest is not None and number == str(newest.number).encode():
            return hashes
    return b""


def _keep_hashes(folder: Path, number: int, hashes: bytes) -> None:
    part = folder / f"{HASHES}.part"
    part.write_bytes(b"%d\n" % number + hashes)
    part.replace(folder / HASHES)
