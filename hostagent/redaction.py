"""Keeps the values of a run's secrets out of its output: stars stand in their place. For keepers, so nothing but the
standard library.

It helps against mistakes, not against a task that writes them in another form.
"""

import os
import re
from bisect import bisect_left
from collections.abc import Iterable

from hostagent.kept_output import Output
from hostagent.private_files import read_file

LEAST_BYTES = 6
"""Shorter lines of a value are left: they would be found in anything."""
PIECE_BYTES = 256
"""Longer ones are looked for in pieces of this size, so that no more than one is ever held back."""


class Hidden:
    """The lines of the values of a run."""

    def __init__(self, values: Iterable[bytes]) -> None:
        pieces: set[bytes] = set()
        for line in (line.strip() for value in values for line in value.splitlines()):
            whole = [line[at : at + PIECE_BYTES] for at in range(0, len(line), PIECE_BYTES)]
            pieces.update(piece for piece in whole if len(piece) >= LEAST_BYTES)
        self._sorted = sorted(pieces)
        self._most = max(map(len, pieces), default=0)
        longest_first = sorted(pieces, key=lambda piece: (-len(piece), piece))
        self._any = re.compile(b"|".join(map(re.escape, longest_first))) if pieces else None

    def cover(self, data: bytes) -> tuple[bytes, bytes]:
        """The data with all values covered, and the end that may be the beginning of one, to be put before the next."""
        if self._any is None:
            return data, b""
        covered, after = [], 0
        for match in self._any.finditer(data):
            if len(data) - match.start() < self._most and self._begins_longer(data[match.start() :]):
                break
            covered += [data[after : match.start()], b"*" * len(match[0])]
            after = match.end()
        for at in range(max(after, len(data) - self._most + 1), len(data)):
            if self._begins_longer(data[at:]):
                return b"".join([*covered, data[after:at]]), data[at:]
        return b"".join([*covered, data[after:]]), b""

    def _begins_longer(self, data: bytes) -> bool:
        """Whether a value begins so and goes on."""
        at = bisect_left(self._sorted, data)
        following = self._sorted[at + (at < len(self._sorted) and self._sorted[at] == data) :][:1]
        return bool(following) and following[0].startswith(data)


class CoveredOutput:
    """Output that is kept with all values of secrets covered, of the same length."""

    def __init__(self, output: Output, hidden: Hidden) -> None:
        self._output = output
        self._hidden = hidden
        self._rest = b""

    @property
    def lost(self) -> int:
        """Bytes that the disk didn't take."""
        return self._output.lost

    def write(self, data: bytes) -> None:
        """Appends to the stream."""
        covered, self._rest = self._hidden.cover(self._rest + data)
        self._output.write(covered)

    def close(self) -> None:
        """Nothing more is written. What may be the beginning of a value is covered too, where it is long enough."""
        rest, self._rest = self._rest, b""
        self._output.write(b"*" * len(rest) if len(rest) >= LEAST_BYTES else rest)
        self._output.close()


def values_in(folder: str) -> list[bytes]:
    """The values in the folder of a run. Raises `OSError`."""
    return [read_file(os.path.join(folder, name)) for name in sorted(os.listdir(folder))]
