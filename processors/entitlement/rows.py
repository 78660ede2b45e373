"""The rows of entitlement's tables, and arithmetic on amounts: four integers, CPU, memory, disk, GPU."""

from collections.abc import Sequence

import msgspec

from events.records.parts import Amounts

Amount4 = tuple[int, int, int, int]
NOTHING: Amount4 = (0, 0, 0, 0)
NO_LIMIT: Amount4 = (-1, -1, -1, -1)


def four(amounts: Amounts) -> Amount4:
    """An amount of a record."""
    return amounts.cpu_milli, amounts.memory_mib, amounts.disk_mib, amounts.gpu_milli


def plus(a: Sequence[int], b: Sequence[int], times: int = 1) -> Amount4:
    """A + times * b."""
    return a[0] + times * b[0], a[1] + times * b[1], a[2] + times * b[2], a[3] + times * b[3]


def fits(need: Sequence[int], room: Sequence[int]) -> int:
    """How often `need` goes into `room`; bounded where nothing is needed."""
    return min((max(0, have) // want for want, have in zip(need, room, strict=True) if want > 0), default=1 << 40)


class PoolRow(msgspec.Struct, array_like=True):
    """A pool. `starving_ms` is since when it waits for others to leave, 0: it doesn't."""

    reservation: Amount4
    limit: Amount4
    share: Amount4
    command_id: str = ""
    open_jobs_max: int = 0
    open_tasks_max: int = 0
    starving_ms: int = 0


class SaidRow(msgspec.Struct, array_like=True):
    """What EntitlementsSet last said of a pool."""

    entitlement: Amount4 = NOTHING
    demand: Amount4 = NOTHING
    allocation: Amount4 = NOTHING


class JobRow(msgspec.Struct, array_like=True):
    """A job. `queued`, `held` count its tasks that wait and that hold; a job that waits for a time or for other hosts
    has `not_before_ms` or `wait_version` (the version of the hosts plus one) set.
    """

    number: int
    base: int
    instances: int
    pool: str
    need: Amount4
    priority: int
    preemptible: bool
    gang_min: int
    queued: int = 0
    held: int = 0
    not_before_ms: int = 0
    wait_version: int = 0
    returned: str = ""
    said: str = ""
    """The code of the last GangsHeld."""
    ended: bool = False


class CellRow(msgspec.Struct, array_like=True):
    """The cell: what its hosts have together, and the settings that entitlement decides by."""

    capacity: Amount4 = NOTHING
    version: int = 0
    hosts: int = 0
    preemption_delay_ms: int = 2_000
    said_ms: int = 0
    """When EntitlementsSet was said last."""


class AskRow(msgspec.Struct, array_like=True):
    """A fact about pools that waits for its answer."""

    value: bytes
