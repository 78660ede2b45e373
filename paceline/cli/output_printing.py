"""Prints what runs write."""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from queue import SimpleQueue

from paceline.client.errors import NotFound
from paceline.client.output import OutputPiece
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


def print_tasks(tasks: Mapping[int, Pieces], to_stdout: bool = False, at_once: bool = False) -> None:
    """Prints what several tasks write, each line behind the number of its task, one task after the other or all at
    once. Of tasks that have no output that is said. Raises `NotFound` where none has, and `BrokenPipeError`.
    """
    width = len(str(max(tasks)))
    silent: list[NotFound] = []
    for instance, each in _pieces_of_all(tasks) if at_once else _one_by_one(tasks):
        if isinstance(each, NotFound):
            note(f"task {instance}: {each}")
            silent.append(each)
            continue
        file = sys.stdout.buffer if to_stdout else getattr(sys, each.stream).buffer
        if each.missed:
            note(f"task {instance}: {each.missed} bytes of {each.stream} are not kept any more")
        for line in each.data.removesuffix(b"\n").split(b"\n") if each.data else ():
            file.write(f"{instance:>{width}} | ".encode() + line + b"\n")
        file.flush()
        if each.lost:
            note(f"task {instance}: {each.lost} bytes of the output were lost: the disk of the host was full")
    if len(silent) == len(tasks):
        raise silent[0]


def _one_by_one(tasks: Mapping[int, Pieces]) -> Iterator[tuple[int, OutputPiece | NotFound]]:
    for instance, pieces in tasks.items():
        try:
            for piece in pieces():
                yield instance, piece
        except NotFound as error:
            yield instance, error


def _pieces_of_all(tasks: Mapping[int, Pieces]) -> Iterator[tuple[int, OutputPiece | NotFound]]:
    """The pieces of tasks, each read in a thread of its own, as they come. Raises what one of them raises."""
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
        if isinstance(each, NotFound):
            yield instance, each
        elif each is not None:
            raise each
