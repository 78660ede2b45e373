"""Hosts with GPUs as the strategies of decision 106 see them: a board that decisions bring up to what is free.

What a decision puts stays on the board. The next one finds there what was accepted, and touches only hosts that differ.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from events import strategies
from events.columns import I32, I64
from events.resources import GPU
from processors.placement.devices.columns import ADAPTIVE, CARDS, FRAGMENTATION
from processors.placement.devices.compiled import now
from processors.placement.devices.mix import Mix, TaskShape
from processors.placement.devices.needs import ONE, DeviceNeed
from processors.placement.devices.states import States, in_use
from processors.placement.devices.strategies import Choice, GpuBoard

RULES = {strategies.FRAGMENTATION: FRAGMENTATION, strategies.ADAPTIVE: ADAPTIVE}
"""The rule of each strategy that looks at cards."""


class Levels(NamedTuple):
    """The thousandths that are free on the cards of a state, the places of these among its devices, and their model."""

    free: tuple[int, ...] = ()
    places: tuple[int, ...] = ()
    model: str = ""


def task_shape(amounts: Sequence[int], devices: DeviceNeed | None) -> TaskShape:
    """A task as it is counted and scored: by its GPUs alone of all devices. A part of a card that is asked as memory,
    or beside whole ones, counts as a whole one. `amounts`: by kind, CPU and memory first.
    """
    cpu, memory = amounts[:2]
    need = next((each for each in devices.kinds if each.kind == GPU), None) if devices is not None else None
    if need is None:
        return TaskShape(cpu, memory)
    models = tuple(sorted(need.models))
    if need.share and not need.whole:
        return TaskShape(cpu, memory, 1, need.share, models)
    return TaskShape(cpu, memory, min(need.whole + (need.share or need.memory > 0), CARDS), ONE, models)


class CardBoard:
    """The board, with the states of devices in which its hosts are."""

    def __init__(self, hosts: int) -> None:
        self.width = 1 << max(hosts - 1, 15).bit_length()
        self.board = GpuBoard(self.width, now())
        self._hosts = 0
        self._column = np.full(self.width, -1, dtype=np.int64)
        self._levels: dict[int, Levels] = {}
        self._epoch = -1
        self._mix: Mix | None = None
        self._refreshed_at = -1

    def synchronise(self, cpu: I64, memory: I64, column: I32, states: States) -> None:
        """Brings hosts up to what is free; `column`: the state of the devices of each."""
        if self._epoch != states.epoch:
            self._epoch = states.epoch
            self._levels.clear()
            self._column[:] = -1
        self.board.kernels = now()
        h, hosts = self.board.hosts, len(column)
        for host in range(hosts, self._hosts):  # their numbers are free again
            self.board.set_host(host, 0, 0, ())
            self._column[host] = -1
        self._hosts = hosts
        cpu, memory = np.maximum(cpu, 0), np.maximum(memory, 0)
        changed = (h.cpu[:hosts] != cpu) | (h.memory[:hosts] != memory) | (self._column[:hosts] != column)
        for host in np.flatnonzero(changed).tolist():
            levels = self._levels_of(int(column[host]), states)
            self.board.set_host(host, int(cpu[host]), int(memory[host]), levels.free, levels.model)
        self._column[:hosts] = column

    def learn(self, mix: Mix) -> None:
        """Scores by a mix from now on, as it was when it was last refreshed."""
        if mix is not self._mix or mix.row.refreshed_at != self._refreshed_at:
            self._mix, self._refreshed_at = mix, mix.row.refreshed_at
            self.board.learn(mix)

    def refresh(self, mix: Mix) -> None:
        """Refreshes a mix by what is free now."""
        self.board.refresh(mix)
        self._mix, self._refreshed_at = mix, mix.row.refreshed_at

    def best(self, task: TaskShape, rule: int, hosts: I64) -> Choice | None:
        """The best of some hosts, and the place of the device that a share goes to, -1: any; None: no host has room as
        far as this board knows.
        """
        open_ = np.zeros(self.width, dtype=np.bool_)
        open_[hosts] = True
        choice = self.board.best(task, rule, open_)
        if choice is None or task.number != 1 or task.milli == ONE:
            return None if choice is None else Choice(choice.host, -1)
        levels = self._levels[int(self._column[choice.host])]
        return Choice(choice.host, levels.places[choice.card])

    def _levels_of(self, number: int, states: States) -> Levels:
        """The cards of a state."""
        levels = self._levels.get(number)
        if levels is None:
            levels = self._levels[number] = levels_of(number, states)
        return levels


def levels_of(number: int, states: States) -> Levels:
    """The cards of a state that take tasks and have the model of the first: as many as a board knows, the freest."""
    layout, state = states.layout_of(number), states.state(number)
    used = in_use(layout, state)
    cards = [at for at, device in enumerate(layout.devices) if device.kind == GPU and device.usable]
    model = layout.devices[cards[0]].model if cards else ""
    free = {
        at: 0 if used & layout.devices[at].clashes else max(state.room[at][0], 0)
        for at in cards
        if layout.devices[at].model == model
    }
    places = sorted(sorted(free, key=lambda at: (-free[at], at))[:CARDS])
    return Levels(tuple(free[at] for at in places), tuple(places), model)
