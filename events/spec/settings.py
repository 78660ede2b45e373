"""The settings of a cell as users write them, in scenarios, over HTTP and on the command line.

Made from `events.cell_settings.Settings`: a time is written with its unit and without `_ms` in its name. The
descriptions are those of the record.
"""

import json
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, create_model, field_validator, model_validator
from pydantic_core import PydanticCustomError

import schemas
from events.bounds import CONDITION, KINDS_MAX, MS_MAX
from events.cell_settings import LISTS, TYPES, KindRow, PolicyRow, Settings, bounds, choices, is_list
from events.host_health import CONDITIONS_MAX, policies_fault
from events.quantities import Milliseconds, OtherAmount, Size, within, write_amount, write_ms
from events.records.parts import ConditionPolicy, ResourceKind
from events.records.pools import CellConfigured
from events.resources import Unit, kinds_fault
from events.spec.parts import Spec, Word
from events.topology import LEVELS_MAX, levels_fault

RECORD = schemas.ROOT / "pools" / "CellConfigured.avsc"


@cache
def descriptions() -> dict[str, str]:
    """The description of each setting, by the name that users write."""
    docs = {field["name"]: field["doc"] for field in json.loads(RECORD.read_text())["fields"]}
    return {written(name): docs[name] for name in (*TYPES, *LISTS)}


def written(name: str) -> str:
    """The name of a setting as users write it."""
    return name.removesuffix("_ms")


def _are_levels(levels: list[str]) -> list[str]:
    if fault := levels_fault(levels):
        raise PydanticCustomError("levels", "{what}", {"what": fault})
    return levels


Levels = Annotated[list[Word], Field(max_length=LEVELS_MAX), AfterValidator(_are_levels)]


def _field(name: str) -> Any:
    """A setting as a field of a spec; one that is left out is None."""
    field, limits = Field(default=None, description=descriptions()[written(name)]), bounds(name)
    if words := choices(name):
        return (Literal[words], field)
    if is_list(name):
        return (Levels, field)
    if limits is None:
        return (bool, field)
    if name.endswith("_ms"):
        return (Annotated[Milliseconds, AfterValidator(lambda ms: within(ms, *limits, write_ms))], field)
    return (Annotated[int, Field(ge=limits[0], le=limits[1])], field)


class KindSpec(Spec):
    """A kind of resource that the cell knows beside cpu, memory, disk and gpu."""

    name: Word = Field(description="Its name, as hosts offer it and jobs ask for it: gpu/a100.")
    unit: Literal["milli", "MiB"] | None = Field(
        default=None,
        description="milli: written as a number, such as 1.5; MiB: as a size, such as 4GiB. By default milli.",
    )
    amount: OtherAmount | None = Field(
        default=None, description="What the whole cell has of it, as of a licence; null: what hosts offer."
    )

    @model_validator(mode="after")
    def _counted_in_unit(self) -> "KindSpec":
        size = self.unit == Unit.MIB.value
        if self.amount and isinstance(self.amount, Size) != size:
            expected = 'a size, such as "2GiB"' if size else "a number, such as 2 or 0.5, unless its unit is MiB"
            raise PydanticCustomError("amount", "{what}", {"what": f"the amount must be {expected}"})
        return self

    @property
    def record(self) -> ResourceKind:
        """The part of the fact."""
        return ResourceKind(self.name, self.unit or Unit.MILLI.value, None if self.amount is None else int(self.amount))


class ConditionPolicySpec(Spec):
    """The policy of a condition of hosts."""

    name: str = Field(
        pattern=rf"^{CONDITION.pattern}$",
        description="The condition: disk-full, memory-pressure, clock-skew, orders-failing, or a health command's.",
    )
    policy: Literal["avoid", "drain", "off", "default"] = Field(
        description="avoid: such hosts take no new tasks; drain: and are drained where it lasts; off: nothing; "
        "default: as of conditions that aren't named.",
    )
    drain_after: Annotated[Milliseconds, Field(ge=1, le=MS_MAX)] | None = Field(
        default=None, description="How long it lasts until they are drained; null: that of the cell."
    )

    @property
    def record(self) -> ConditionPolicy:
        """The part of the fact."""
        return ConditionPolicy(self.name, self.policy, self.drain_after)


if TYPE_CHECKING:
    _Fields = Spec
else:
    _Fields = create_model("_Fields", __base__=Spec, **{written(name): _field(name) for name in TYPES})


class CellSpec(_Fields):
    """Settings of a cell; what is left out stays as it is."""

    resources: list[KindSpec] = Field(default=[], max_length=KINDS_MAX, description=descriptions()["resources"])

    conditions: list[ConditionPolicySpec] = Field(
        default=[], max_length=CONDITIONS_MAX, description=descriptions()["conditions"]
    )

    @field_validator("conditions")
    @classmethod
    def _may_be_set(cls, conditions: list[ConditionPolicySpec]) -> list[ConditionPolicySpec]:
        if fault := policies_fault((), [each.record for each in conditions]):
            raise PydanticCustomError("conditions", "{what}", {"what": fault})
        return conditions

    @field_validator("resources")
    @classmethod
    def _may_be_added(cls, resources: list[KindSpec]) -> list[KindSpec]:
        if fault := kinds_fault((), [kind.record for kind in resources]):
            raise PydanticCustomError("resources", "{what}", {"what": fault})
        return resources

    def to_event(self, command_id: str) -> CellConfigured:
        """The fact to append."""
        values = {name: getattr(self, written(name)) for name in TYPES if written(name) in self.model_fields_set}
        values = {name: tuple(value) if is_list(name) else value for name, value in values.items()}
        kinds = tuple(each.record for each in self.resources)
        policies = tuple(each.record for each in self.conditions)
        return CellConfigured(command_id=command_id, resources=kinds, conditions=policies, **values)


def settings_json(settings: Settings) -> dict[str, Any]:
    """Settings as users write them; of resources those that were added, of conditions those with a policy."""
    values = {
        written(name): write_ms(value) if name.endswith("_ms") else list(value) if is_list(name) else value
        for name in TYPES
        for value in [getattr(settings, name)]
    }
    kinds = [_kind_json(kind) for kind in settings.resources]
    return {**values, "resources": kinds, "conditions": [_policy_json(each) for each in settings.conditions]}


def _kind_json(kind: KindRow) -> dict[str, Any]:
    amount = {} if kind.amount is None else {"amount": write_amount(kind.amount, Unit(kind.unit))}
    return {"name": kind.name, "unit": kind.unit, **amount}


def _policy_json(row: PolicyRow) -> dict[str, Any]:
    after = {} if row.drain_after_ms is None else {"drain_after": write_ms(row.drain_after_ms)}
    return {"name": row.name, "policy": row.policy, **after}
