"""Keeps the runs of a host apart, and within their limits, as far as a trial shows when the agent starts."""

from collections.abc import Callable, Collection
from hashlib import blake2b
from pathlib import Path
from typing import Any

from events.abilities import CGROUP, CONTAINER, DEVICE, VALUE
from events.records.parts import Isolation
from hostagent.container_level import Containers, ContainerSettings
from hostagent.containers import ContainerFault
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
    another user than the agent; `say`: told what isn't held; `containers`: what the operator says of those.
    """

    def __init__(
        self,
        folder: Path,
        least: str,
        other_user: bool,
        say: Callable[[str], None],
        containers: ContainerSettings,
    ) -> None:
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
        self.containers, self.no_containers = self._try_containers(folder, containers)
        if self.containers is None:
            say(f"no containers are run here: {self.no_containers}")

    def attributes(self) -> dict[str, str]:
        """The abilities that the trial has shown."""
        names = [CGROUP] if self._tree is not None else []
        if self.containers is not None:
            names += [CONTAINER, *(f"{DEVICE}{path}" for path in self.containers.devices)]
        return dict.fromkeys(names, VALUE)

    def _try_containers(self, folder: Path, settings: ContainerSettings) -> tuple[Containers | None, str]:
        """Those of this host; or None, and why there are none."""
        if self._tree is None:
            return None, self.fault
        try:
            return Containers(folder, self._tree.group("trial-container"), settings), ""
        except ContainerFault as fault:
            return None, str(fault)

    def order(self, name: str, isolation: Isolation | None, cpu: int, memory: int, idle: bool) -> dict[str, Any]:
        """The part of a run's order about its limits; empty: it has none. `name`: that of its group; `cpu` in
        thousandths of a core, `memory` in bytes; `idle`: it has only the CPU that others leave. Raises `ValueError`
        where the host can't do what the job needs.
        """
        apart = isolation or Isolation()
        if apart.level == "container" and self.containers is None:
            raise ValueError(f"no containers are run here: {self.no_containers}")
        if not (self._by_default or apart.level != "none" or apart.cpu_limit or apart.processes):
            return dict(self._by_user)
        if self._tree is None:
            raise ValueError(f"this host can't hold the limits of the job: {self.fault}")
        limits = {
            "cpu_millis": cpu,
            "cpu_limit_millis": apart.cpu_limit,
            "memory_bytes": memory,
            "processes": (apart.processes or PROCESSES) + (apart.level == "container"),  # its init is one
            **({"idle": True} if idle else {}),
        }
        return {"groups": self._tree.group(name).folders, "limits": limits}

    def group_of(self, run: Run) -> Group | None:
        """The control group of a run; None: it has none."""
        return self._tree.group(run.group) if run.grouped and self._tree is not None else None

    def remove_others(self, names: Collection[str]) -> bool:
        """Ends what is left in groups of runs that nobody keeps any more; `names`: those of the runs that go on. False:
        it is to be called again, soon.
        """
        if self._tree is None:
            return True
        all_gone = True
        for name in set(self._tree.names()).difference(names):
            group = self._tree.group(name)
            all_gone &= group.kill() and group.remove()
        return all_gone

    def close(self) -> None:
        """Removes the place of all groups, if no run has one."""
        if self._tree is not None:
            self._tree.remove()
