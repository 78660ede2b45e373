"""Amounts of resources: by name in records, as vectors of integers where they are computed with (decision 025).

Records hold a map from the name of a resource to its amount, in thousandths of a CPU, device or licence, or in MiB of
a size; an amount of 0 is left out. A cell knows cpu, memory, disk and gpu, and the kinds that its CellConfigured facts
have added since. Their order never changes, so a vector stays true when a kind is added: `Kinds.widened` appends to it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from enum import StrEnum
from itertools import repeat
from operator import add as add_
from operator import sub
from typing import Final, Protocol, TypeVar

from events.bounds import AMOUNT_MAX, KINDS_MAX
from events.codes import Code

Amounts = dict[str, int]
"""Amounts by name, as records hold them: thousandths or MiB, those that are 0 left out."""
Vector = tuple[int, ...]
"""An amount of each kind of a cell, in the order of its `Kinds`."""

LONG_MAX: Final = (1 << 63) - 1
LONG_MIN: Final = -LONG_MAX - 1
UNBOUNDED: Final = 1 << 40
"""The number of times that a need of nothing fits."""
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}(/[a-z0-9][a-z0-9._-]{0,62})?")
RESERVED: Final = ("ports", "others")
"""Names that mean something else where resources are named."""


class Unit(StrEnum):
    """The unit of the amounts of a kind."""

    MILLI = "milli"
    """Thousandths of a CPU, a device, a licence; written as a number: 1.5."""
    MIB = "MiB"
    """Mebibytes; written as a size: 4GiB."""


WRITTEN: Final = {Unit.MILLI: "a number, such as 1.5", Unit.MIB: "a size, such as 4GiB"}
"""The notation of amounts in each unit, for users."""

REVOCABLE: Final = "cpu/revocable"
"""The kind of CPU that is reserved on hosts and unused there; a cell has it from when slack is first on. Revocable
tasks need it in place of CPU.
"""
GPU: Final = "gpu"
"""The kind that counts whole cards, or thousandths of one; cards by model and parts of cards are kinds below it."""
GPU_MEMORY: Final = "gpu_memory"
"""The kind that counts the memory of cards: what a task asks of it is of one card."""
STANDARD: Final[dict[str, Unit]] = {"cpu": Unit.MILLI, "memory": Unit.MIB, "disk": Unit.MIB, "gpu": Unit.MILLI}
"""The kinds that every cell knows, in this order."""


def is_gpu(kind: str) -> bool:
    """Whether devices of a kind are GPUs, or parts of GPUs."""
    return kind == GPU or kind.startswith(f"{GPU}/")


def amount_text(value: int, unit: Unit | None) -> str:
    """An amount as users write it, without floats; None: its unit isn't known."""
    if unit is None:
        return f"{value} (thousandths or MiB)"
    if unit is Unit.MILLI:
        whole, rest = divmod(abs(value), 1000)
        return "-" * (value < 0) + f"{whole}.{rest:03}".rstrip("0").rstrip(".")
    for name, factor in (("TiB", 1 << 20), ("GiB", 1 << 10)):
        if value and value % factor == 0:
            return f"{value // factor}{name}"
    return f"{value}MiB"


class UnknownResource(ValueError):
    """A name that isn't one of the kinds of a cell."""

    def __init__(self, names: Sequence[str], kinds: Sequence[str]) -> None:
        listed = ", ".join(repr(name[:127]) + hint_of(name, kinds) for name in names)
        add = f"; paceline cell set --resource {GPU_MEMORY}=MiB adds it" if GPU_MEMORY in names else ""
        super().__init__(f"unknown resource {listed}; the cell has {', '.join(kinds)}{add}")
        self.names = tuple(names)


class KindDefinition(Protocol):
    """A kind that a CellConfigured adds; `amount`: what the whole cell has of a licence, None: what hosts offer."""

    @property
    def name(self) -> str: ...  # noqa: D102 - the class says it
    @property
    def unit(self) -> str: ...  # noqa: D102 - the class says it
    @property
    def amount(self) -> int | None: ...  # noqa: D102 - the class says it


K = TypeVar("K", bound=KindDefinition)


class Kinds:
    """The kinds of a cell: `names` in the order of vectors, the unit of each, the amounts of licences."""

    def __init__(self, added: Iterable[KindDefinition] = ()) -> None:
        added = tuple(added)
        self.units: dict[str, Unit] = STANDARD | {kind.name: Unit(kind.unit) for kind in added}
        self.names: tuple[str, ...] = tuple(self.units)
        self.licences: dict[str, int] = {kind.name: kind.amount for kind in added if kind.amount is not None}
        self._names = frozenset(self.names)
        self.revocable = self.names.index(REVOCABLE) if REVOCABLE in self._names else -1
        """The place of `REVOCABLE`; -1: the cell doesn't know it."""

    def __len__(self) -> int:
        return len(self.names)

    def unknown(self, names: Iterable[str]) -> list[str]:
        """The names that aren't kinds of the cell, sorted."""
        return sorted({*names} - self._names)

    def vector(self, amounts: Mapping[str, int], default: int = 0) -> Vector:
        """The vector of a record's amounts; `default` is what those have that it leaves out. Raises `UnknownResource`,
        and `OverflowError` where an amount has more than 64 bits.
        """
        if not amounts.keys() <= self._names:
            raise UnknownResource(self.unknown(amounts), self.names)
        return _checked(tuple(map(amounts.get, self.names, repeat(default))))

    def asked_of_host(self, amounts: Mapping[str, int]) -> Vector:
        """The vector of what a task needs on its host: licences, and kinds that the cell doesn't know, don't count."""
        return _checked(tuple([0 if name in self.licences else amounts.get(name, 0) for name in self.names]))

    def offered(self, amounts: Mapping[str, int], sizes: Sequence[str]) -> Vector:
        """The vector of what a host offers, of which `sizes` are in MiB beside memory and disk; what is `ignored`
        doesn't count.
        """
        ignored = self.ignored(amounts, sizes)
        return _checked(tuple([0 if name in ignored else amounts.get(name, 0) for name in self.names]))

    def ignored(self, amounts: Mapping[str, int], sizes: Sequence[str]) -> dict[str, Code]:
        """The kinds that a host offers without effect, and why: UNKNOWN_RESOURCE, LICENCE or WRONG_UNIT."""
        codes: dict[str, Code] = {}
        for name in amounts:
            if name not in self.units:
                codes[name] = Code.UNKNOWN_RESOURCE
            elif name in self.licences:
                codes[name] = Code.LICENCE
            elif (name in sizes or STANDARD.get(name) is Unit.MIB) != (self.units[name] is Unit.MIB):
                codes[name] = Code.WRONG_UNIT
        return codes

    def amounts(self, vector: Sequence[int], default: int = 0) -> dict[str, int]:
        """A vector as records hold it, in the order of the kinds; amounts equal to `default` are left out."""
        return {name: value for name, value in zip(self.names, vector, strict=True) if value != default}

    def is_revocable(self, need: Sequence[int]) -> bool:
        """Whether tasks that need so much are revocable."""
        return self.revocable >= 0 and need[self.revocable] > 0

    def widened(self, vector: Vector, default: int = 0) -> Vector:
        """A vector that was made when the cell had fewer kinds; of those added since it has `default`."""
        return vector + (default,) * (len(self.names) - len(vector))


STANDARD_KINDS: Final = Kinds()
"""Those of a cell that no kind was added to."""


def hint_of(name: str, names: Sequence[str]) -> str:
    """A question in brackets, for whom a name may be a typing error of one that is known; empty: of none."""
    near = get_close_matches(name, names, n=1, cutoff=0.7)
    return f" (did you mean {near[0]}?)" if near else ""


def name_fault(name: str) -> str:
    """Why a kind can't be called so; empty: it can."""
    if name in RESERVED:
        return f"{name} is a reserved name"
    return "" if NAME.fullmatch(name) else f"{name[:127]!r} is no name of a resource; one looks like gpu/a100"


def typo_of(name: str) -> str:
    """The one of the four of which a name is a typo, so that no other kind may have it; empty: none."""
    near = get_close_matches(name, STANDARD, n=1, cutoff=0.8) if name not in STANDARD else ()
    return near[0] if near else ""


def kinds_fault(kinds: Sequence[KindDefinition], added: Sequence[KindDefinition]) -> str:
    """Why kinds can't be added to those that were added before; empty: they can. A name that is known already may come
    again, with the same unit, and as a licence with another amount.
    """
    before = {kind.name: kind for kind in kinds}
    names = [kind.name for kind in added]
    for kind in added:
        name, old = kind.name, before.get(kind.name)
        if fault := name_fault(name):
            return fault
        if name in STANDARD:
            return f"{name} is always there, it can't be defined"
        if name == REVOCABLE:
            return f"{name} is a reserved name: slack=on adds it"
        if near := typo_of(name):
            return f"{name} is too close to {near}, choose a name that nobody takes for a typing error"
        if names.count(name) > 1:
            return f"{name} is defined more than once"
        if kind.unit not in [*Unit]:
            return f"the unit of {name} is {kind.unit[:40]!r}, it must be {' or '.join(Unit)}"
        if kind.amount is not None and not 0 <= kind.amount <= AMOUNT_MAX:
            amount_as_text, most = (amount_text(amount, Unit(kind.unit)) for amount in (kind.amount, AMOUNT_MAX))
            return f"the amount of {name} is {amount_as_text}, it must be 0 to {most}"
        if old is not None and old.unit != kind.unit:
            was, new = (WRITTEN[Unit(each.unit)] for each in (old, kind))
            return f"{name} is written as {was}, that can't become {new}"
        if old is not None and (old.amount is None) != (kind.amount is None):
            return f"{name} is {'offered by hosts' if old.amount is None else 'a licence'}, that can't change"
    count = len(STANDARD) + len({*before, *names})
    return f"the cell would know {count} resources, at most {KINDS_MAX} are allowed" if count > KINDS_MAX else ""


def with_added(kinds: Sequence[K], added: Sequence[K]) -> tuple[K, ...]:
    """The kinds of a cell after some were added: those known before keep their places."""
    return tuple(({kind.name: kind for kind in kinds} | {kind.name: kind for kind in added}).values())


def amounts_fault(amounts: Mapping[str, int], units: Mapping[str, Unit] = STANDARD) -> str:
    """Why a map can't be amounts of any cell; empty: it can. `units`: those that are known."""
    if fault := names_fault(amounts):
        return fault
    for name, amount in amounts.items():
        if not 0 <= amount <= AMOUNT_MAX:
            amount_as_text, least, most = (amount_text(each, units.get(name)) for each in (amount, 0, AMOUNT_MAX))
            return f"{name} is {amount_as_text}, it must be {least} to {most}"
    return ""


def names_fault(amounts: Mapping[str, int]) -> str:
    """Why the names of a map can't be those of resources; empty: they can."""
    if len(amounts) > KINDS_MAX:
        return f"{len(amounts)} resources are named, at most {KINDS_MAX} are allowed"
    return next(filter(None, map(name_fault, amounts)), "")


def in_order(amounts: Mapping[str, int]) -> dict[str, int]:
    """Amounts as records hold them where the kinds of the cell don't matter: the four, then others by name, zeros left
    out.
    """
    names = [name for name in STANDARD if name in amounts] + sorted(amounts.keys() - STANDARD.keys())
    return {name: amounts[name] for name in names if amounts[name]}


def of_slack(amounts: Mapping[str, int]) -> Amounts:
    """The amounts that a revocable task asks of its pool and host: it has its CPU of the slack."""
    return {REVOCABLE if name == "cpu" else name: amount for name, amount in amounts.items()}


def add(a: Vector, b: Vector, times: int = 1) -> Vector:
    """A + times * b. Raises `OverflowError` beyond 64 bits, `ValueError` where they are of different kinds."""
    if len(a) != len(b):
        raise _other_kinds(a, b)
    total = tuple(map(add_, a, b if times == 1 else [times * each for each in b]))
    for amount in total:  # in place: a call of `_checked`, or max and min, cost a fifth more
        if not LONG_MIN <= amount <= LONG_MAX:
            raise _overflow(total)
    return total


def total(vectors: Sequence[Vector]) -> Vector:
    """The sum of vectors, one at least. Raises as `add`."""
    if len(vectors) == 1:
        return vectors[0]
    sums = tuple(map(sum, zip(*vectors, strict=True)))
    for amount in sums:  # in place, as there
        if not LONG_MIN <= amount <= LONG_MAX:
            raise _overflow(sums)
    return sums


def subtract(a: Vector, b: Vector) -> Vector:
    """A - b. Raises as `add`."""
    if len(a) != len(b):
        raise _other_kinds(a, b)
    rest = tuple(map(sub, a, b))
    for amount in rest:  # in place: a call of `_checked`, or max and min, cost a fifth more
        if not LONG_MIN <= amount <= LONG_MAX:
            raise _overflow(rest)
    return rest


def positive(a: Vector) -> Vector:
    """A, with 0 for what is below."""
    return tuple([max(0, each) for each in a])


def scale(a: Vector, times: int) -> Vector:
    """Times * a. Raises `OverflowError` beyond 64 bits."""
    if times == 1:
        return a
    total = tuple([times * each for each in a])
    for amount in total:  # in place: a call of `_checked`, or max and min, cost a fifth more
        if not LONG_MIN <= amount <= LONG_MAX:
            raise _overflow(total)
    return total


def fits(need: Vector, room: Vector) -> int:
    """The number of times that `need` fits into `room`; `UNBOUNDED` where nothing is needed. Raises `ValueError` as
    `add`.
    """
    if len(need) != len(room):
        raise _other_kinds(need, room)
    times = UNBOUNDED
    for want, have in zip(need, room, strict=True):
        if want > 0 and have < times * want:
            times = have // want
    return times if times > 0 else 0


def _other_kinds(a: Vector, b: Vector) -> ValueError:
    return ValueError(f"amounts of {len(a)} and {len(b)} kinds")


def _checked(vector: Vector) -> Vector:
    for amount in vector:
        if not LONG_MIN <= amount <= LONG_MAX:
            raise _overflow(vector)
    return vector


def _overflow(vector: Vector) -> OverflowError:
    return OverflowError(f"an amount has more than 64 bits: {vector}")
