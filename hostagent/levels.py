"""Keeps the runs of a host apart, and within their limits, as far as a trial shows when the agent starts."""

from collections.abc import Callable, Collection
from hashlib import blake2b
from pathlib import Path
from typing import Any

from events.abilities import CGROUP, VALUE
from events.records.parts import Isolation
from hostagent.groups import Group, GroupFault, Tree
from hostagent.run import Run

PROCESSES = 4096
"""Processes of a run whose job names no number: few enough that the host goes on beside a fork bomb."""
USER_PROCESSES = 16_384
"""Processes that all runs of one user, where it isn't the agent's, may have together at level none."""
CHOICES = ("auto", "none", "cgroup")
"""Least levels that an agent may be told: auto is cgroup where the host can and tasks run as another user, else none,
which starts a run in half the time.
"""


class Levels:
    """The levels of this host, for the agent on a folder. `least`: one of `CHOICES`; `other_user`: whether tasks run as
    another user than the agent; `say`: told what isn't held.
    """

    def __init__(self, folder: Path, least: str, other_user: bool, say: Callable[[str], None]) -> None:
        self._tree: Tree | None = None
        self.fault = ""
        """The reason why no limits can be held here; empty: they can."""
        try:
            # not by the name of its host, which several may have: each ends what no run of its own has
            self._tree = Tree.take(blake2b(bytes(folder.resolve()), digest_size=8).hexdigest())
            self._tree.trial()
        except GroupFault as fault:
            self._tree, self.fault = None, str(fault)
        self._by_user = {"nproc": USER_PROCESSES} if other_user else {}
        self._by_default = self._tree is not None and (least == "cgroup" or (least == "auto" and other_user))
        if self._tree is None:
            say(f"memory, CPU and processes of tasks aren't limited here: {self.fault}")
        elif not self._by_default:
            say("memory, CPU and processes of tasks aren't limited, unless their job says isolation: cgroup")

    def attributes(self) -> dict[str, str]:
        """The abilities that the trial has shown."""
        return {CGROUP: VALUE} if self._tree is not None else {}

    def order(self, name: str, isolation: Isolation | None, cpu: int, memory: int, idle: bool) -> dict[str, Any]:
        """The part of a run's order about its limits; empty: it has none. `name`: that of its group; `cpu` in
        thousandths of a core, `memory` in bytes; `idle`: it has only the CPU that others leave. Raises `ValueError`
        where the host can't do what the job needs.
        """
        apart = isolation or Isolation()
        if apart.level == "container":
            raise ValueError("this agent runs no containers")
        if not (self._by_default or apart.level == "cgroup" or apart.cpu_limit or apart.processes):
            return dict(self._by_user)
        if self._tree is None:
            raise ValueError(f"this host can't hold the limits of the job: {self.fault}")
        limits = {
            "cpu_millis": cpu,
            "cpu_limit_millis": apart.cpu_limit,
            "memory_bytes": memory,
            "processes": apart.processes or PROCESSES,
            **({"idle": True} if idle else {}),
        }
        return {"groups": self._tree.group(name).folders, "limits": limits}

    def group_of(self, run: Run) -> Group | None:
        """The control group of a run; None: it has none."""
        return self._tree.group(run.group) if run.grouped and self._tree is not None else None

    def remove_others(self, names: Collection[str]) -> None:
        """Ends what is left in groups of runs that nobody keeps any more; `names`: those of the runs that go on."""
        if self._tree is None:
            return
        for name in set(self._tree.names()).difference(names):
            group = self._tree.group(name)
            group.kill()
            group.remove()

    def close(self) -> None:
        """Removes the place of all groups, if no run has one."""
        if self._tree is not None:
            self._tree.remove()
