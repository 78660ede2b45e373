"""The strategies in plain Python over every host, without a cache: what the boards are compared with."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from processors.placement.devices.mix import TaskShape


@dataclass
class State:
    """What is free on a host; `cards` in thousandths."""

    cpu: int
    memory: int
    cards: list[int]
    model: str

    def choices(self, task: TaskShape) -> list[int]:
        """The cards that a task may take, or the first of them if it takes whole ones; [-1]: it needs none."""
        if task.cpu > self.cpu or task.memory > self.memory:
            return []
        if not task.number:
            return [-1]
        if task.models and self.model not in task.models:
            return []
        fitting = [card for card, free in enumerate(self.cards) if free >= task.milli]
        return (fitting[:1] if task.milli == 1000 else fitting) if len(fitting) >= task.number else []

    def after(self, task: TaskShape, card: int) -> "State":
        """The host with a task on it."""
        cards = list(self.cards)
        idle = [number for number, free in enumerate(cards) if free == 1000]
        for each in [] if card < 0 else [card] if task.milli < 1000 else idle[: task.number]:
            cards[each] -= task.milli
        return State(self.cpu - task.cpu, self.memory - task.memory, cards, self.model)


@dataclass
class Expected:
    """Windows of offers, weights of usable thousandths in 2^-20, and typical shapes with their counts and their sum."""

    windows: list[list[TaskShape]]
    scarce: Sequence[tuple[TaskShape, int]]
    typical: Sequence[tuple[TaskShape, int]]
    total: int


def usable(host: State, task: TaskShape) -> int:
    """The free thousandths on cards where a task could go."""
    return sum(free for free in host.cards if free >= task.milli) if task.number and host.choices(task) else 0


def filled(host: State, window: list[TaskShape]) -> int:
    """The thousandths that a window of tasks takes, those that don't fit left out."""
    taken = 0
    for task in window:
        choices = host.choices(task)
        if choices:
            host = host.after(task, min(choices, key=lambda card: host.cards[card]))
            taken += task.number * task.milli
    return taken


def adaptive_loss(before: State, after: State, expected: Expected) -> int:
    """What a step costs the expected tasks, in 24 * 2^20 parts of a thousandth."""

    def worth(host: State) -> int:
        scarce = sum(weight * usable(host, task) for task, weight in expected.scarce)
        return (sum(filled(host, window) for window in expected.windows) << 20) + 24 * scarce

    best_fit = sum(before.cards) * (6 * (24 << 20) // 1000) + before.cpu * (3 * (24 << 20) // 12000)
    return worth(before) - worth(after) + best_fit


def cost_of_place(hosts: list[State], number: int) -> int:
    """What the place of a host among those of its model costs: up to 300 thousandths of a card."""
    alike = [at for at, host in enumerate(hosts) if host.cards and host.model == hosts[number].model]
    return 300 * (24 << 20) * alike.index(number) // len(alike) if number in alike else 0


def fgd_score(before: State, after: State, expected: Expected) -> int:
    """100 less the score of FGD."""

    def fragments(host: State) -> int:
        with_gpu = sum(count for _, count in expected.typical)
        unusable = sum(count * (sum(host.cards) - usable(host, task)) for task, count in expected.typical)
        return unusable + (expected.total - with_gpu) * sum(host.cards)

    gain = Fraction(fragments(before) - fragments(after), 1000 * expected.total)
    return 100 - max(k for k in range(100) if k == 0 or gain * 10**6 >= round(math.log(k / (100 - k)) * 10**6))


def best(
    hosts: list[State], task: TaskShape, rule: str, expected: Expected, is_open: Sequence[bool], weight: Sequence[int]
) -> tuple[int, int] | None:
    """The host and the card, by a look at all of them."""
    keys = []
    for number, host in enumerate(hosts):
        for card in host.choices(task) if is_open[number] else []:
            after = host.after(task, card)
            level = host.cards[card] if card >= 0 else 0
            if rule == "pack":
                free = host.cpu, host.memory, sum(host.cards)
                key = sum(amount * each for amount, each in zip(free, weight, strict=True)), number, level, card
            elif rule == "fragmentation":
                key = fgd_score(host, after, expected), number, 0, card
            else:
                key = adaptive_loss(host, after, expected) + cost_of_place(hosts, number), number, 0, card
            keys.append(key)
    return min(keys)[1::2] if keys else None
