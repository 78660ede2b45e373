"""Prints what runs write."""

import sys
from collections.abc import Iterable

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
