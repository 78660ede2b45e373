"""What a task takes of a state, beside a twin that tries every choice of devices."""

from itertools import combinations, product

from hypothesis import given, settings
from hypothesis import strategies as st

from processors.placement.devices.needs import ONE, DeviceNeed, KindNeed
from processors.placement.devices.states import Device, Layout, State, States, Taken, groups_of, share_of, untouched

KINDS = ("gpu", "gpu/3g", "nic")


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Up to six devices; a few exclude each other."""
    count = draw(st.integers(0, 6))
    pairs = draw(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=4))
    clashes = [0] * count
    for one, other in pairs:
        if one != other and max(one, other) < count:
            clashes[one] |= 1 << other
            clashes[other] |= 1 << one
    devices = tuple(
        Device(
            draw(st.sampled_from(KINDS)),
            draw(st.sampled_from(("", "a", "b"))),
            draw(st.sampled_from((0, 10, 24))),
            draw(st.integers(-1, 1)),
            draw(st.sampled_from(("", "x", "y"))),
            usable=draw(st.booleans()) or draw(st.booleans()),
            clashes=mask,
        )
        for mask in clashes
    )
    return Layout(devices, tuple(draw(st.lists(st.integers(0, 1), max_size=5))))


@st.composite
def needs(draw: st.DrawFn) -> DeviceNeed:
    kind = draw(st.sampled_from(KINDS))
    whole = draw(st.integers(0, 3))
    share = draw(st.sampled_from((0, 0, 300, 500, 999)))
    memory = draw(st.sampled_from((0, 5, 12))) if not whole else 0
    models = draw(st.sampled_from(((), ("a",), ("a", "b"))))
    asked = (KindNeed(kind, whole, share, memory, models),) if whole or share or memory else ()
    cores = draw(st.integers(0 if asked else 1, 3))
    return DeviceNeed(asked, draw(st.sampled_from(("", "numa", "link_group"))), cores)


def may(layout: Layout, state: State, need: DeviceNeed, taken: Taken) -> bool:
    """Whether a task may take just this: said anew, without a word of how it is found."""
    used = {at for at, left in enumerate(state.room) if left != (layout.devices[at].share, layout.devices[at].memory)}
    mine = {at for at, _, _ in taken.devices}
    clash = any(layout.devices[at].clashes >> other & 1 for at in mine for other in used | mine)
    fits = all(
        share <= state.room[at][0] and memory <= state.room[at][1] and layout.devices[at].usable
        for at, share, memory in taken.devices
    )
    free = all(state.cores >> core & 1 for core in taken.cores)
    together = any(
        mine <= {*devices} and {*taken.cores} <= {*cores} for _, devices, cores in groups_of(need.within, layout)
    ) or (not mine and not taken.cores)
    asked = need.kinds[0] if need.kinds else None
    if asked is not None:
        right = [at for at in mine if layout.devices[at].kind == asked.kind]
        fits &= len(right) == len(mine) and all(
            not asked.models or layout.devices[at].model in asked.models for at in mine
        )
    return not clash and fits and free and together and len(taken.cores) == need.cores


def every(layout: Layout, state: State, need: DeviceNeed) -> list[Taken]:
    """All that a task may take."""
    found = []
    asked = need.kinds[0] if need.kinds else None
    count = (asked.whole + bool(asked.share or asked.memory)) if asked else 0
    for places in combinations(range(len(layout.devices)), count):
        for shared in places if asked and (asked.share or asked.memory) else (None,):
            devices = tuple(
                (at, *share_of(layout.devices[at], asked))
                if at == shared and asked
                else (at, ONE, layout.devices[at].memory)
                for at in places
            )
            if any(not share for _, share, _ in devices):
                continue
            for cores in combinations(range(len(layout.cores)), need.cores):
                taken = Taken(devices, cores)
                if may(layout, state, need, taken):
                    found.append(taken)
    return found


@settings(max_examples=400, deadline=None)
@given(layouts(), st.lists(needs(), min_size=1, max_size=5))
def test_a_task_finds_devices_where_there_are_some(layout: Layout, asked: list[DeviceNeed]) -> None:
    states = States()
    number = states.number(untouched(states.layout(layout), layout))
    before, given_back = number, []
    for need in asked:
        state, taken = states.state(number), states.choice(need, number)
        choices = every(layout, state, need)
        if taken is None:
            assert not choices, (state, need, choices)
            continue
        assert any(sorted(taken.devices) == sorted(each.devices) for each in choices), (state, need, taken)
        assert may(layout, state, need, taken)
        number = states.after(number, taken)
        given_back.append(taken)
    for taken in given_back:
        number = states.after(number, taken, -1)
    assert number == before


@settings(max_examples=400, deadline=None)
@given(layouts(), needs(), needs())
def test_what_is_claimed_is_free_itself_and_fits_once_all_others_are_gone(
    layout: Layout, other: DeviceNeed, need: DeviceNeed
) -> None:
    states = States()
    empty = states.number(untouched(states.layout(layout), layout))
    taken = states.choice(other, empty)
    number = states.after(empty, taken) if taken is not None else empty
    claim = states.claim(need, number)
    if (choice := states.choice(need, number)) is not None:
        assert claim == choice, "nothing is claimed that waits where something is free"
        return
    if claim is None:
        alone = layout._replace(devices=tuple(each._replace(clashes=0) for each in layout.devices))
        free = states.state(number)
        assert not any(may(layout, states.state(empty), need, each) for each in every(alone, free, need)), free
        return
    assert may(layout, states.state(empty), need, claim)
    assert states.after(states.after(number, claim), claim, -1) == number


def test_a_share_goes_to_the_fullest_card_and_whole_ones_stay_in_one_link_group() -> None:
    cards = tuple(Device("gpu", group=group) for group in "aabbbb")
    states = States()
    number = states.number(untouched(states.layout(Layout(cards)), Layout(cards)))
    half, two = DeviceNeed((KindNeed("gpu", 0, 500),)), DeviceNeed((KindNeed("gpu", 2),))
    for need, places in ((half, [0]), (half, [0]), (two, [2, 3]), (two, [4, 5]), (half, [1])):
        taken = states.choice(need, number)
        assert taken is not None
        assert [at for at, _, _ in taken.devices] == places
        number = states.after(number, taken)
    assert states.choice(two, number) is None


def test_equal_states_have_one_number() -> None:
    layout = Layout((Device("gpu"), Device("gpu")))
    states = States()
    first = states.number(untouched(states.layout(layout), layout))
    for share, place in product((500, 500), (0, 0)):
        assert states.after(first, Taken(((place, share, 0),))) == states.after(first, Taken(((place, share, 0),)))
