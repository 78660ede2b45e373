"""Text of users as it may be shown: without characters that turn, hide or end what stands around them."""

import re
from typing import Any

from markupsafe import Markup

_UNSAFE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff"
    r"\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def plain(value: Any) -> Any:
    r"""Text with control characters, those that change the direction of writing or show nothing, and lone halves of
    characters written as \u202e; all else as it is. Every value that a template shows passes here.
    """
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", value)
