"""Characters of users' text that no terminal and no page may get as they are."""

import re

UNSAFE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff"
    r"\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Controls but tab and end of line, characters that change the direction of writing or show nothing, and halves of
characters.
"""
INVISIBLE = re.compile(r"[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Characters that show nothing although they count as printable."""


def is_visible(text: str, most: int) -> bool:
    """Whether a text has 1 to so many characters, and each of them is seen by who reads it."""
    return 0 < len(text) <= most and text.isprintable() and not INVISIBLE.search(text)


def name_fault(what: str, name: str, most: int) -> str:
    """Why something can't be a name of a subject or a group; empty: it can. By characters that are the same for each
    version of Unicode, so that each build decides alike.
    """
    if not 1 <= len(name) <= most:
        return f"{what} has {len(name)} characters, 1 to {most} are allowed"
    if UNSAFE.search(name) or INVISIBLE.search(name) or "\t" in name or "\n" in name:
        return f"{what} has characters that can't be shown"
    return ""
