"""The rules of a job about the tasks beside its own, as users write them."""

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError
from pydantic_core.core_schema import ValidationInfo

from events.bounds import AFFINITIES_MAX, INSTANCES_MAX, TARGETS_MAX
from events.conditions import WEIGHTS_MAX
from events.records.parts import PlacementRules, SpreadTarget, TaskAffinity
from events.spec.conditions import toleration_parts, tolerations_body
from events.spec.parts import ShortText, Spec, Word, at_path

HOST = "host"


class TaskLabel(Spec):
    """Tasks of jobs with a label: those on the same host, or on hosts with the same value of an attribute."""

    label: Word = Field(description="Name of the label.")
    value: ShortText = Field(description='Its value; `""` where the label has none.')
    within: Word = Field(default=HOST, description="host, or an attribute such as rack.")
    weight: Annotated[int, Field(ge=0, le=WEIGHTS_MAX)] = Field(
        default=0,
        description="A preference, not a must, as that of a [constraint](#constraint); binds this job alone. At most "
        f"{WEIGHTS_MAX} in all, with those of constraints.",
    )


TaskLabels = Annotated[list[TaskLabel], Field(max_length=AFFINITIES_MAX)]
Percent = Annotated[int, Field(ge=0, le=100)]


class TaskSpread(Spec):
    """A spread of the tasks of a job over the values of an attribute; hosts without it count as one more."""

    over: Word = Field(description="host, or an attribute such as rack; the value with least tasks comes first.")
    skew: Annotated[int, Field(ge=1, le=INSTANCES_MAX)] | None = Field(
        default=None, description="A value never has more tasks than that above the one with least; tasks wait instead."
    )
    targets: Annotated[dict[ShortText, Percent], Field(max_length=TARGETS_MAX)] = Field(
        default={}, description="Percent of the tasks by value; the other values share the rest evenly."
    )
    hard: bool = Field(
        default=False, validate_default=True, description="Whether tasks wait rather than exceed a target."
    )

    @field_validator("targets")
    @classmethod
    def _are_parts(cls, targets: dict[str, int], info: ValidationInfo) -> dict[str, int]:
        if sum(targets.values()) > 100:
            raise PydanticCustomError(
                "targets", "are {sum} percent in all, more than 100", {"sum": sum(targets.values())}
            )
        if targets and info.data.get("skew") is not None:
            raise PydanticCustomError("targets", "and skew exclude each other: give either targets or skew, not both")
        if targets and info.data.get("over") == "host":
            raise PydanticCustomError("targets", "are for an attribute: hostname has the names of hosts")
        return targets

    @field_validator("hard")
    @classmethod
    def _has_targets(cls, hard: bool, info: ValidationInfo) -> bool:
        if hard and not info.data.get("targets", True):
            raise PydanticCustomError("hard", "is for targets; a skew is always kept")
        return hard


HostLimit = Annotated[
    Annotated[int, Field(ge=1, le=INSTANCES_MAX)] | None,
    Field(description="At most so many tasks of the job on a host."),
]
Exclusive = Annotated[bool, Field(description="Whether its hosts take no task of another job.")]
Affinity = Annotated[TaskLabels, Field(description="Labels of tasks beside which its tasks run.")]
AntiAffinity = Annotated[
    TaskLabels, Field(description="Labels of tasks from which its tasks are kept apart, and those from them.")
]
Spread = Annotated[TaskSpread | None, Field(description="How tasks are spread over the values of an attribute.")]
Within = Annotated[
    Word | None, Field(description="An attribute such as rack: all tasks of the gang on hosts with one value of it.")
]


def check_neighbours(job: Any) -> None:
    """Raises an error where the rules of a `JobSpec` don't fit its other fields."""
    names = ("host_limit", "exclusive", "affinity", "anti_affinity", "spread", "within")
    ruled = [name for name in names if getattr(job, name) not in (None, False, [])]
    if ruled and job.kind == "daemon":
        raise at_path((ruled[0],), "is not for daemons: one task runs on every host that matches", None)
    if len(job.affinity) + len(job.anti_affinity) > AFFINITIES_MAX:
        raise at_path(("anti_affinity",), f"and affinity name more than {AFFINITIES_MAX} labels", None)
    for apart in job.anti_affinity:
        same = (each for each in job.affinity if (each.label, each.value) == (apart.label, apart.value))
        if any(each.within in (HOST, apart.within) and not each.weight and not apart.weight for each in same):
            label = f"{apart.label}={apart.value}"
            raise at_path(("anti_affinity",), f"and affinity name {label} both: no host is beside it and apart", None)
    weights = sum(each.weight for each in (*job.constraints, *job.affinity, *job.anti_affinity))
    if weights > WEIGHTS_MAX:
        raise at_path(("affinity",), f"and constraints have weights of {weights} in sum, at most {WEIGHTS_MAX}", None)
    if job.within is not None and job.gang.min < 2:
        raise at_path(("within",), "is for a gang: `gang: {min: N}` says of how many tasks", job.within)


def overridden_rules(job: PlacementRules | None, own: Any) -> PlacementRules | None:
    """The rules of an `Override` with those that it leaves to its job; None: it leaves all."""
    names = ("tolerations", "host_limit", "exclusive", "affinity", "anti_affinity")
    if all(getattr(own, name) is None for name in names):
        return None
    rules = job or PlacementRules()
    terms = {apart: tuple(each for each in rules.affinity if each.apart == apart) for apart in (False, True)}
    for apart, labels in ((False, own.affinity), (True, own.anti_affinity)):
        if labels is not None:
            terms[apart] = _terms(labels, apart)
    return msgspec.structs.replace(
        rules,
        **({} if own.tolerations is None else toleration_parts(own.tolerations)),
        host_limit=rules.host_limit if own.host_limit is None else own.host_limit,
        exclusive=rules.exclusive if own.exclusive is None else own.exclusive,
        affinity=(*terms[False], *terms[True]),
    )


def overridden_body(rules: PlacementRules) -> dict[str, Any]:
    """The JSON of rules in an override."""
    body = neighbours_body(rules)
    fields = {name: body[name] for name in ("exclusive", "affinity", "anti_affinity")}
    return {"tolerations": tolerations_body(rules), "host_limit": rules.host_limit, **fields}


def _terms(labels: Iterable[TaskLabel], apart: bool) -> tuple[TaskAffinity, ...]:
    return tuple(TaskAffinity(each.label, each.value, each.within, apart, each.weight) for each in labels)


def neighbours_rules(job: Any) -> PlacementRules | None:
    """The part of the fact about what tasks of a `JobSpec` ask of hosts beside conditions; None: nothing."""
    spread = job.spread
    targets = sorted(spread.targets.items()) if spread else []
    rules = PlacementRules(
        **toleration_parts(job.tolerations),
        host_limit=job.host_limit or 0,
        exclusive=job.exclusive,
        affinity=(*_terms(job.affinity, False), *_terms(job.anti_affinity, True)),
        spread_over=spread.over if spread else "",
        skew=spread.skew or 0 if spread else 0,
        targets=tuple(SpreadTarget(value, percent) for value, percent in targets),
        hard=spread.hard if spread else False,
        within=job.within or "",
    )
    return None if rules == PlacementRules() else rules


def neighbours_body(rules: PlacementRules) -> dict[str, Any]:
    """The JSON of it."""
    labels: tuple[list[Any], list[Any]] = ([], [])
    for term in rules.affinity:
        weight = {"weight": term.weight} if term.weight else {}
        labels[term.apart].append({"label": term.label, "value": term.value, "within": term.over, **weight})
    targets = {each.value: each.percent for each in rules.targets}
    spread = {"over": rules.spread_over, "skew": rules.skew or None, "targets": targets, "hard": rules.hard}
    return {
        "host_limit": rules.host_limit or None,
        "exclusive": rules.exclusive,
        "affinity": labels[False],
        "anti_affinity": labels[True],
        "spread": spread if rules.spread_over else None,
        "within": rules.within or None,
    }
