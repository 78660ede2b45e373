"""Bugs that are planted in windows of maintenance, each in a scenario of tests/scenarios/maintenance that holds without
it.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from events.records.parts import ZoneOffsets
from events.schedules import next_opening
from processors.placement import windows
from processors.placement.packing import Mask
from processors.placement.windows import OPEN, WindowRow, Windows
from tests.paceline.simulate.stage_bugs import Found, Plant


def what_starts_before_is_not_bound(patch: pytest.MonkeyPatch) -> None:
    """Work that isn't to be disturbed is put on a host though its window comes before that is over."""

    def none(self: Windows, longest_ms: int) -> Mask:
        return np.zeros(len(self._hosts.ids), dtype=np.bool_)

    patch.setattr(Windows, "too_late", none)


def it_does_not_end(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks when an open window closes."""
    next_ms: Any = WindowRow.next_ms
    patch.setattr(WindowRow, "next_ms", property(lambda row: 0 if row.state == OPEN else next_ms.fget(row)))


def hosts_are_kept_when_it_closes(patch: pytest.MonkeyPatch) -> None:
    """Hosts that drain for a window aren't taken back."""

    def nothing(self: Windows, *args: Any) -> Iterator[Any]:
        return iter(())

    patch.setattr(Windows, "_taken_back", nothing)


def clocks_do_not_change(patch: pytest.MonkeyPatch) -> None:
    """The first offset of a zone holds for good."""

    def first(text: str, zone: ZoneOffsets, after_s: int) -> int | None:
        return next_opening(text, ZoneOffsets(zone.name, zone.from_s[:1], zone.offset_s[:1]), after_s)

    patch.setattr(windows, "next_opening", first)


def who_takes_a_host_back_is_overruled(patch: pytest.MonkeyPatch) -> None:
    """A host that an operator has taken back drains again when the window opens."""
    patch.setattr(Windows, "host_changed", lambda self, event, now: None)


def a_campaign_does_not_wait_for_it(patch: pytest.MonkeyPatch) -> None:
    """Campaigns take each window for open."""
    patch.setattr(Windows, "is_open", lambda self, window_id: True)


PLANTED: dict[Plant, Found] = {
    what_starts_before_is_not_bound: Found("window-and-firm-work", r"places \('long', 0\) .* night opens at"),
    it_does_not_end: Found("window-closes-in-the-middle", "night is OPEN, it closes at"),
    hosts_are_kept_when_it_closes: Found("window-closes-in-the-middle", "leaves h-1 .* for night, which is SET"),
    clocks_do_not_change: Found("window-clocks-in-spring", "night .* opens at 1700010000000 next"),
    who_takes_a_host_back_is_overruled: Found("window-and-an-operator", "drains h-1 for night, which was taken back"),
    a_campaign_does_not_wait_for_it: Found("window-for-a-campaign", "night isn't open"),
}
