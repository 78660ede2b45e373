"""Chooses the host and the card of a task: packed, by fragmentation, or by the mix that was learned (decision 106)."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from events.columns import I64
from processors.placement.devices.columns import (
    ADAPTIVE,
    CPU,
    FRAGMENTATION,
    KNOWN,
    MEMORY,
    MILLI,
    MIX,
    MODELS,
    NOW,
    NUMBER,
    OFFERS,
    PER_CARD,
    PER_CPU,
    PER_FILLED,
    PER_PLACE,
    PER_USABLE,
    RULE,
    SCALE,
    SEEN,
    TASK,
    TOTAL,
    WEIGHT,
    WHOLE,
    WINDOWS,
    Mask,
    new_hosts,
    new_worths,
)
from processors.placement.devices.compiled import VECTORS, Kernels
from processors.placement.devices.mix import WEIGHT_BITS, Mix, MixRow, TaskShape

ANY = (1 << 62) - 1
"""The bits of all models."""
LAST_MODEL = 61
"""Models beyond share a bit: whether a host has the right one, `open_` says."""
PART_BITS = 31
"""A card, or a hundred steps, is so many bits in `ScoreParts`."""
NO_MODEL = -1
"""In place of its number, of hosts that have no cards."""
SCORES = 1 << 24
"""So many scores are kept, of all shapes together."""


class Choice(NamedTuple):
    """A host, and its card or the first of its whole cards; -1: the task needs none."""

    host: int
    card: int


class ScoreParts(NamedTuple):
    """The parts of a score, which add up to it: of `ADAPTIVE` in parts of a card, 2^-31; of `FRAGMENTATION` the loss of
    100 steps, in the same parts.
    """

    loss: int
    room: int = 0
    place: int = 0


class _Scored:
    """A shape with the scores of all hosts by one rule."""

    def __init__(self, row: I64, hosts: int) -> None:
        self.row = row
        self.scores = np.zeros(hosts, dtype=np.int64)
        self.row[SEEN] = -1


class GpuBoard:
    """Hosts with what is free on them, and what was learned. Derived: it may be built again at any time."""

    def __init__(self, hosts: int, kernels: Kernels = VECTORS) -> None:
        self.hosts = new_hosts(hosts)
        self.kernels = kernels
        self._clock = 0
        self._model_of: list[str | None] = [None] * hosts
        self._models: dict[str, int] = {}
        """The numbers of the models that hosts have, by name, so that they follow from the hosts alone."""
        self._renamed = False
        """Whether hosts have other models since."""
        self._mix = Mix(MixRow())
        self._worths = {rule: new_worths() for rule in (FRAGMENTATION, ADAPTIVE)}
        self._scored: OrderedDict[tuple[TaskShape, int], _Scored] = OrderedDict()

    @property
    def models(self) -> list[str]:
        """The models of cards that hosts have."""
        self._number_models()
        return list(self._models)

    def set_host(self, host: int, cpu: int, memory: int, cards: Sequence[int], model: str = "") -> None:
        """A host has so much free, and on each card so many thousandths."""
        h = self.hosts
        h.cpu[host], h.memory[host] = cpu, memory
        h.cards[host] = 0
        h.cards[host, : len(cards)] = cards
        own = model if len(cards) else None
        if self._model_of[host] != own:
            self._model_of[host], self._renamed = own, True
        self._settle(host)

    def weigh(self, cpu: int, memory: int, milli: int) -> None:
        """Packing weighs each kind by the largest host, which has so much."""
        self.hosts.weight[:] = [(1 << 40) // max(amount, 1) for amount in (cpu, memory, milli)]
        self._scored.clear()

    def put(self, shape: TaskShape, host: int, cards: Sequence[int], tasks: int = 1) -> None:
        """Puts a task on some cards of a host, which has room; -1 task: takes it off."""
        h = self.hosts
        h.cpu[host] -= tasks * shape.cpu
        h.memory[host] -= tasks * shape.memory
        for card in cards:
            h.cards[host, card] -= tasks * shape.milli
        self._settle(host)

    def cards(self, shape: TaskShape, choice: Choice) -> list[int]:
        """The cards that a task takes at a choice."""
        if shape.number <= 1:
            return [choice.card] if shape.number else []
        idle: list[int] = np.flatnonzero(self.hosts.cards[choice.host] == WHOLE)[: shape.number].tolist()
        return idle

    def best(self, shape: TaskShape, rule: int, open_: Mask) -> Choice | None:
        """The best of the hosts that are open, and its card; None: no host has room."""
        self._number_models()
        scored = self._scored_for(shape, rule)
        worths = self._worths.get(rule, self._worths[ADAPTIVE])
        host = self.kernels.best_host(self.hosts, worths, scored.row, scored.scores, open_, self._clock)
        if host < 0:
            return None
        return Choice(host, self.kernels.card_of(self.hosts, worths, scored.row, host))

    def scores(self, shape: TaskShape, rule: int) -> I64:
        """The score of each host, by which the least is the best; `NONE`: it has no room."""
        self.best(shape, rule, np.ones(len(self.hosts.cpu), dtype=np.bool_))
        return self._scored_for(shape, rule).scores.copy()

    def parts(self, rule: int, host: int, score: int) -> ScoreParts:
        """The parts of a score that a host has now."""
        if rule == FRAGMENTATION:
            return ScoreParts((score << PART_BITS) // 100)
        h = self.hosts
        room = int(h.cards[host].sum() * PER_CARD + h.cpu[host] * PER_CPU)
        place = int(h.place[host])
        return ScoreParts(*((each << PART_BITS) // (WHOLE * SCALE) for each in (score - room - place, room, place)))

    def refresh(self, mix: Mix) -> None:
        """Refreshes a mix by what has arrived and what is free now."""
        mix.refresh(self.models, self._usable)
        self.learn(mix)

    def learn(self, mix: Mix) -> None:
        """From now on hosts are scored by a mix."""
        self._mix = mix
        self._number_models()
        w = self._worths[ADAPTIVE]
        self._expect(ADAPTIVE, mix.scarce())
        offers = mix.offers()
        w.windows[: len(offers)] = [self._row(shape) for shape in offers] or w.windows[:0]
        w.numbers[OFFERS] = len(offers)
        w.numbers[PER_FILLED], w.numbers[PER_USABLE] = 1 << WEIGHT_BITS, WINDOWS
        w = self._worths[FRAGMENTATION]
        self._expect(FRAGMENTATION, mix.typical())
        w.numbers[PER_USABLE], w.numbers[TOTAL] = 1, max(mix.row.typical_total, 1)

    def _expect(self, rule: int, shapes: Sequence[tuple[TaskShape, int]]) -> None:
        w = self._worths[rule]
        w.mix[: len(shapes)] = [self._row(shape, weight) for shape, weight in shapes] or w.mix[:0]
        w.numbers[MIX], w.numbers[KNOWN] = len(shapes), 0
        w.numbers[NOW] += 1

    def _usable(self, shapes: Sequence[TaskShape]) -> list[int]:
        """The free thousandths of the hosts where each of some shapes could go."""
        self._expect(ADAPTIVE, [(shape, 0) for shape in shapes])
        sums = np.zeros(len(shapes), dtype=np.int64)
        self.kernels.usable_by_all(self.hosts, self._worths[ADAPTIVE], sums)
        amounts: list[int] = sums.tolist()
        return amounts

    def _scored_for(self, shape: TaskShape, rule: int) -> _Scored:
        scored = self._scored.get((shape, rule))
        if scored is None:
            while self._scored and (len(self._scored) + 1) * len(self.hosts.cpu) > SCORES:
                self._scored.popitem(last=False)
            row = self._row(shape)
            row[RULE] = rule
            scored = self._scored[shape, rule] = _Scored(row, len(self.hosts.cpu))
        else:
            self._scored.move_to_end((shape, rule))
        return scored

    def _row(self, shape: TaskShape, weight: int = 0) -> I64:
        models = ANY
        if shape.models:
            numbers = [self._models[model] for model in shape.models if model in self._models]
            models = sum({1 << min(number, LAST_MODEL) for number in numbers})
        row = np.zeros(TASK, dtype=np.int64)
        row[CPU], row[MEMORY], row[NUMBER], row[MILLI], row[MODELS] = *shape[:4], models
        row[WEIGHT] = weight
        return row

    def _settle(self, host: int) -> None:
        h = self.hosts
        h.levels[host] = np.sort(h.cards[host])
        self._clock += 1
        h.version[host] = self._clock

    def _number_models(self) -> None:
        """Numbers the models again where hosts have others."""
        if not self._renamed:
            return
        self._renamed = False
        names = sorted({model for model in self._model_of if model is not None})
        self._models = {model: number for number, model in enumerate(names)}
        of_hosts = [NO_MODEL if model is None else self._models[model] for model in self._model_of]
        numbers = np.array(of_hosts, dtype=np.int64)
        self.hosts.model[:] = np.where(numbers == NO_MODEL, 0, 1 << np.clip(numbers, 0, LAST_MODEL))
        self.hosts.place[:] = _costs_of_places(numbers)
        self._scored.clear()
        self.learn(self._mix)


def _costs_of_places(numbers: I64) -> I64:
    """The cost of the place of each host among those of its model; hosts without cards have none."""
    costs = np.zeros(len(numbers), dtype=np.int64)
    with_cards = np.flatnonzero(numbers != NO_MODEL)
    own = numbers[with_cards]
    counts = np.bincount(own)
    by_model = np.argsort(own, kind="stable")
    ranks = np.empty(len(own), dtype=np.int64)
    ranks[by_model] = np.arange(len(own)) - (np.cumsum(counts) - counts)[own[by_model]]
    costs[with_cards] = PER_PLACE * ranks // counts[own]
    return costs
