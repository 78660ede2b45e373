"""Says in words which devices and cores a host lacks for a task: the best card, or the numbers of each group."""

from collections.abc import Sequence

from events.resources import Unit, amount_text
from processors.placement.devices.needs import ONE, DeviceNeed, KindNeed
from processors.placement.devices.states import Layout, State, groups_of, in_use, share_of

GROUPS_MAX = 8
"""So many groups are named."""


def lack_text(need: DeviceNeed, layout: Layout, state: State, ids: Sequence[str]) -> str:
    """Such as `card 7: 0 of 12GiB free`, or `node 0: 3, node 1: 3 of 5 cores`."""
    if need.within:
        return _of_groups(need, layout, state, ids)
    for each in need.kinds:
        whole = sum(_is_whole(layout, state, at) for at in _mine(each, layout))
        if whole < each.whole:
            return f"{whole} of {each.whole} whole {each.kind}{_models(each)}"
        if (each.share or each.memory) and (text := _best_card(each, layout, state, ids)):
            return text
    cores = state.cores.bit_count()
    return f"{cores} of {need.cores} cores" if cores < need.cores else "other devices"


def _mine(need: KindNeed, layout: Layout) -> list[int]:
    """The devices of a kind and its models that take tasks."""
    return [
        at
        for at, each in enumerate(layout.devices)
        if each.kind == need.kind and each.usable and (not need.models or each.model in need.models)
    ]


def _mine_in(need: KindNeed, layout: Layout, devices: Sequence[int]) -> list[int]:
    return [at for at in _mine(need, layout) if at in devices]


def _is_whole(layout: Layout, state: State, at: int) -> bool:
    device = layout.devices[at]
    return state.room[at] == (ONE, device.memory) and not in_use(layout, state) & device.clashes


def _best_card(need: KindNeed, layout: Layout, state: State, ids: Sequence[str]) -> str:
    """The card with most left of what is asked, and how much that is; empty: it has enough."""
    mine = _mine(need, layout)
    if not mine:
        return f"no {need.kind}{_models(need)}"
    by_memory = bool(need.memory)
    best = max(mine, key=lambda at: (state.room[at][by_memory], at))
    share, memory = share_of(layout.devices[best], need)
    if by_memory and state.room[best][1] < (memory or need.memory):
        return f"card {ids[best]}: {_size(state.room[best][1])} of {_size(need.memory)} free"
    if state.room[best][0] < share:
        return f"card {ids[best]}: {_part(state.room[best][0])} of {_part(share)} free"
    return ""


def _of_groups(need: DeviceNeed, layout: Layout, state: State, ids: Sequence[str]) -> str:
    """Counts in each group all that a task needs; a group that has no such device or core isn't named."""
    wants = [(each.kind, each.whole or 1) for each in need.kinds] + [("cores", need.cores)] * bool(need.cores)
    texts = []
    for name, devices, cores in groups_of(need.within, layout):
        if not any(_mine_in(each, layout, devices) for each in need.kinds) and not (need.cores and cores):
            continue
        counts = []
        for each in need.kinds:
            mine = _mine_in(each, layout, devices)
            fitting = [
                at for at in mine if each.whole or state.room[at][0] >= share_of(layout.devices[at], each)[0] > 0
            ]
            counts.append(sum(_is_whole(layout, state, at) for at in mine) if each.whole else len(fitting))
        if need.cores:
            counts.append(sum(state.cores >> core & 1 for core in cores))
        had = zip(counts, wants, strict=True)
        text = f"{counts[0]}" if len(counts) == 1 else " and ".join(f"{count} {kind}" for count, (kind, _) in had)
        texts.append(f"{f'card {ids[devices[0]]}' if name.startswith('device') else name}: {text}")
    target = " and ".join(f"{count} {kind}" for kind, count in wants)
    more = f", {len(texts) - GROUPS_MAX} more" if len(texts) > GROUPS_MAX else ""
    return (", ".join(texts[:GROUPS_MAX]) + more + " of " if texts else "none of ") + target


def _models(need: KindNeed) -> str:
    return f" ({' or '.join(need.models)})" if need.models else ""


def _size(amount: int) -> str:
    return amount_text(amount, Unit.MIB) if amount else "0"


def _part(amount: int) -> str:
    return amount_text(amount, Unit.MILLI)
