"""The known name that somebody may have meant by another."""

from collections.abc import Iterable


def meant(name: str, names: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the known one that is nearest to it; empty where none is near."""
    from difflib import get_close_matches  # the command line reads this module for each command

    near = get_close_matches(name[:200], list(names), n=1)
    return f"; did you mean {near[0]}?" if near else ""
