"""Rules of requests for devices and cores of one host, the same in files, over HTTP and for facts in the log.

Amounts are in thousandths of a device and in MiB. A task has up to one device of a kind by a share, or several as a
whole; the memory that it asks for is of one card.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from events.bounds import WORD_MAX
from events.resources import GPU_MEMORY, STANDARD, amount_text, is_gpu

WITHIN: Final = ("link_group", "numa")
"""The parts of a host that may have to hold all devices and cores of a task."""
CORES_MAX: Final = 4096
"""The most whole cores of a task."""
MODELS_MAX: Final = 64
"""The most models of one kind that a job names."""
ALTERNATIVES_MAX: Final = 8
"""The most requests of a task of which it takes the first that finds a place."""
CORE: Final = "core/"
"""The beginning of the id of a whole core where records name it among devices; its number follows."""


class Models(Protocol):
    """The models of a kind that will do."""

    @property
    def kind(self) -> str: ...  # noqa: D102 - the class says it
    @property
    def models(self) -> Sequence[str]: ...  # noqa: D102 - the class says it


class Rules(Protocol):
    """The request of a task for devices, beside amounts."""

    @property
    def devices(self) -> Sequence[Models]: ...  # noqa: D102 - the class says it
    @property
    def devices_within(self) -> str: ...  # noqa: D102 - the class says it
    @property
    def cores(self) -> int: ...  # noqa: D102 - the class says it


def amounts_problem(amounts: Mapping[str, int]) -> tuple[str, str] | None:
    """The first amount of devices that no task can have: its name and a sentence; None: there is none."""
    for name, amount in amounts.items():
        if amount > 1000 and amount % 1000 and is_gpu(name):
            whole = amount // 1000
            text = f"is {amount_text(amount, STANDARD['gpu'])}; above one it must be whole, {whole} or {whole + 1}"
            return name, f"{text}: a task has a share of one device, or whole devices"
    if amounts.get(GPU_MEMORY) and amounts.get("gpu", 0) > 1000:
        return GPU_MEMORY, "is the memory of one card: leave it out with more than one gpu"
    return None


def rules_problem(rules: Rules, amounts: Mapping[str, int], revocable: bool) -> tuple[str, str] | None:
    """The first problem of what tasks that ask for these amounts ask of devices and cores: the field of
    `PlacementRules` and a sentence; None: there is none.
    """
    for each in rules.devices:
        if not amounts.get(each.kind) and not (each.kind == "gpu" and amounts.get(GPU_MEMORY)):
            return "devices", f"are for kinds that a task asks for, and it asks for no {each.kind[:80]}"
        if not 1 <= len(each.models) <= MODELS_MAX or not all(1 <= len(model) <= WORD_MAX for model in each.models):
            return "devices", f"have 1 to {MODELS_MAX} models of a kind, each of 1 to {WORD_MAX} characters"
    if len({each.kind for each in rules.devices}) < len(rules.devices):
        return "devices", "name a kind twice"
    if rules.devices_within not in ("", *WITHIN):
        return "devices_within", f"is {rules.devices_within[:40]!r}, it must be {' or '.join(WITHIN)}"
    if rules.devices_within == "link_group" and not _asks_devices(amounts):
        return "devices_within", "link_group is for tasks that ask for devices, such as gpu"
    if rules.devices_within and not rules.cores and not _asks_devices(amounts):
        return "devices_within", "is for tasks that ask for devices, such as gpu, or for cores"
    if not 0 <= rules.cores <= CORES_MAX:
        return "cores", f"is {rules.cores}, it must be 0 to {CORES_MAX}"
    if rules.cores and revocable:
        return "cores", "are for tasks that aren't revocable: CPU that is lent is nobody's own"
    if rules.cores and amounts.get("cpu", 0) != rules.cores * 1000:
        cpu = amount_text(amounts.get("cpu", 0), STANDARD["cpu"])
        return "cores", f"is {rules.cores}, and resources ask for {cpu} cpu: leave cpu out, or ask for as much"
    return None


def _asks_devices(amounts: Mapping[str, int]) -> bool:
    """Whether anything is asked for that may be a device."""
    return any(amount for name, amount in amounts.items() if name not in ("cpu", "memory", "disk"))
