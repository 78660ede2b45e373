"""Pools of hosts (decision 108): each host is in one, and a job may use some of them, the first choice first."""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Literal, get_args

SHARED = "shared"
"""The host pool of hosts that are in no other one; every cell has it."""
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
POOLS_MAX = 64
"""Host pools of a cell, and so many a resource pool may name."""

Kind = Literal["service", "batch", "batch-non-preemptible"]
KINDS: tuple[Kind, ...] = get_args(Kind)
OF_NAME: Mapping[str, tuple[Kind, ...]] = {"stateless": ("service",), "batch_reserved": ("batch-non-preemptible",)}
"""The kinds of jobs that use host pools of these names, where their definition doesn't say."""


def kind_of(service: bool, preemptible: bool) -> Kind:
    """The kind of a job. Daemons are of none: they run on every host that matches."""
    return "service" if service else "batch" if preemptible else "batch-non-preemptible"


def kind_number(service: bool, preemptible: bool) -> int:
    """The place of the kind of a job among `KINDS`."""
    return 0 if service else 1 if preemptible else 2


def of_kind(kinds: Mapping[str, Iterable[str]], kind: Kind) -> tuple[str, ...]:
    """The host pools of jobs of a kind, where their resource pool names none: those that name it, then `SHARED`.
    `kinds`: those of each host pool.
    """
    own = sorted(name for name, allowed in kinds.items() if kind in allowed and name != SHARED)
    return (*own, SHARED)


def name_fault(name: str) -> str:
    """Why a text is no name of a host pool; empty: it is one."""
    if NAME.fullmatch(name):
        return ""
    return f"{name[:80]!r} is no name of a host pool: 1 to 63 of a-z, 0-9 and ._-, the first a letter or digit"


def missing_text(names: Iterable[str], there: Collection[str]) -> str:
    """That host pools aren't there, of those that are named; empty: all are."""
    missing = [each for each in names if each != SHARED and each not in there]
    if not missing:
        return ""
    return f"there is no host pool {' or '.join(missing)} yet: `paceline host-pool define` makes one"
