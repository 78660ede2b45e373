"""Prints what runs write."""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from queue import SimpleQueue

from paceline.client.errors import NotFound
from paceline.client.output import LINE_BYTES_MAX, OutputPiece
from paceline.output import note


def print_pieces(pieces: Iterable[OutputPiece], to_stdout: bool = False) -> None:
    """Prints each piece to the stream that it is of, or all to stdout, and on stderr what is missing. Raises
    `BrokenPipeError`.
    """
    half = {"stdout": False, "stderr": False}
    for piece in pieces:
        name = "stdout" if to_stdout else piece.stream
        file = getattr(sys, name).buffer
        if piece.missed:
            if half[name]:  # what follows is no rest of it
                file.write(b"\n")
                file.flush()
            of = "" if to_stdout else f" of {piece.stream}"
            note(f"the first {piece.missed} bytes{of} from {piece.offset - piece.missed} on are not kept any more")
        if piece.data:
            file.write(piece.data)
            file.flush()
            half[name] = not piece.data.endswith(b"\n")
        if piece.lost:
            note(f"{piece.lost} bytes of the output were lost: the disk of the host was full")


Pieces = Callable[[], Iterable[OutputPiece]]


class _Line:
    """The line of a stream of a task whose end has not come yet."""

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._rest = b""
        self._offset = 0
        """That of the byte after it."""

    def take(self, piece: OutputPiece) -> Iterator[bytes]:
        """The lines that end with a piece, each with its prefix and end; of what is none of its rest, also before."""
        if piece.offset != self._offset:
            yield from self.end()
        self._offset = piece.offset + len(piece.data)
        *whole, self._rest = (self._rest + piece.data).split(b"\n")
        for line in whole:
            yield self._shown(line)
        if len(self._rest) > LINE_BYTES_MAX:
            yield from self.end()

    def end(self) -> Iterator[bytes]:
        """Ends it: what is there of it is a line."""
        if self._rest:
            yield self._shown(self._rest)
            self._rest = b""

    def _shown(self, line: bytes) -> bytes:
        """A line; what goes back to its begin, as a progress bar does, comes behind the prefix again."""
        body = line.rstrip(b"\r")
        return self._prefix + body.replace(b"\r", b"\r" + self._prefix) + line[len(body) :] + b"\n"


def print_tasks(tasks: Mapping[int, Pieces], to_stdout: bool = False, at_once: bool = False) -> None:
    """Prints what several tasks write, each line behind the number of its task, one task after the other or all at
    once. A line is printed once its end has come, or there is no more. Of tasks that have no output that is said.
    Raises `NotFound` where none has, and `BrokenPipeError`.
    """
    width = len(str(max(tasks)))
    silent: list[NotFound] = []
    lines: dict[tuple[int, str], _Line] = {}

    def end(ended: int | None = None) -> None:
        for instance, stream in [each for each in lines if ended in (None, each[0])]:
            _put(stream, to_stdout, lines.pop((instance, stream)).end())

    try:
        for instance, each in _pieces_of_all(tasks) if at_once else _one_by_one(tasks):
            if isinstance(each, NotFound):
                note(f"task {instance}: {each}")
                silent.append(each)
            if not isinstance(each, OutputPiece):
                end(instance)
                continue
            line = lines.setdefault((instance, each.stream), _Line(f"{instance:>{width}} | ".encode()))
            if each.missed:
                _put(each.stream, to_stdout, line.end())
                note(f"task {instance}: {each.missed} bytes of {each.stream} are not kept any more")
            if each.data:
                _put(each.stream, to_stdout, line.take(each))
            if each.lost:
                note(f"task {instance}: {each.lost} bytes of the output were lost: the disk of the host was full")
    finally:
        end()
    if len(silent) == len(tasks):
        raise silent[0]


def _put(stream: str, to_stdout: bool, lines: Iterable[bytes]) -> None:
    file = sys.stdout.buffer if to_stdout else getattr(sys, stream).buffer
    file.writelines(lines)
    file.flush()


def _one_by_one(tasks: Mapping[int, Pieces]) -> Iterator[tuple[int, OutputPiece | NotFound | None]]:
    for instance, pieces in tasks.items():
        try:
            for piece in pieces():
                yield instance, piece
            yield instance, None
        except NotFound as error:
            yield instance, error


def _pieces_of_all(tasks: Mapping[int, Pieces]) -> Iterator[tuple[int, OutputPiece | NotFound | None]]:
    """The pieces of tasks, each read in a thread of its own, as they come, and None where there are no more. Raises
    what one of them raises.
    """
    queue: SimpleQueue[tuple[int, OutputPiece | Exception | None]] = SimpleQueue()

    def read(instance: int, pieces: Pieces) -> None:
        try:
            for piece in pieces():
                queue.put((instance, piece))
            queue.put((instance, None))
        except Exception as error:  # it is raised by the thread that prints
            queue.put((instance, error))

    for instance, pieces in tasks.items():
        threading.Thread(target=read, args=(instance, pieces), daemon=True).start()
    open_ = len(tasks)
    while open_:
        instance, each = queue.get()
        if isinstance(each, OutputPiece):
            yield instance, each
            continue
        open_ -= 1
        if each is not None and not isinstance(each, NotFound):
            raise each
        yield instance, each
