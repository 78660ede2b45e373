"""The last words of a run that failed: its stderr in one line for the cell, which outlives the host and its output."""

import re
from pathlib import Path

from hostagent.run_output import read_output

CHARS_MAX = 300
FIRST_CHARS_MAX = 100
READ_BYTES = 1024
"""So much is read of each end of stderr."""
BETWEEN_LINES = " / "
LEFT_OUT = " ... "
_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)?")


def last_words(folder: Path) -> str:
    """The lines of stderr of the run in a folder; of more than `CHARS_MAX` the first one and the last. Empty: it said
    nothing, or its output can't be read.
    """
    try:
        tail = read_output(folder, "stderr", -READ_BYTES, READ_BYTES, ended=True)
        lines = _lines(tail.data)
        if tail.offset == 0 and len(whole := BETWEEN_LINES.join(lines)) <= CHARS_MAX:
            return whole
        first = _lines(read_output(folder, "stderr", 0, READ_BYTES, ended=True).data)[:1]
    except OSError:
        return ""
    begin = first[0][:FIRST_CHARS_MAX] if first else ""
    return begin + LEFT_OUT + _last(lines, CHARS_MAX - len(begin) - len(LEFT_OUT))


def _last(lines: list[str], room: int) -> str:
    """As many of the last lines as there is room for; of one that is longer its end."""
    text = lines[-1][-room:] if lines else ""
    for line in reversed(lines[:-1]):
        if len(line) + len(BETWEEN_LINES) + len(text) > room:
            break
        text = line + BETWEEN_LINES + text
    return text


def _lines(data: bytes) -> list[str]:
    """The lines that say something, without colours and what no terminal should get."""
    text = _ESCAPES.sub("", data.decode(errors="replace"))
    lines = ("".join(each if each.isprintable() else " " for each in line).strip() for line in text.splitlines())
    return [line for line in lines if line]
