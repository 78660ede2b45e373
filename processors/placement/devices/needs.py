"""The devices and cores that a task asks, beside the amounts that its host must have."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from events.resources import GPU, GPU_MEMORY, is_gpu
from processors.state.record_rows import RulesRow

ONE = 1000
"""Thousandths of a whole device."""


class KindNeed(NamedTuple):
    """The devices of one kind that a task asks."""

    kind: str
    whole: int
    """So many that nobody else has any of."""
    share: int = 0
    """Thousandths of one more; 0: none, or only its memory."""
    memory: int = 0
    """MiB of that one; 0: as much of its memory as of itself."""
    models: tuple[str, ...] = ()
    """Any of these will do; empty: any."""


class DeviceNeed(NamedTuple):
    """All devices and cores that a task asks."""

    kinds: tuple[KindNeed, ...]
    within: str = ""
    """`link_group` or `numa`: all are in one; empty: they need not be."""
    cores: int = 0
    """Whole cores."""
    group: str = ""
    """The link group of which all cards are, as `link_group_of` names it; empty: any."""

    @property
    def is_share(self) -> bool:
        """Whether it is a part of one card and nothing else."""
        return not self.cores and not any(each.whole for each in self.kinds)


def device_need(
    names: Sequence[str], need: Sequence[int], rules: RulesRow | None, kinds: Collection[str]
) -> DeviceNeed | None:
    """The devices that a task of a shape asks, by what it needs of each kind; None: it asks none. `kinds`: those of
    which hosts have devices, beside GPUs.
    """
    cores, within = (rules.cores, rules.devices_within) if rules is not None else (0, "")
    models = {each.kind: each.models for each in rules.devices} if rules is not None else {}
    wants: list[KindNeed] = []
    memory = 0
    for name, amount in zip(names, need, strict=True):
        if not amount:
            continue
        if name == GPU_MEMORY:
            memory = amount
        elif is_gpu(name) or name in kinds:
            wants.append(KindNeed(name, *divmod(amount, ONE), models=models.get(name, ())))
    if memory:
        card = next((at for at, each in enumerate(wants) if is_gpu(each.kind) and each.share), None)
        if card is None:
            wants.append(KindNeed(GPU, 0, 0, memory, models.get(GPU, ())))
        else:
            wants[card] = wants[card]._replace(memory=memory)
    if not wants and not cores:
        return None
    wants.sort(key=lambda each: -each.whole)
    return DeviceNeed(tuple(wants), within, cores)
