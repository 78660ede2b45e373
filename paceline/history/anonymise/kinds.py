"""Kinds of names, and new names of the same order for all names of a kind.

Machines compare names as texts, some also in natural order, take pool paths and taints apart, and refuse names that
aren't valid. New names keep all of that: each comparison that a machine makes comes out as it did. They say nothing
else of the old ones.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from events import host_pools, resources
from events.abilities import CPUSET, NEEDED, OUT_OF_MEMORY, USAGE
from events.access import EVERYBODY
from events.actors import SUBJECT_MAX
from events.bounds import (
    CONDITION,
    CONTAINER_USER,
    DESCRIPTION_MAX,
    DEVICE,
    IMAGE,
    NAME,
    STRING_BYTES_MAX,
    URL_PATH,
    VOLUME,
    WORD_MAX,
)
from events.conditions import EXCLUSIVE
from events.host_devices import CORE, ID
from events.host_health import PRESSURE, SUSPECTED
from events.signatures import CELL
from events.sla import GROUP_PATTERN
from events.taints import KEY
from events.topology import HOST, LINK_GROUP
from events.unsafe_text import name_fault

_SPOILERS = ("!", " ", "=", "\0", "x" * 300, "x" * DESCRIPTION_MAX, "x" * STRING_BYTES_MAX)
"""Added to the new name of a text that no machine takes for a name of its kind, until none takes the new one."""


def _any(_: str) -> bool:
    return True


class Kind(NamedTuple):
    """A kind of names.

    `label`: new names begin with it; `before`: what stands before that. `valid`: whether machines take a text for such
    a name. `fixed`: names with a meaning, which stay. `anchors`: texts that new names sort among as the old ones did,
    the least first. `separator`: the character behind such a name in texts that are compared whole. `natural`: machines
    compare such names in natural order too. `digits`: the name is a number of so many hexadecimal digits.
    """

    label: str
    valid: Callable[[str], bool] = _any
    fixed: frozenset[str] = frozenset()
    anchors: tuple[str, ...] = ()
    separator: str = ""
    natural: bool = False
    before: str = ""
    digits: int = 0


def _matching(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


def _up_to(most: int) -> Callable[[str], bool]:
    return lambda text: len(text) <= most


def _is_argument(text: str) -> bool:
    return "\0" not in text and len(text.encode()) <= STRING_BYTES_MAX


def _is_device_id(text: str) -> bool:
    return ID.fullmatch(text) is not None and not text.startswith(CORE)


def _anchors(*texts: str) -> tuple[str, ...]:
    """Texts that new names sort among; `a` is before all of them."""
    return tuple(sorted(("a", *texts)))


def _is_resource(text: str) -> bool:
    return not resources.name_fault(text) and not resources.typo_of(text)


_JOB_NAME = re.compile(GROUP_PATTERN.removeprefix("^").removesuffix("$"))
_SEGMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_RESOURCES = frozenset(
    (*resources.STANDARD, resources.REVOCABLE, resources.GPU_MEMORY, *resources.RESERVED),
)
_HOST_POOLS = frozenset((host_pools.SHARED, *host_pools.OF_NAME))
_CHECKS = frozenset((SUSPECTED, PRESSURE, "disk-full", "clock-skew", "orders-failing"))
_ATTRIBUTES = frozenset((HOST, "hostname", LINK_GROUP, EXCLUSIVE, *NEEDED, OUT_OF_MEMORY, USAGE, CPUSET))

JOB = Kind("job", _matching(_JOB_NAME))
POOL = Kind("pool", _matching(_SEGMENT), separator="/")
HOST_ID = Kind("host", _matching(NAME), natural=True)
RESOURCE = Kind("resource", _is_resource, _RESOURCES, _anchors(*_RESOURCES, "gpu/", "gpu0"))
HOST_POOL = Kind("host-pool", _matching(host_pools.NAME), _HOST_POOLS, _anchors(*_HOST_POOLS))
ATTRIBUTE = Kind("attribute", _up_to(WORD_MAX), _ATTRIBUTES)
VALUE = Kind("value", _up_to(WORD_MAX), natural=True)
PATTERN = Kind("pattern")
TAINT = Kind("taint", _matching(KEY), separator="=")
TAINT_VALUE = Kind("taint-value", _up_to(WORD_MAX))
LABEL = Kind("label", _up_to(WORD_MAX))
LABEL_VALUE = Kind("label-value", _up_to(WORD_MAX))
DEVICE_ID = Kind("device", _is_device_id)
MODEL = Kind("model", _up_to(WORD_MAX))
LINKED = Kind("link-group", _up_to(WORD_MAX), natural=True)
CHECK = Kind("condition", _matching(CONDITION), _CHECKS, _anchors(*_CHECKS))
SLA_GROUP = Kind("group", _matching(_JOB_NAME))
PORT = Kind("port", _up_to(WORD_MAX))
VOLUME_NAME = Kind("volume", _matching(VOLUME))
SECRET = Kind("secret", _matching(VOLUME))
IMAGE_NAME = Kind("image", _matching(IMAGE))
IMAGE_DIGITS = Kind("", digits=16)
IMAGE_REST = Kind("", digits=48)
CONTAINER = Kind("user", _matching(CONTAINER_USER))
DEVICE_FILE = Kind("device", _matching(DEVICE), before="/dev/")
URL = Kind("path", _matching(URL_PATH), before="/")
USER = Kind("user", lambda text: not name_fault("", text, SUBJECT_MAX), frozenset((CELL,)))
USER_GROUP = Kind("user-group", lambda text: not name_fault("", text, WORD_MAX), frozenset((EVERYBODY,)))
BINDING = Kind("binding", _matching(NAME))
TOKEN = Kind("token", _matching(NAME))
CAMPAIGN = Kind("campaign", _matching(NAME))
WINDOW = Kind("window", _matching(NAME))
COMMAND = Kind("command", _up_to(WORD_MAX))
GATEWAY = Kind("gateway")
ADDRESS = Kind("address")
CREDENTIAL = Kind("credential")
ZONE = Kind("zone", fixed=frozenset(("UTC",)))
VARIABLE = Kind("VARIABLE", lambda text: "=" not in text and _is_argument(text))
ARGUMENT = Kind("text", _is_argument)
DESCRIPTION = Kind("text", _up_to(DESCRIPTION_MAX))
POOL_DESCRIPTION = Kind("text", _up_to(1000))
TEXT = Kind("text")
WORD = Kind("word")
HASH = Kind("", digits=1)


def new_names(kind: Kind, names: Iterable[str]) -> dict[str, str]:
    """A new name for each name of a kind, those that are fixed and the empty one aside."""
    old = sorted({*names} - kind.fixed - {""})
    if kind.digits:
        return {name: f"{number:0{kind.digits}x}" for number, name in enumerate(old, 1)}
    new = _natural(old) if kind.natural else _numbered(old, kind.separator)
    return {name: _spoilt(kind, name, _begin(kind, name) + new[name]) for name in old}


def _begin(kind: Kind, name: str) -> str:
    """The beginning of a new name, by which it sorts among the names that stay as the old one does."""
    anchor = kind.anchors[max(0, bisect_right(kind.anchors, name) - 1)] if kind.anchors else ""
    return f"{kind.before}{anchor}{'-' if anchor and not anchor.endswith('/') else ''}{kind.label}-"


def _spoilt(kind: Kind, old: str, new: str) -> str:
    if kind.valid(old):
        return new
    return next((new + each for each in _SPOILERS if not kind.valid(new + each)), new)


def _numbered(names: Sequence[str], separator: str) -> dict[str, str]:
    """Numbers of one width in the order of the names. Where another character than the separator may follow, names that
    begin with a whole other name and sort before that and the separator keep both.
    """
    groups = _groups(names, separator)
    width = len(str(max(map(len, groups.values()), default=0)))
    return _coded(groups, lambda number, _: f"{number + 1:0{width}}")


def _groups(names: Sequence[str], separator: str) -> dict[str, list[str]]:
    """Sorted names below the longest other one that they begin with, where the next character sorts before the
    separator; the others below the empty one.
    """
    groups: dict[str, list[str]] = {}
    above: list[str] = []
    for name in names:
        while above and not (name.startswith(above[-1]) and name[len(above[-1])] < separator):
            above.pop()
        groups.setdefault(above[-1] if above else "", []).append(name)
        if separator:
            above.append(name)
    return groups


def _coded(groups: dict[str, list[str]], code: Callable[[int, int], str]) -> dict[str, str]:
    """The codes of names by their groups: that of the name above, a dash and an own one."""
    codes: dict[str, str] = {"": ""}
    for above, names in groups.items():
        for number, name in enumerate(names):
            codes[name] = f"{codes[above]}-" * bool(above) + code(number, len(names))
    return codes


def _natural(names: Sequence[str]) -> dict[str, str]:
    """New names that sort as the old ones do both as texts and in natural order: words and numbers are named each for
    itself, among those behind beginnings that are the same in natural order.
    """
    split = {name: re.split("([0-9]+)", name) for name in names}
    begins = {name: [tuple(map(_bare, parts[:at])) for at in range(len(parts))] for name, parts in split.items()}
    behind: dict[tuple[str, ...], set[str]] = {}
    for name, parts in split.items():
        for begin, part in zip(begins[name], parts, strict=True):
            behind.setdefault(begin, set()).add(part)
    codes = {begin: (_numbers if len(begin) % 2 else _words)(parts) for begin, parts in behind.items()}
    return {
        name: "".join(codes[begin][part] for begin, part in zip(begins[name], parts, strict=True))
        for name, parts in split.items()
    }


def _bare(part: str) -> str:
    """A number without the zeros before it; a word as it is."""
    return part.lstrip("0") or "0" if part.isdecimal() else part


def _words(words: Iterable[str]) -> dict[str, str]:
    """Letters for words, which are followed by a number or nothing: one that sorts before a number keeps a dash."""
    low = sorted(word for word in words if word and word[0] < "0")
    high = sorted(word for word in words if word and word[0] >= "0")
    codes = {word: f"-{code}" for word, code in _coded(_groups(low, "0"), _letters).items() if word}
    return codes | _coded(_groups(high, "0"), _letters)


def _letters(number: int, count: int) -> str:
    """A number below a count, as letters: all are of one length."""
    out = ""
    while count > 1 or not out:
        number, letter = divmod(number, 26)
        out, count = chr(ord("a") + letter) + out, -(-count // 26)
    return out


def _numbers(numbers: Iterable[str]) -> dict[str, str]:
    """Other digits for numbers, which keep their lengths, their zeros before them, and whether one begins another."""
    bare = {number: number.lstrip("0") for number in numbers}
    digits: dict[str, set[str]] = {}
    for text in bare.values():
        for at, digit in enumerate(text):
            digits.setdefault(text[:at], set()).add(digit)
    codes = {begin: dict(_digits(begin, seen)) for begin, seen in digits.items()}
    return {
        number: "0" * (len(number) - len(text)) + "".join(codes[text[:at]][digit] for at, digit in enumerate(text))
        for number, text in bare.items()
    }


def _digits(begin: str, seen: Iterable[str]) -> Iterator[tuple[str, str]]:
    """New digits behind the beginning of a number: the first of all isn't 0."""
    return ((digit, str(at)) for at, digit in enumerate(sorted(seen), 0 if begin else 1))
