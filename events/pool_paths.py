"""Paths of pools: / is the root, /a a pool of the first level, /a/b one below it."""

ROOT = "/"


def parent_of(path: str) -> str:
    """The pool above; / is above the first level."""
    return path.rpartition("/")[0] or ROOT


def levels_of(pool: str) -> list[str]:
    """The pool and those above it, up to the root."""
    levels = [pool]
    while levels[-1] != ROOT:
        levels.append(parent_of(levels[-1]))
    return levels


def path_to(pool: str) -> list[str]:
    """The pools from the first level down to one; of the root that alone."""
    return levels_of(pool)[-2::-1] or [pool]
