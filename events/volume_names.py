"""The volumes of a job: their names, and the environment variables in which a task finds their folders."""

from collections.abc import Sequence

from events.bounds import VOLUME, VOLUMES_MAX


def volume_variable(name: str) -> str:
    """The variable of a volume: the folder of `wal-2` stands in PACELINE_VOLUME_WAL_2."""
    return f"PACELINE_VOLUME_{name.upper().replace('-', '_')}"


def volumes_fault(names: Sequence[str], kind: str) -> str:
    """The fault of a job's volumes, as the end of a sentence; empty: none."""
    if names and kind != "stateful":
        return "are for stateful jobs: tasks of other kinds don't stay on their hosts"
    if len(names) > VOLUMES_MAX:
        return f"are {len(names)}, at most {VOLUMES_MAX} are allowed"
    if wrong := [name for name in names if not VOLUME.fullmatch(name)]:
        return f"must have names of 1 to 64 of a-z, 0-9, dash, underscore: {wrong[0][:80]!r}"
    if len(set(map(volume_variable, names))) < len(names):
        return "must have names that differ in more than dash and underscore"
    return ""
