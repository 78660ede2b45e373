"""The output of several tasks, each line behind the task that wrote it."""

from collections.abc import Callable, Iterator

import pytest

from paceline.cli.output_printing import print_pieces, print_tasks
from paceline.client.output import OutputPiece


def pieces(*texts: bytes, offset: int = 0) -> Callable[[], Iterator[OutputPiece]]:
    def come() -> Iterator[OutputPiece]:
        at = offset
        for text in texts:
            yield OutputPiece("stdout", text, at)
            at += len(text)

    return come


@pytest.mark.parametrize("at_once", [False, True])
def test_a_line_that_comes_in_pieces_stays_one(capfdbinary, at_once):
    print_tasks({0: pieces(b"one ", b"line\ntwo", b"\n\nthree", offset=7), 1: pieces(b"x\n")}, at_once=at_once)
    lines = capfdbinary.readouterr().out.splitlines(keepends=True)
    assert [each for each in lines if each.startswith(b"0")] == [
        b"0 | one line\n",
        b"0 | two\n",
        b"0 | \n",
        b"0 | three\n",
    ]
    assert b"1 | x\n" in lines


def test_a_run_that_begins_and_a_line_without_end_end_what_is_there(capfdbinary, monkeypatch):
    monkeypatch.setattr("paceline.cli.output_printing.LINE_BYTES_MAX", 9)

    def runs() -> Iterator[OutputPiece]:
        yield from pieces(b"half")()
        yield from pieces(b"next run\n", b"0123456789", b"ab\n")()

    print_tasks({0: runs, 1: pieces(b"")})
    assert capfdbinary.readouterr().out == b"0 | half\n0 | next run\n0 | 0123456789\n0 | ab\n"


def test_a_carriage_return_writes_over_no_prefix(capfdbinary):
    bar = b"10%\r20%\rdone\r\n"
    print_tasks({3: pieces(bar), 4: pieces(b"")})
    assert capfdbinary.readouterr().out == b"3 | 10%\r3 | 20%\r3 | done\r\n"
    print_pieces(pieces(bar, b"rest")())
    assert capfdbinary.readouterr().out == bar + b"rest"


def test_what_came_is_printed_where_reading_fails(capfdbinary):
    def failing() -> Iterator[OutputPiece]:
        yield from pieces(b"half")()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        print_tasks({0: failing, 1: pieces(b"")})
    assert capfdbinary.readouterr().out == b"0 | half\n"
