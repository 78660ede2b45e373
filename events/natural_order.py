"""The order of names in which numbers within them count: sim-2 before sim-10."""

import re

_NUMBER = re.compile("[0-9]+")


def natural_key(name: str) -> str:
    """A text that sorts as a name does, wherever texts are compared character by character: each number within it is
    written with the count of its digits before it.
    """
    return _NUMBER.sub(_counted, name)


def _counted(match: re.Match[str]) -> str:
    digits = match[0].lstrip("0") or "0"
    return f"{len(digits):03}{digits}"
