"""The devices and cores of one host that a task asks for, as users write them."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError
from pydantic_core.core_schema import ValidationInfo

from events.bounds import KINDS_MAX
from events.devices import CORES_MAX, MODELS_MAX, amounts_problem, rules_problem
from events.records.parts import DeviceModels, PlacementRules
from events.resources import GPU_MEMORY
from events.spec.parts import ResourceName, Resources, SomeResources, Spec, Word, at, at_path

NUMA = "numa"


def _listed(models: Any) -> Any:
    """One model as a list of it."""
    return [models] if isinstance(models, str) else models


def _sorted(models: list[str]) -> list[str]:
    return sorted(set(models))


Models = Annotated[
    list[Word], Field(min_length=1, max_length=MODELS_MAX), BeforeValidator(_listed), AfterValidator(_sorted)
]


class DevicesAsked(Spec):
    """The request of a task for its devices, beside their number; see [gpus.md](gpus.md)."""

    models: Annotated[dict[ResourceName, Models], Field(max_length=KINDS_MAX)] = Field(
        default={}, description="By kind of resource the models that will do, one or a list; any, unless said."
    )
    within: Literal["link_group", "numa"] | None = Field(
        default=None,
        description="link_group: all devices of a task are linked directly, as by NVLink; numa: all its devices and "
        "cores are at one NUMA node.",
    )


Devices = Annotated[
    DevicesAsked | None,
    Field(description="Models of the devices of a task, and whether one part of its host has all of them."),
]
Cores = Annotated[
    int,
    Field(
        ge=0,
        le=CORES_MAX,
        description="Whole cores that a task has for itself, of hosts that offer cores; its cpu is as much. 0: it "
        "shares those that are left.",
    ),
]
R = TypeVar("R", Resources, SomeResources)


def _amounts(resources: R, info: ValidationInfo) -> R:
    """The amounts of a task, with the CPU of its cores where it names none. Raises an error where an amount of devices
    is one that no task can have.
    """
    sizes = {*resources.sizes()} - {GPU_MEMORY}  # the cell says that they are no devices, if it doesn't count them so
    if problem := amounts_problem({name: value for name, value in resources.named().items() if name not in sizes}):
        raise at(*problem, None)
    cores = info.data.get("cores")
    if not cores or "cpu" in resources.model_fields_set:
        return resources
    return resources.model_copy(update={"cpu": cores * 1000})


def _numa(numa: str | None, info: ValidationInfo) -> str | None:
    """The value of `numa`. Raises an error where it contradicts what is asked of devices."""
    devices = info.data.get("devices")
    if numa and devices is not None and devices.within not in (None, NUMA):
        text = f"and within {devices.within} of devices exclude each other: give one of them"
        raise PydanticCustomError("numa", "{what}", {"what": text})
    return numa


TaskResources = Annotated[Resources, AfterValidator(_amounts)]
SomeTaskResources = Annotated[SomeResources, AfterValidator(_amounts)]
Numa = Annotated[
    Literal["one"] | None,
    AfterValidator(_numa),
    Field(description="one: all cores and devices of a task are at one NUMA node, as `within: numa` of devices."),
]


def device_rules(spec: Any) -> dict[str, Any]:
    """The request of a job or an override for devices and cores, as fields of `PlacementRules`: those that it has."""
    fields: dict[str, Any] = {}
    if spec.devices is not None:
        models = sorted(spec.devices.models.items())
        fields["devices"] = tuple(DeviceModels(kind, tuple(each)) for kind, each in models)
        fields["devices_within"] = spec.devices.within or ""
    if getattr(spec, "numa", None) is not None:  # alternatives have none
        fields["devices_within"] = NUMA
    if spec.cores is not None:
        fields["cores"] = spec.cores
    return fields


def check_devices(job: Any) -> None:
    """Raises an error where what a `JobSpec`, or an override of it, asks of devices and cores doesn't fit its other
    fields.
    """
    if job.any_of:
        return  # each request is judged by itself
    own = PlacementRules(**device_rules(job))
    _check(own, job.resources.named(), job.revocable, ())
    for number, each in enumerate(job.overrides):
        changes, resources = device_rules(each), each.resources.named()
        if changes or resources:
            merged = job.resources.named() | resources
            _check(msgspec.structs.replace(own, **changes), merged, job.revocable, ("overrides", number))


def _check(rules: PlacementRules, amounts: Mapping[str, int], revocable: bool, path: tuple[int | str, ...]) -> None:
    if problem := rules_problem(rules, amounts, revocable):
        field, text = problem
        place = {"devices": ("devices", "models"), "devices_within": ("devices", "within")}.get(field, (field,))
        raise at_path((*path, *place), text, None)
    if path and (fault := amounts_problem(amounts)):
        name, text = fault
        raise at_path((*path, "resources", name), text, None)


def with_one_form(spec: dict[str, Any]) -> dict[str, Any]:
    """The JSON of a job without defaults, in which `numa` stands as what it is short for and devices that say nothing
    don't stand.
    """
    if spec.pop("numa", None):
        spec["devices"] = {**spec.get("devices", {}), "within": NUMA}
    if not spec.get("devices", True):
        del spec["devices"]
    return spec


def devices_body(rules: PlacementRules) -> dict[str, Any]:
    """The JSON of it."""
    models = {each.kind: list(each.models) for each in rules.devices}
    return {"devices": {"models": models, "within": rules.devices_within or None}, "cores": rules.cores}
