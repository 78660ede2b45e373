"""Keeps the runs of a host apart, and within their limits, as far as a trial shows when the agent starts."""

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

from events.abilities import CGROUP, CONTAINER, CPUSET, DEVICE, VALUE
from events.host_devices import Core
from events.records.parts import Isolation
from hostagent.container_level import Containers, ContainerSettings
from hostagent.containers import ContainerFault
from hostagent.cores import listed
from hostagent.groups import Group, GroupFault, Tree
from hostagent.run import Run
from hostagent.run_record import Launch

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
    another user than the agent; `say`: told what isn't held; `containers`: what the operator says of those; `cores`:
    those that runs may have for themselves.
    """

    def __init__(
        self,
        folder: Path,
        least: str,
        other_user: bool,
        say: Callable[[str], None],
        containers: ContainerSettings,
        cores: Sequence[Core] = (),
    ) -> None:
        # not by the name of its host, which several may have: each ends what no run of its own has
        name = blake2b(bytes(folder.resolve()), digest_size=8).hexdigest()
        self._tree, self.fault = None, _unpinnable(cores)
        if cores and not self.fault:
            self._tree, self.fault = _tree(name, cores[0].threads)
        self.pins = self._tree is not None
        """Whether runs are kept on their own cores, and others off these."""
        if cores and not self.pins:
            say(f"cores are offered, but runs aren't kept on theirs: {self.fault}")
        self._threads = os.sched_getaffinity(0)
        self._shared = listed(self._threads)
        if self._tree is None:
            self._tree, self.fault = _tree(name)
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
        names += [CPUSET] if self.pins else []
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

    def order(self, name: str, launch: Launch) -> dict[str, Any]:
        """The part of a run's order about its limits; empty: it has none. `name`: that of its group. Raises
        `ValueError` where the host can't do what the job needs.
        """
        isolation, idle = launch.isolation, launch.standing is not None and launch.standing.revocable
        apart = isolation or Isolation()
        if apart.level == "container" and self.containers is None:
            raise ValueError(f"no containers are run here: {self.no_containers}")
        is_held = self._by_default or apart.level != "none" or bool(apart.cpu_limit or apart.processes)
        if not is_held and not self.pins:
            return dict(self._by_user)
        if self._tree is None:
            raise ValueError(f"this host can't hold the limits of the job: {self.fault}")
        processes = (apart.processes or PROCESSES) + (apart.level == "container")  # its init is one
        limits = {
            "cpu_millis": launch.cpu,
            "cpu_limit_millis": apart.cpu_limit,
            "memory_bytes": launch.memory if is_held else 0,
            "processes": processes if is_held else 0,
            **({"idle": True} if idle else {}),
            **({"cpus": listed(launch.threads) or self._shared} if self.pins else {}),
        }
        by_user = {} if is_held else self._by_user
        return {"groups": self._tree.group(name).folders, "limits": limits, **by_user}

    def share(self, runs: Iterable[Run], coming: Iterable[Launch] = ()) -> None:
        """Keeps runs off the cores that others have for themselves, `coming` among these, who are about to start; where
        they have all, the rest run beside them.
        """
        if not self.pins or self._tree is None:
            return
        runs = list(runs)
        own = {thread for run in runs for thread in run.threads}
        own.update(thread for launch in coming for thread in launch.threads)
        self._shared = listed(self._threads - own) or listed(self._threads)
        for run in runs:
            if run.grouped and not run.threads and run.cpus != self._shared:
                with suppress(OSError):  # its keeper has not made the group yet: it is tried again
                    self._tree.group(run.group).pin(self._shared)
                    run.cpus = self._shared

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


def _tree(name: str, threads: Sequence[int] = ()) -> tuple[Tree | None, str]:
    """The place for groups of that name, in which runs are kept on threads where some are given; or None, and why."""
    try:
        tree = Tree.take(name, pins=bool(threads))
        tree.trial(listed(threads))
    except GroupFault as fault:
        return None, str(fault)
    return tree, ""


def _unpinnable(cores: Sequence[Core]) -> str:
    """Why runs can't be kept on these cores, whatever the kernel does; empty: they may be."""
    if not all(core.threads for core in cores):
        return "their threads aren't known"
    strangers = {thread for core in cores for thread in core.threads} - os.sched_getaffinity(0)
    return f"the agent may not use the threads {listed(strangers)}" if strangers else ""
