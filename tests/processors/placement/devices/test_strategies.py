"""Boards of hosts with GPUs choose what a look at every host does, whatever decides: loops, numpy, compiled code."""

import math
import random

import numpy as np
import pytest

from processors.placement.devices.columns import ADAPTIVE, FRAGMENTATION, NONE, PACK, STATES, new_worths
from processors.placement.devices.compiled import LOOPS, VECTORS, Kernels
from processors.placement.devices.kernels import LOGITS, remember
from processors.placement.devices.mix import WINDOW, Mix, MixRow, TaskShape
from processors.placement.devices.strategies import GpuBoard
from tests.helpers.drawn import seeds
from tests.processors.placement.devices import naive

RULES = {"pack": PACK, "fragmentation": FRAGMENTATION, "adaptive": ADAPTIVE}
MODELS = "a100", "h100", "t4"
LARGEST = 64_000, 262_144, 8_000


@pytest.fixture(scope="module")
def compiled_kernels() -> Kernels:
    pytest.importorskip("numba")
    from processors.runtime import kernel_cache

    return kernel_cache.load_of_cards()


@seeds(400, suite=12)
def test_numpy_chooses_as_a_look_at_every_host(seed):
    compare(seed, VECTORS)


@seeds(100, suite=3)
def test_the_loops_choose_the_same(seed):
    compare(seed, LOOPS, steps=12)


@seeds(1_000, suite=30)
def test_compiled_code_chooses_the_same(seed, compiled_kernels):
    compare(seed, compiled_kernels)


@seeds(50, suite=3)
def test_numpy_and_compiled_code_agree_while_a_cluster_fills_up(seed, compiled_kernels):
    draw = random.Random(seed)
    boards = [GpuBoard(60, VECTORS), GpuBoard(60, compiled_kernels)]
    for host in range(60):
        cards, model = [1000] * draw.choice((0, 1, 4, 8, 16)), draw.choice(MODELS)
        for board in boards:
            board.set_host(host, 64_000, 262_144, cards, model)
    mixes = [Mix(MixRow()), Mix(MixRow())]
    open_ = np.ones(60, dtype=np.bool_)
    for _ in range(400):
        task, rule = drawn_task(draw), draw.choice((FRAGMENTATION, ADAPTIVE))
        choices = []
        for board, mix in zip(boards, mixes, strict=True):
            if mix.is_due:
                board.refresh(mix)
            choice = board.best(task, rule, open_)
            if choice:
                board.put(task, choice.host, board.cards(task, choice))
            mix.seen(task)
            choices.append(choice)
        assert choices[0] == choices[1]
        assert mixes[0].row == mixes[1].row


def drawn_task(draw: random.Random) -> TaskShape:
    kind = draw.random()
    models = tuple(sorted(draw.sample(MODELS, draw.choice((0, 0, 1, 2)))))
    cpu, memory = draw.choice((0, 500, 4_000, 12_000)), draw.choice((0, 1_024, 30_000))
    if kind < 0.2:
        return TaskShape(cpu, memory)
    if kind < 0.6:
        return TaskShape(cpu, memory, 1, draw.choice((50, 250, 333, 500, 810)), models)
    return TaskShape(cpu, memory, draw.choice((1, 1, 1, 2, 4, 8)), 1000, models)


def compare(seed: int, kernels: Kernels, steps: int = 30) -> None:
    """Tasks come and go on a few hosts; each choice is compared."""
    draw = random.Random(seed)
    hosts = [drawn_host(draw) for _ in range(draw.randint(2, 9))]
    board = GpuBoard(len(hosts), kernels)
    for number, host in enumerate(hosts):
        board.set_host(number, host.cpu, host.memory, host.cards, host.model)
    board.weigh(*LARGEST)
    weight = [(1 << 40) // amount for amount in LARGEST]
    tasks = [drawn_task(draw) for _ in range(12)]
    mix = Mix(MixRow())
    placed = []
    for _ in range(steps):
        task = draw.choice(tasks)
        if mix.is_due:
            board.refresh(mix)
        offers = mix.offers()
        windows = [offers[at : at + WINDOW] for at in range(0, len(offers), WINDOW)]
        expected = naive.Expected(windows, mix.scarce(), mix.typical(), max(mix.row.typical_total, 1))
        open_ = [draw.random() < 0.8 for _ in hosts]
        choice = None
        for name, rule in RULES.items():
            choice = board.best(task, rule, np.array(open_))
            assert choice == naive.best(hosts, task, name, expected, open_, weight), name
        if choice:
            cards = board.cards(task, choice)
            board.put(task, choice.host, cards)
            hosts[choice.host] = hosts[choice.host].after(task, choice.card)
            placed.append((task, choice.host, cards))
        mix.seen(task)
        if placed and draw.random() < 0.3:
            gone, host, cards = placed.pop(draw.randrange(len(placed)))
            board.put(gone, host, cards, -1)
            state = hosts[host]
            state.cpu, state.memory = state.cpu + gone.cpu, state.memory + gone.memory
            for card in cards:
                state.cards[card] += gone.milli


def drawn_host(draw: random.Random) -> naive.State:
    cards = [1000] * draw.choice((0, 1, 2, 4, 8))
    return naive.State(draw.choice((8_000, 64_000)), draw.choice((65_536, 262_144)), cards, draw.choice(MODELS))


def test_a_change_of_a_host_is_a_change_of_its_version_alone():
    board = GpuBoard(3)
    for host in range(3):
        board.set_host(host, 8_000, 8_192, [1000, 1000], "t4")
    before = board.hosts.version.tolist()
    board.put(TaskShape(1_000, 1_024, 1, 400), 1, [0])
    after = board.hosts.version.tolist()
    assert after[1] > max(before)
    assert [after[0], after[2]] == [before[0], before[2]]
    assert board.hosts.cards[1, :2].tolist() == [600, 1000]


def test_two_halves_never_share_two_cards():
    board = GpuBoard(1)
    board.set_host(0, 8_000, 8_192, [500, 500], "t4")
    open_ = np.ones(1, dtype=np.bool_)
    assert board.best(TaskShape(0, 0, 1, 600), ADAPTIVE, open_) is None
    assert board.best(TaskShape(0, 0, 1, 500), ADAPTIVE, open_) == (0, 0)


def test_a_scarce_model_is_kept_for_those_that_need_it():
    """Tasks of any model go to the common one, where half of the others ask for the rare one."""
    board = GpuBoard(8)
    for host in range(8):
        board.set_host(host, 64_000, 65_536, [1000] * 4, "h100" if host < 2 else "t4")
    mix = Mix(MixRow())
    anything, rare = TaskShape(1_000, 1_024, 1, 1000), TaskShape(1_000, 1_024, 1, 1000, ("h100",))
    for _ in range(32):
        mix.seen(anything)
        mix.seen(rare)
    board.refresh(mix)
    choice = board.best(anything, ADAPTIVE, np.ones(8, dtype=np.bool_))
    assert choice is not None
    assert choice.host == 2


def test_choices_after_a_restart_are_those_without_one():
    """A board that is built from what is free, and a mix from its row, go on as those that were there all the time."""
    draw = random.Random(7)
    board, mix, open_ = GpuBoard(12), Mix(MixRow()), np.ones(12, dtype=np.bool_)
    for host in range(12):
        board.set_host(host, 64_000, 262_144, [1000] * 4, MODELS[host % 3])
    for step in range(60):
        if step % 7 == 0:
            h, fresh = board.hosts, GpuBoard(12)
            for host in reversed(range(12)):
                cards = h.cards[host, :4].tolist()
                fresh.set_host(host, int(h.cpu[host]), int(h.memory[host]), cards, MODELS[host % 3])
            again = Mix(mix.row)
            fresh.learn(again)
            task = drawn_task(draw)
            assert fresh.best(task, ADAPTIVE, open_) == board.best(task, ADAPTIVE, open_)
        task = drawn_task(draw)
        if mix.is_due:
            board.refresh(mix)
        choice = board.best(task, ADAPTIVE, open_)
        if choice:
            board.put(task, choice.host, board.cards(task, choice))
        mix.seen(task)


def test_no_host_is_none():
    assert GpuBoard(0).best(TaskShape(1, 1), ADAPTIVE, np.zeros(0, dtype=np.bool_)) is None
    assert GpuBoard(0, LOOPS).best(TaskShape(1, 1), PACK, np.zeros(0, dtype=np.bool_)) is None


def test_the_steps_of_fgd_are_those_of_its_logistic_curve():
    assert LOGITS.tolist() == [round(math.log(k / (100 - k)) * 10**6) for k in range(50, 100)]


def test_a_memory_of_states_that_is_full_begins_anew():
    worths = new_worths()
    for number in range(STATES):
        remember(worths, number, number)
    assert (worths.stamps == worths.numbers[0]).sum() <= STATES // 2 + 1
    assert worths.values.max() < NONE


def test_the_first_hosts_of_a_model_fill_up_and_the_last_ones_drain():
    board, open_ = GpuBoard(4), np.ones(4, dtype=np.bool_)
    for host, model in enumerate(("h100", "t4", "t4", "t4")):
        board.set_host(host, 64_000, 65_536, [1000] * 4, model)
    task = TaskShape(1_000, 1_024, 1, 1000, ("t4",))
    for expected in (1, 1, 1, 1, 2):
        choice = board.best(task, ADAPTIVE, open_)
        assert choice is not None
        assert choice.host == expected
        board.put(task, choice.host, board.cards(task, choice))
    assert (board.hosts.place[[0, 1]] == 0).all(), "the first of each model"
    board.put(task, 2, [0], -1)
    board.set_host(3, 64_000, 65_536, [0, 1000, 1000, 1000], "t4")
    choice = board.best(task, ADAPTIVE, open_)
    assert choice is not None
    assert choice.host == 2, "a card less free on a later one counts less"
