"""Whether a job has an SLA, and how many of its instances that lets be unavailable on purpose.

What a number of instances and a percentage say together is said here alone: lifecycle, sla, placement and the views go
by it.
"""

from typing import NamedTuple, Protocol

from events.words import plural

GROUP_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,127}$"
"""The names of groups of jobs that share a budget."""


SLA_GROUP = "sla-group:"
"""Before the name of a group where answers name a job."""


class Bounded(Protocol):
    """The bounds of a job or a group, as records and rows have them."""

    @property
    def max_unavailable_percent(self) -> int | None:
        """So much percent of the instances may be unavailable."""

    @property
    def min_available(self) -> int | None:
        """So many must be available."""

    @property
    def min_available_percent(self) -> int | None:
        """So much percent must be available."""


class Policy(Bounded, Protocol):
    """An SLA beyond `max_unavailable`, as records and rows have it."""

    @property
    def per_hour(self) -> int | None:
        """So many may be disrupted in an hour for others."""

    @property
    def per_hour_percent(self) -> int | None:
        """So much percent of the instances may be."""

    @property
    def replace(self) -> str:
        """before: the next instance is up first."""


class Bounds(NamedTuple):
    """The bounds of the availability of a job or a group. None: no such bound."""

    max_unavailable: int | None = None
    max_unavailable_percent: int | None = None
    min_available: int | None = None
    min_available_percent: int | None = None

    @classmethod
    def of(cls, max_unavailable: int | None, more: Bounded | None) -> "Bounds":
        """Those of a job by its number and its policy, or of a group, which has both in one."""
        if more is None:
            return cls(max_unavailable)
        return cls(max_unavailable, more.max_unavailable_percent, more.min_available, more.min_available_percent)

    def words(self) -> str:
        """The bounds as users write them: max_unavailable 2, min_available 90%."""
        texts = (
            f"{name.removesuffix('_percent')} {value}{'%' * name.endswith('percent')}"
            for name, value in zip(self._fields, self, strict=True)
            if value is not None
        )
        return ", ".join(texts)

    def limit(self, instances: int) -> int:
        """The number of wanted instances that may be unavailable on purpose. The strictest bound holds. A
        percentage that may be unavailable is rounded down, but to 1 at least; one that must be available is rounded up.
        """
        most = instances
        if self.max_unavailable is not None:
            most = min(most, self.max_unavailable)
        if self.max_unavailable_percent is not None:
            most = min(most, part_of(self.max_unavailable_percent, instances))
        if self.min_available is not None:
            most = min(most, instances - self.min_available)
        if self.min_available_percent is not None:
            most = min(most, instances + (-self.min_available_percent * instances) // 100)
        return max(0, most)


def has_sla(max_unavailable: int | None, policy: Policy | None) -> bool:
    """Whether sla is asked before an instance of a job is disrupted on purpose."""
    return max_unavailable is not None or policy is not None


def limit(max_unavailable: int | None, policy: Policy | None, instances: int) -> int:
    """The number of wanted instances of a job that may be unavailable on purpose; all where it has no SLA."""
    if policy is None:
        return instances if max_unavailable is None else max(0, min(instances, max_unavailable))
    return Bounds.of(max_unavailable, policy).limit(instances)


def strictest(max_unavailable: int | None, policy: Policy | None, instances: int) -> str:
    """The bound of a job that lets the least go, in words: max_unavailable is 0, min_available is 90% of 3 instances;
    empty: there is none.
    """
    names = ("max_unavailable", "max_unavailable", "min_available", "min_available")
    bounds = Bounds.of(max_unavailable, policy)
    texts = [
        (Bounds()._replace(**{field: value}).limit(instances), f"{name} is {value}{'%' * field.endswith('percent')}")
        for name, field, value in zip(names, bounds._fields, bounds, strict=True)
        if value is not None
    ]
    text = min(texts, default=(0, ""), key=lambda each: each[0])[1]
    return f"{text} of {plural(instances, 'instance')}" if text and text != "max_unavailable is 0" else text


def hourly(policy: Policy | None, instances: int) -> int | None:
    """The number of wanted instances that may be disrupted in an hour for others; None: any number."""
    if policy is None or (policy.per_hour is None and policy.per_hour_percent is None):
        return None
    rates = [] if policy.per_hour is None else [policy.per_hour]
    if policy.per_hour_percent is not None:
        rates.append(part_of(policy.per_hour_percent, instances))
    return min(rates)


def replaces_first(policy: Policy | None) -> bool:
    """Whether the next instance is up before the one before it stops."""
    return policy is not None and policy.replace == "before"


def replace_fault(kind: str, fixed_port: bool) -> str:
    """Why no replacement of an instance of a kind is up before that stops; empty: one may be."""
    reasons = {
        "batch": "a task of a batch job is started over, not replaced",
        "stateful": "a stateful instance never runs twice, and its volumes are on one host",
        "daemon": "a daemon has one task on every host",
    }
    if why := reasons.get(kind, "a fixed port keeps two instances from one host" if fixed_port else ""):
        return f"before is for stateless jobs without fixed ports: {why}; leave `replace` out"
    return ""


def never_allows(max_unavailable: int | None, policy: Policy | None, instances: int) -> bool:
    """Whether no instance ever leaves on purpose, even when all are available."""
    if instances <= 0 or not has_sla(max_unavailable, policy):
        return False
    barred = not limit(max_unavailable, policy, instances) and not replaces_first(policy)
    return barred or hourly(policy, instances) == 0


def part_of(percent: int, instances: int) -> int:
    """So much percent of the wanted instances, rounded down, but to 1 at least where it is more than 0."""
    return max(min(percent, 1), percent * instances // 100)
