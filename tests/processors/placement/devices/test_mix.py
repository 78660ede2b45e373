"""The mix of tasks that placement learns: what it remembers, when it is refreshed, what it weighs."""

import msgspec

from processors.placement.devices.mix import COUNTED, RECENT, WINDOW, WINDOWS, Mix, MixRow, TaskShape

ONE, SHARE, PAIR = TaskShape(4_000, 1_024, 1, 1000), TaskShape(1_000, 512, 1, 300), TaskShape(8_000, 4_096, 2, 1000)
CPU = TaskShape(2_000, 512)


def refreshed(mix: Mix, rooms: dict[TaskShape, int] | None = None) -> Mix:
    mix.refresh(["t4"], lambda shapes: [(rooms or {}).get(shape, 8_000) for shape in shapes])
    return mix


def test_the_mix_is_taken_anew_often_at_first_and_then_every_512_arrivals():
    mix, at = Mix(MixRow()), []
    for arrived in range(1_600):
        if mix.is_due:
            at.append(arrived)
            refreshed(mix)
        mix.seen(ONE if arrived % 2 else CPU)
    assert at == [0, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1_024, 1_536]


def test_a_large_gang_is_counted_whole_and_the_mix_is_taken_anew_once():
    mix = refreshed(Mix(MixRow()))
    mix.seen(ONE, 10_000)
    assert mix.row.counts == [10_000]
    assert len(mix.row.recent) == 4 * RECENT
    assert mix.is_due
    assert not refreshed(mix).is_due


def test_windows_have_tasks_of_all_times_even_when_few_were_seen():
    mix = Mix(MixRow())
    for shape in (ONE, SHARE, PAIR) * 20:
        mix.seen(shape)
    offers = refreshed(mix).offers()
    assert len(offers) == WINDOWS * WINDOW
    windows = [tuple(offers[at : at + WINDOW]) for at in range(0, len(offers), WINDOW)]
    assert all({*window} == {ONE, SHARE, PAIR} for window in windows)
    assert len({*windows}) > WINDOWS // 2


def test_tasks_without_gpu_are_counted_but_not_remembered():
    mix = Mix(MixRow())
    mix.seen(CPU, 5)
    mix.seen(ONE)
    assert (mix.row.total, mix.row.arrived, mix.row.shapes, len(mix.row.recent)) == (6, 6, [ONE], 4)
    assert refreshed(mix).row.typical_total == 6


def test_cards_that_few_hosts_have_for_a_shape_weigh_by_their_scarcity_and_its_share():
    mix = Mix(MixRow())
    mix.seen(ONE, 3)
    mix.seen(SHARE, 6)
    mix.seen(PAIR)
    rooms = {ONE: 4_000, SHARE: 8_000, PAIR: 7_000}
    weights = dict(refreshed(mix, rooms).scarce())
    assert SHARE not in weights  # it could go anywhere
    assert weights[ONE] == 3 * ((8 << 16) // 4 - (1 << 16) - (1 << 16) // 5) * 16 // 11
    assert weights[PAIR] == 1 * ((8 << 16) // 7 - (1 << 16)) * 16 // 11


def test_a_shape_within_a_fifth_weighs_nothing_and_one_without_any_room_most():
    mix = Mix(MixRow())
    mix.seen(ONE)
    mix.seen(SHARE)
    weights = dict(refreshed(mix, {ONE: 0, SHARE: 7_000}).scarce())
    assert weights == {ONE: ((1_000 << 16) - (1 << 16) - (1 << 16) // 5) * 16 // 3}


def test_typical_shapes_are_the_commonest_that_make_up_95_percent():
    mix = Mix(MixRow())
    for shape, count in ((ONE, 60), (SHARE, 36), (PAIR, 4)):
        mix.seen(shape, count)
    mix.seen(CPU, 10)
    assert refreshed(mix).typical() == [(ONE, 60), (SHARE, 36)]
    assert mix.row.typical_total == 106


def test_counts_are_halved_and_what_comes_no_more_is_forgotten():
    mix = Mix(MixRow())
    mix.seen(PAIR)
    mix.seen(SHARE, RECENT)
    refreshed(mix)
    mix.seen(CPU, COUNTED - RECENT - 1)
    assert mix.row.shapes == [SHARE]
    assert mix.row.counts == [RECENT // 2]
    assert mix.row.total == COUNTED // 2
    assert {*mix.offers()} == {SHARE}
    mix.seen(ONE)
    assert mix.row.shapes == [SHARE, ONE]
    assert refreshed(mix).typical() == [(SHARE, RECENT // 2)]


def test_a_row_that_was_written_and_read_goes_on_where_it_was():
    mix = Mix(MixRow())
    for shape in (ONE, SHARE, PAIR, CPU) * 10:
        mix.seen(shape)
    refreshed(mix)
    again = Mix(msgspec.msgpack.decode(msgspec.msgpack.encode(mix.row), type=MixRow))
    assert again.row == mix.row
    for each in (mix, again):
        each.seen(PAIR)
        refreshed(each)
    assert again.row == mix.row
