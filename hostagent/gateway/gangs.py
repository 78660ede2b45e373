"""Gangs of the wanted runs: none starts before all are ordered, and each is told where the others are."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from events.columns import I64, distinct
from events.records.hosts import HostOffered
from hostagent.gang_members import Member, packed
from hostagent.task_columns import Column, Slots

PortsOf = Callable[[Sequence[str], Column, Column], Any]


class Gangs:
    """The gangs of all jobs. `ports`: a row of port numbers for each task, given by index into job ids and instance."""

    def __init__(self, slots: Slots, ports: PortsOf) -> None:
        self._slots = slots
        self._ports = ports
        self._sizes: dict[str, int] = {}
        self._addresses: dict[str, str] = {}
        """Addresses of hosts that have another one than their id."""
        self._packed: dict[str, tuple[int, str]] = {}
        """The run of each gang and the packed text about its members, made once for all hosts."""

    def accepted(self, job_id: str, size: int) -> None:
        """A job has a gang of its first instances."""
        self._sizes[job_id] = size

    def dropped(self, job_id: str) -> None:
        """A job has ended."""
        self._sizes.pop(job_id, None)
        self._packed.pop(job_id, None)

    def offered(self, event: HostOffered) -> None:
        """A host says by what name others reach it."""
        address = event.attributes.get("hostname") or event.host_id
        if address != event.host_id:
            self._addresses[event.host_id] = address
        else:
            self._addresses.pop(event.host_id, None)

    def removed(self, host_id: str) -> None:
        """A host has left."""
        self._addresses.pop(host_id, None)

    def startable(self, job_ids: Sequence[str], job: Column, instance: Column) -> Column:
        """A mask of the tasks that may start as far as their gangs go: lifecycle may order a large gang in several
        rounds.
        """
        may = np.ones(len(job), dtype=np.bool_)
        for at, size in self._among(job_ids, job):
            if not self._whole(job_ids[at], size):
                may &= (job != at) | (instance >= size)
        return may

    def completed(self, job_ids: Sequence[str], job: Column) -> list[tuple[int, I64]]:
        """Finds, among jobs with ordered runs, those whose gangs may start: index of the job, and the members."""
        return [(at, np.arange(size)) for at, size in self._among(job_ids, job) if self._whole(job_ids[at], size)]

    def in_gang(self, job_ids: Sequence[str], job: Column, instance: Column) -> Column:
        """A mask of the tasks that are members of gangs."""
        member = np.zeros(len(job), dtype=np.bool_)
        for at, size in self._among(job_ids, job):
            member |= (job == at) & (instance < size)
        return member

    def members(self, job_id: str, host_ids: Sequence[str]) -> str:
        """The packed text that tells members of a gang about one another; empty: the job has no gang. `host_ids` by
        number.
        """
        size = self._sizes.get(job_id, 0)
        if not size:
            return ""
        slots = self._slots.slots_of(job_id)[:size]
        run = int(self._slots["run"][slots].max())
        entry = self._packed.get(job_id)
        if entry is None or entry[0] != run:
            ports = self._ports((job_id,), np.zeros(size, dtype=np.int32), np.arange(size)).tolist()
            places = zip(self._slots["host"][slots].tolist(), self._slots["state"][slots].tolist(), strict=True)
            hosts = [host_ids[number] if state else "" for number, state in places]  # a host may have left
            members = [
                Member(self._addresses.get(host_id, host_id), tuple(port for port in row if port))
                for host_id, row in zip(hosts, ports, strict=True)
            ]
            entry = self._packed[job_id] = run, packed(members)
        return entry[1]

    def dump(self) -> dict[str, Any]:
        """The state that can't be derived again, as plain values."""
        return {"sizes": self._sizes, "addresses": self._addresses}

    def load(self, state: dict[str, Any]) -> None:
        """Takes what `dump` gave."""
        self._sizes, self._addresses = dict(state["sizes"]), dict(state["addresses"])

    def _among(self, job_ids: Sequence[str], job: Column) -> list[tuple[int, int]]:
        if not self._sizes:
            return []
        return [(at, self._sizes[job_ids[at]]) for at in distinct(job).tolist() if job_ids[at] in self._sizes]

    def _whole(self, job_id: str, size: int) -> bool:
        """Whether all members were ordered at the same run; some may be over."""
        run = self._slots["run"][self._slots.slots_of(job_id)[:size]]
        return bool(run[0] > 0 and (run == run[0]).all())
