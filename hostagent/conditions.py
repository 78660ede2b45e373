"""Conditions of a host: the results of its checks, told when they change, each at most once a minute.

What was told last stands on disk, so that an agent tells what has changed while it didn't run: a check that passes
again, or that is no more.
"""

from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

import msgspec

from hostagent import kernel, private_files
from hostagent.messages import CONDITION_CODE_MAX, CONDITION_TEXT_MAX, ConditionState

AGAIN_MS = 60_000
"""A result of a check is told no sooner after the one before it."""
MAYBE = "?"
"""In place of a code: the cell may have been told of a result, or not."""
MOST = 64
"""So many results in a report; the others come with the next."""


class Conditions:
    """The results of the checks of a host, and which of them the cell has yet to be told. `names`: of its checks;
    `changed` is called when there is something to tell.
    """

    def __init__(self, path: Path, names: Collection[str], changed: Callable[[], None]) -> None:
        self._path = path
        self._changed = changed
        self._results: dict[str, ConditionState] = {}
        self._told = _read(path)
        """The code of each check that was bad when it was told of last, "" of one that wasn't; or `MAYBE`."""
        self._told_ms: dict[str, int] = {}
        """When each was told of last, since the boot."""
        for name in [name for name in self._told if name not in names]:
            self.say(ConditionState(name, bad=False, text="It isn't checked any more."))

    def say(self, state: ConditionState) -> None:
        """The result of a check is known. While it is bad for the same reason, the first evidence stands."""
        before = self._results.get(state.name)
        if before is None or (before.bad, before.code) != (state.bad, state.code):
            self._results[state.name] = state
            self._changed()

    def untold(self) -> list[ConditionState]:
        """The results that the cell is to be told now."""
        now = kernel.since_boot_ms()
        return [each for each in self._results.values() if self._is_news(each) and self._due_ms(each) <= now][:MOST]

    def sent(self, states: Collection[ConditionState]) -> None:
        """The cell may know these results soon, though this agent may end before it hears so."""
        self._note({each.name: MAYBE for each in states if each.bad or self._told.get(each.name)})

    def told(self, states: Collection[ConditionState]) -> None:
        """The cell knows these results."""
        now = kernel.since_boot_ms()
        self._told_ms |= {each.name: now for each in states}
        self._note({each.name: each.code if each.bad else "" for each in states})

    def _note(self, codes: dict[str, str]) -> None:
        if not codes.items() <= self._told.items():
            self._told |= codes
            with suppress(OSError):  # a full disk is one of the conditions; the next agent tells all again
                private_files.write(str(self._path), msgspec.json.encode(self._told).decode())

    def _is_news(self, state: ConditionState) -> bool:
        return self._told.get(state.name) != (state.code if state.bad else "")

    def _due_ms(self, state: ConditionState) -> int:
        last = self._told_ms.get(state.name)
        return 0 if last is None else last + AGAIN_MS


def state_of(name: str, code: str, text: str) -> ConditionState:
    """A result in its bounds; without a code it is good."""
    return ConditionState(name, bool(code), code[:CONDITION_CODE_MAX], " ".join(text.split())[-CONDITION_TEXT_MAX:])


def _read(path: Path) -> dict[str, str]:
    try:
        return msgspec.json.decode(private_files.read_file(path), type=dict[str, str])
    except (OSError, ValueError):  # the first agent here, or the one before it was cut off
        return {}
