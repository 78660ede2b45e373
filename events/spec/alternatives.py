"""Several requests of a task in their order, as users write them: of which it takes the first that finds a place."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from events.devices import ALTERNATIVES_MAX, CORES_MAX, amounts_problem, rules_problem
from events.quantities import write_amounts
from events.records.parts import Alternative, AlternativeAmount, PlacementRules
from events.resources import Unit, in_order
from events.spec.devices import Devices, device_rules, devices_body
from events.spec.parts import SomeResources, Spec, at_path


class RequestAsked(Spec):
    """One of several requests of a task: what it asks in place of what its job does."""

    cores: Annotated[int, Field(ge=0, le=CORES_MAX)] | None = Field(default=None, description="As of the job.")
    resources: SomeResources = Field(default=SomeResources(), description="Amounts; others are those of the job.")
    devices: Devices = None


AnyOf = Annotated[
    list[RequestAsked],
    Field(
        max_length=ALTERNATIVES_MAX,
        description="Requests of a task in their order. It takes the first that finds a place, and its pool is charged "
        "for that; until then the pool must have room for the most of each resource that one of them asks, of those "
        "that hosts could hold, were they empty.",
    ),
]


def alternatives(job: Any) -> tuple[Alternative, ...]:
    """The requests of a task of a `JobSpec`, each whole; none where it has only one."""
    whole = []
    for each in job.any_of:
        rules = device_rules(job) | device_rules(each)
        of_cores = {"cpu": each.cores * 1000} if each.cores else {}
        amounts = in_order(job.resources.named() | of_cores | each.resources.named())
        listed = tuple(AlternativeAmount(*amount) for amount in amounts.items())
        whole.append(Alternative(listed, *(rules.get(name, none) for name, none in NOTHING.items())))
    return tuple(whole)


NOTHING: Mapping[str, Any] = {"devices": (), "devices_within": "", "cores": 0}
"""The fields of a request for devices that says nothing."""


def amounts_asked(job: Any) -> dict[str, int]:
    """The amounts that a task of a `JobSpec` asks, those of the first request where it has several."""
    return in_order(job.resources.named() | (job.any_of[0].resources.named() if job.any_of else {}))


def rules_asked(job: Any) -> dict[str, Any]:
    """The request of a `JobSpec` for devices and cores, as fields of `PlacementRules`."""
    if not job.any_of:
        return device_rules(job)
    each = alternatives(job)
    return {name: getattr(each[0], name) for name in NOTHING} | {"alternatives": each}


def check_alternatives(job: Any) -> None:
    """Raises an error where the requests of a `JobSpec` don't fit its other fields."""
    if not job.any_of:
        return
    if len(job.any_of) == 1:
        raise at_path(("any_of",), "has one request: give two at least, or say it in `resources` and `devices`", None)
    if job.revocable or job.kind in ("daemon", "stateful"):
        what = "revocable tasks" if job.revocable else f"a job of kind {job.kind}"
        raise at_path(("any_of",), f"is not for {what}", None)
    for at, each in enumerate(job.overrides):
        if each.resources.named() or device_rules(each):
            raise at_path(("overrides", at), "asks for other resources or devices, and the job has `any_of`", None)
    for at, one in enumerate(alternatives(job)):
        amounts = {amount.name: amount.amount for amount in one.resources}
        if fault := amounts_problem(amounts):
            raise at_path(("any_of", at, "resources", fault[0]), fault[1], None)
        rules = PlacementRules(**{name: getattr(one, name) for name in NOTHING})
        if problem := rules_problem(rules, amounts, revocable=False):
            raise at_path(("any_of", at, problem[0].partition("_")[0]), problem[1], None)


def any_of_body(rules: PlacementRules, units: Mapping[str, Unit]) -> list[dict[str, Any]]:
    """The JSON of the requests of a job."""
    bodies = []
    for each in rules.alternatives:
        amounts = {amount.name: amount.amount for amount in each.resources}
        rules_of_one = PlacementRules(**{name: getattr(each, name) for name in NOTHING})
        bodies.append({"resources": write_amounts(amounts, units), **devices_body(rules_of_one)})
    return bodies
