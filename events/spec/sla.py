"""The SLA of a job as users write it."""

import datetime
import re
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, StringConstraints, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from events.bounds import INSTANCES_MAX, WINDOWS_MAX
from events.quantities import Milliseconds, WindowMilliseconds, write_ms
from events.records.jobs import SlaGroupDefined
from events.records.parts import SlaPolicy, SlaWindow, ZoneOffsets
from events.schedules import SCHEDULE_MAX, schedule_fault
from events.sla import GROUP_PATTERN, replace_fault
from events.spec.parts import Spec, at
from events.spec.ports import port_numbers
from events.time_zones import UnknownZone, offsets_of

UTC = "UTC"
_PERCENT = re.compile(r"([0-9]{1,3})%")
_PART_TEXT = 'a number of instances, or a percentage of them such as "25%"'


def _part(value: Any) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= INSTANCES_MAX:
        return value
    percent = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if percent and int(percent[1]) <= 100:
        return f"{int(percent[1])}%"
    raise PydanticCustomError(
        "part", "must be {what}, 0 to {most} or 0% to 100%", {"what": _PART_TEXT, "most": INSTANCES_MAX}
    )


Part = Annotated[
    int | str,
    PlainValidator(_part),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": INSTANCES_MAX},
                {"type": "string", "pattern": "^[0-9]{1,3}%$"},
            ],
            "description": _PART_TEXT,
        }
    ),
]
"""Instances by number, or a percentage of the wanted ones, which is text."""


def number(part: int | str | None) -> int | None:
    """The number of instances; None: it isn't said, or as a percentage."""
    return part if isinstance(part, int) else None


def percent(part: int | str | None) -> int | None:
    """The percentage; None: it isn't said, or as a number."""
    return int(part[:-1]) if isinstance(part, str) else None


def write_part(instances: int | None, of_all: int | None) -> int | str | None:
    """A number, or a percentage, as users write them; None: there is neither."""
    return instances if of_all is None else f"{of_all}%"


class GroupBounds(Spec):
    """The bounds of a budget that jobs share. Percentages are of the wanted instances of all of them."""

    max_unavailable: Part | None = Field(
        default=None, description="Instances that may be unavailable on purpose; a percentage is rounded down."
    )
    min_available: Part | None = Field(
        default=None, description="Instances that must stay available; a percentage is rounded up."
    )

    @model_validator(mode="after")
    def _bounds(self) -> "GroupBounds":
        if self.max_unavailable is None and self.min_available is None:
            raise at("max_unavailable", "is missing, and so is min_available: a group has one of them", None)
        return self

    def to_event(self, group: str, command_id: str, reason: str = "") -> SlaGroupDefined:
        """The fact about a group."""
        return SlaGroupDefined(
            group=group,
            command_id=command_id,
            max_unavailable=number(self.max_unavailable),
            max_unavailable_percent=percent(self.max_unavailable),
            min_available=number(self.min_available),
            min_available_percent=percent(self.min_available),
            reason=reason,
        )


class DisruptionWindow(Spec):
    """A time at which instances may be disrupted on purpose."""

    schedule: Annotated[str, StringConstraints(max_length=SCHEDULE_MAX)] = Field(
        description="When it opens, as five fields of cron: minute, hour, day of month, month, day of week; in "
        "local time."
    )
    duration: WindowMilliseconds = Field(description="How long it stays open: a minute to a week.")
    time_zone: str = Field(default=UTC, description="The time zone of the schedule, such as Europe/Berlin.")

    @model_validator(mode="after")
    def _opens(self) -> "DisruptionWindow":
        if fault := schedule_fault(self.schedule):
            raise at("schedule", fault, self.schedule)
        try:
            _zone(self.time_zone)
        except UnknownZone as error:
            raise at("time_zone", str(error), self.time_zone) from None
        return self

    def zone(self, year: int = 0) -> ZoneOffsets:
        """The offsets of its time zone from the begin of a year on; 0: this year."""
        return _zone(self.time_zone, year)

    def to_part(self) -> SlaWindow:
        """The part of the fact."""
        return SlaWindow(self.schedule, self.duration, self.zone())


def _zone(name: str, year: int = 0) -> ZoneOffsets:
    return ZoneOffsets() if name == UTC else _offsets(name, year or datetime.datetime.now(datetime.UTC).year)


@lru_cache(64)
def _offsets(name: str, year: int) -> ZoneOffsets:
    """The same for a whole year, so that equal specifications are equal facts. Raises `UnknownZone`."""
    return offsets_of(name, int(datetime.datetime(year, 1, 1, tzinfo=datetime.UTC).timestamp()))


class Sla(Spec):
    """The instances that may be unavailable on purpose; a job that says nothing here has no SLA, and no budget.
    Percentages are of the wanted instances.
    """

    max_unavailable: Part | None = Field(
        default=None,
        description="Instances that may be unavailable on purpose at a time; a percentage is rounded down, but to 1 at "
        "least. 0: none, except by a replacement that is up before.",
    )
    min_available: Part | None = Field(
        default=None,
        description="Instances that must stay available; a percentage is rounded up. With `max_unavailable` the "
        "stricter holds.",
    )
    min_healthy_time: Milliseconds = Field(
        default=0,
        json_schema_extra={"default": "0s"},
        description="An instance counts as available once it has been so for this long.",
    )
    max_disruptions_per_hour: Part | None = Field(
        default=None,
        description="Instances that others may disrupt within an hour (drains, rebalancing, preemption; not updates); "
        "a percentage is 1 at least.",
    )
    replace: Literal["before"] | None = Field(
        default=None,
        description="before: the next instance is up before the one before it stops; for stateless jobs without fixed "
        "ports.",
    )
    surge: Annotated[int, Field(ge=1, le=INSTANCES_MAX)] = Field(
        default=1, description="For `replace`: so many instances more than wanted, at a time."
    )
    replace_wait: Milliseconds = Field(
        default=120_000,
        json_schema_extra={"default": "2m"},
        description="For `replace`: how long the next instance is waited for, before the plain budget is used.",
    )
    group: Annotated[str, StringConstraints(pattern=GROUP_PATTERN)] | None = Field(
        default=None,
        description="The group whose budget it shares with other jobs, see `paceline sla group`; until the group is "
        "set, it has none of that.",
    )
    windows: Annotated[list[DisruptionWindow], Field(max_length=WINDOWS_MAX)] = Field(
        default=[], description="When others may disrupt it; none: at any time."
    )

    @model_validator(mode="after")
    def _replaces(self) -> "Sla":
        for field in ("surge", "replace_wait"):
            if self.replace is None and getattr(self, field) != type(self).model_fields[field].default:
                raise at(field, "is for `replace: before`", getattr(self, field))
        return self

    def to_part(self) -> SlaPolicy | None:
        """The part of the fact beside a plain `max_unavailable`; None: that says all."""
        policy = SlaPolicy(
            max_unavailable_percent=percent(self.max_unavailable),
            min_available=number(self.min_available),
            min_available_percent=percent(self.min_available),
            min_healthy_ms=self.min_healthy_time,
            per_hour=number(self.max_disruptions_per_hour),
            per_hour_percent=percent(self.max_disruptions_per_hour),
            replace=self.replace or "",
            surge=self.surge,
            replace_wait_ms=self.replace_wait,
            group=self.group or "",
            windows=tuple(window.to_part() for window in self.windows),
        )
        return None if policy == SlaPolicy() else policy


def check_sla(sla: Sla, job: dict[str, Any]) -> Sla:
    """Raises a problem where a job, of which these fields are known, can't have the SLA."""
    kind, instances = job.get("kind", "batch"), job.get("instances", INSTANCES_MAX)
    for field in ("max_unavailable", "min_available"):
        value = getattr(sla, field)
        if kind != "daemon" and (number(value) or 0) > instances:
            raise at(field, f"is {value}, the job has {instances} instances", value)
    if sla.replace and (why := replace_fault(kind, bool(port_numbers(job.get("ports", []))))):
        raise at("replace", why, sla.replace)
    return sla


def sla_body(max_unavailable: int | None, policy: SlaPolicy | None) -> dict[str, Any]:
    """The JSON of an SLA; beside `max_unavailable` only what is said."""
    if policy is None:
        return {"max_unavailable": max_unavailable}
    windows = [
        {"schedule": each.schedule, "duration": write_ms(each.duration_ms), "time_zone": each.zone.name or UTC}
        for each in policy.windows
    ]
    more = {
        "min_available": write_part(policy.min_available, policy.min_available_percent),
        "min_healthy_time": write_ms(policy.min_healthy_ms) if policy.min_healthy_ms else None,
        "max_disruptions_per_hour": write_part(policy.per_hour, policy.per_hour_percent),
        "replace": policy.replace or None,
        "surge": policy.surge if policy.replace else None,
        "replace_wait": write_ms(policy.replace_wait_ms) if policy.replace else None,
        "group": policy.group or None,
        "windows": windows or None,
    }
    most = write_part(max_unavailable, policy.max_unavailable_percent)
    return {"max_unavailable": most} | {name: value for name, value in more.items() if value is not None}
