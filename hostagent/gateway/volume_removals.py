"""Volumes that hosts are to remove: each is asked for until the host says that it has it no more."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from events.records.hosts import HostVolumes
from events.records.lifecycle import VolumeRemovalOrdered
from events.structs import known
from hostagent.gateway.connections import Link
from hostagent.messages import RemoveVolumesLine, VolumeState


class VolumeRemovals:
    """Removals of volumes on all hosts. `link` finds the link of a host."""

    def __init__(self, link: Callable[[str], Link | None]) -> None:
        self._link = link
        self._of: dict[str, dict[VolumeState, int]] = {}
        """By host the volumes, with the time of the log when the removal was decided."""

    def ordered(self, event: VolumeRemovalOrdered, now: int) -> None:
        """Lifecycle has decided a removal: the host is asked at once, if it has a link."""
        volume = VolumeState(event.job_id, event.instance, event.name, event.created_ms)
        self._of.setdefault(event.host_id, {})[volume] = now
        self._ask(event.host_id, [volume])

    def reported(self, event: HostVolumes, at_ms: int) -> None:
        """A host says what it has. What it said before the removal of a volume may be older than the volume."""
        there = {VolumeState(each.job_id, each.instance, each.name, each.created_ms) for each in event.volumes}
        requests = self._of.get(event.host_id, {})
        open_requests = {volume: since for volume, since in requests.items() if volume in there or at_ms < since}
        self._of[event.host_id] = open_requests
        if not open_requests:
            del self._of[event.host_id]

    def connected(self, host_ids: Iterable[str]) -> None:
        """Hosts have got links: they are asked for all that is to be removed there."""
        for host_id in host_ids:
            if requests := self._of.get(host_id):
                self._ask(host_id, list(requests))

    def removed(self, host_id: str) -> None:
        """A host has left."""
        self._of.pop(host_id, None)

    def dump(self) -> Any:
        """All there is, as values that MessagePack takes."""
        return {host_id: list(requests.items()) for host_id, requests in self._of.items()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Takes what `dump` gave."""
        stored = msgspec.convert(state, known(dict[str, list[tuple[VolumeState, int]]]))
        self._of = {host_id: dict(requests) for host_id, requests in stored.items()}

    def _ask(self, host_id: str, volumes: list[VolumeState]) -> None:
        if (link := self._link(host_id)) is not None:
            link.ask(host_id, RemoveVolumesLine(volumes))
