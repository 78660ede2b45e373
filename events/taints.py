"""Taints of hosts, and the tolerations of jobs: a host with a taint takes no new tasks but those that tolerate it."""

import re
from collections.abc import Iterable, Mapping

from events.bounds import WORD_MAX

KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}")
NO_PLACE, EVICT = EFFECTS = "no_place", "evict"
"""New tasks are kept away; and those leave that run there, as budgets allow."""
TAINTS_MAX = 16
"""Taints of a host by its agent, and as many by operators."""
TOLERATIONS_MAX = 64


def toleration_fault(text: str) -> str:
    """The fault of KEY or KEY=VALUE; empty: there is none."""
    key, _, value = text.partition("=")
    if not KEY.fullmatch(key):
        return f"{text[:80]!r} must be KEY or KEY=VALUE; a key has letters, digits and ._/- after the first"
    return f"the value of {key!r} has more than {WORD_MAX} characters" if len(value) > WORD_MAX else ""


def tolerations_fault(tolerations: Iterable[str]) -> str:
    """The fault of the tolerations of a job; empty: there is none."""
    each = [*tolerations]
    if len(each) > TOLERATIONS_MAX:
        return f"the job has {len(each)} tolerations, at most {TOLERATIONS_MAX} are allowed"
    return next((f"toleration {fault}" for fault in map(toleration_fault, each) if fault), "")


def taints_fault(taints: Mapping[str, str]) -> str:
    """The fault of the taints of a host; empty: there is none."""
    if len(taints) > TAINTS_MAX:
        return f"{len(taints)} taints, at most {TAINTS_MAX}"
    return next((f"taint {fault}" for fault in (toleration_fault(f"{k}={v}") for k, v in taints.items()) if fault), "")


def is_tolerated(key: str, value: str, tolerations: Iterable[str]) -> bool:
    """Whether a taint keeps no tasks away that tolerate these."""
    return any(each in (key, f"{key}={value}") for each in tolerations)


def text_of(key: str, value: str) -> str:
    """A taint as people write it."""
    return f"{key}={value}" if value else key
