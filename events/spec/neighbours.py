"""The rules of a job about the tasks beside its own, as users write them."""

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError
from pydantic_core.core_schema import ValidationInfo

from events.bounds import AFFINITIES_MAX, GANG_MAX, INSTANCES_MAX, TARGETS_MAX
from events.conditions import WEIGHTS_MAX
from events.instance_ranges import read_ranges
from events.records.parts import PlacementRules, SpreadTarget, TaskAffinity
from events.resources import GPU_MEMORY, is_gpu
from events.spec.alternatives import amounts_asked, rules_asked
from events.spec.conditions import toleration_parts, tolerations_body
from events.spec.devices import device_rules, devices_body
from events.spec.parts import ShortText, Spec, Word, at_path
from events.topology import HOST, LINK_GROUP


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
    most: Annotated[int, Field(ge=1, le=INSTANCES_MAX)] | None = Field(
        default=None, description="A value never has more tasks than that; tasks wait instead."
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
    Word | None,
    Field(
        description="host, or an attribute such as rack: all tasks of the gang on hosts with one value of it. "
        "link_group: all its cards in one link group of one host."
    ),
]
Near = Annotated[
    Word | None,
    Field(
        description="host, or an attribute such as rack: the gang on hosts with as few of its values as possible, and "
        "those near each other by the `topology` of the cell. link_group: its cards in as few link groups as possible."
    ),
]
Segments = Annotated[
    Annotated[int, Field(ge=2, le=GANG_MAX)] | None,
    Field(
        description="So many members of the gang, one after another, on hosts with one value of the attribute of "
        "`near`, or of `within` where `near` isn't given: then the gang as a whole needn't be."
    ),
]


def check_neighbours(job: Any) -> None:
    """Raises an error where the rules of a `JobSpec` don't fit its other fields."""
    names = ("host_limit", "exclusive", "affinity", "anti_affinity", "spread", "within", "near", "segments")
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
    of_labels = [("affinity", each.within) for each in job.affinity]
    of_labels += [("anti_affinity", each.within) for each in job.anti_affinity]
    for name, level in (*of_labels, ("spread", job.spread.over if job.spread else "")):
        if level == LINK_GROUP:
            raise at_path((name,), f"is over {LINK_GROUP}, and within a host only `within` and `near` are", level)
    _check_nearness(job)


def _check_nearness(job: Any) -> None:
    for name in ("within", "near", "segments"):
        value = getattr(job, name)
        if value is not None and job.gang.min < 2:
            raise at_path((name,), "is for a gang: `gang: {min: N}` says of how many tasks", value)
        if value == LINK_GROUP and not any(each == GPU_MEMORY or is_gpu(each) for each in amounts_asked(job)):
            raise at_path((name,), f"is {LINK_GROUP}, which is for tasks that ask for cards, such as gpu", value)
    size, gang = job.segments, job.gang.min
    if size is None:
        return
    if job.within is None and job.near is None:
        raise at_path(("segments",), "needs `near` or `within`: hosts with one value of what hold a segment", size)
    if gang % size:
        raise at_path(("segments",), f"is {size}, and the {gang} tasks of the gang are no multiple of it", size)
    for at, each in enumerate(job.overrides):
        parts = (each.resources.named(), each.ports, each.constraints, each.strategy, overridden_rules(None, each))
        if any(part not in (None, {}) for part in parts) and read_ranges(each.instances)[0][0] < gang:
            raise at_path(
                ("overrides", at), "is of members of a gang with `segments`, which all ask for the same", None
            )


def overridden_rules(job: PlacementRules | None, own: Any) -> PlacementRules | None:
    """The rules of an `Override` with those that it leaves to its job; None: it leaves all."""
    names = ("tolerations", "host_limit", "exclusive", "affinity", "anti_affinity")
    devices = device_rules(own)
    if not devices and all(getattr(own, name) is None for name in names):
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
        **devices,
    )


def overridden_body(rules: PlacementRules) -> dict[str, Any]:
    """The JSON of rules in an override."""
    body = neighbours_body(rules)
    fields = {name: body[name] for name in ("exclusive", "affinity", "anti_affinity", "cores", "devices")}
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
        near=job.near or "",
        segments=job.segments or 0,
        most=spread.most or 0 if spread else 0,
        **rules_asked(job),
    )
    return None if rules == PlacementRules() else rules


def neighbours_body(rules: PlacementRules) -> dict[str, Any]:
    """The JSON of it."""
    labels: tuple[list[Any], list[Any]] = ([], [])
    for term in rules.affinity:
        weight = {"weight": term.weight} if term.weight else {}
        labels[term.apart].append({"label": term.label, "value": term.value, "within": term.over, **weight})
    targets = {each.value: each.percent for each in rules.targets}
    most = rules.most or None
    spread = {
        "over": rules.spread_over,
        "skew": rules.skew or None,
        "most": most,
        "targets": targets,
        "hard": rules.hard,
    }
    return {
        "host_limit": rules.host_limit or None,
        "exclusive": rules.exclusive,
        "affinity": labels[False],
        "anti_affinity": labels[True],
        "spread": spread if rules.spread_over else None,
        "within": rules.within or None,
        "near": rules.near or None,
        "segments": rules.segments or None,
        **devices_body(rules),
    }
