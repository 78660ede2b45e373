"""Conditions on hosts and tolerations of taints, as users write them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, field_validator, model_validator
from pydantic_core import PydanticCustomError
from pydantic_core.core_schema import ValidationInfo

from events.bounds import CONSTRAINTS_MAX, VALUES_MAX
from events.conditions import COMBINED, DEPTH_MAX, WEIGHTS_MAX, WITHOUT_VALUES, conditions_fault, tops, values_fault
from events.quantities import SomeMilliseconds, write_ms
from events.records.parts import Constraint as ConstraintPart
from events.records.parts import PlacementRules, TimedToleration
from events.spec.parts import ShortText, Spec, Word
from events.taints import TOLERATIONS_MAX, toleration_fault


class Constraint(Spec):
    """A condition on an attribute of a host; or `any` or `all` of several."""

    attribute: Word | None = Field(default=None, description="Name of the attribute.")
    operator: Literal["in", "not_in", "exists", "absent", "greater", "less", "version", "glob"] = Field(
        default="in",
        description="in, not_in: the value is one of `values`, or none of them; exists, absent: without values; "
        "greater, less: than a number; version: all comparisons such as >=1.20; glob: like a pattern with * and ?. A "
        "host without the attribute meets not_in and absent alone.",
    )
    values: list[ShortText] = Field(
        default=[], validate_default=True, max_length=VALUES_MAX, description="What the operator compares with."
    )
    any: list["Constraint"] | None = Field(
        default=None, min_length=1, description="Instead of an attribute: one of these holds."
    )
    all: list["Constraint"] | None = Field(
        default=None, min_length=1, description="Instead of an attribute: all of these hold."
    )
    weight: Annotated[int, Field(ge=0, le=WEIGHTS_MAX)] = Field(
        default=0,
        description="A preference, not a must: hosts that don't meet it come after those that do, by the sum of the "
        f"weights that they don't meet; at most {WEIGHTS_MAX} in all.",
    )

    @field_validator("values")
    @classmethod
    def _fit_the_operator(cls, values: list[str], info: ValidationInfo) -> list[str]:
        operator = info.data.get("operator")
        if info.data.get("attribute") is None or operator is None:
            return values
        if not values and operator in ("in", "not_in"):
            raise PydanticCustomError("values", "must name at least one value for the operators in and not_in")
        if values and operator in WITHOUT_VALUES:
            raise PydanticCustomError("values", "are not for {operator}: leave them out", {"operator": operator})
        if fault := values_fault(operator, values):
            raise PydanticCustomError("values", "{what}", {"what": fault})
        return values

    @model_validator(mode="after")
    def _is_one(self) -> "Constraint":
        ways = [name for name in ("attribute", *COMBINED) if getattr(self, name) is not None]
        if len(ways) != 1:
            raise PydanticCustomError("constraint", "must have exactly one of attribute, any and all")
        if self.attribute is None and (self.values or self.operator != "in"):
            raise PydanticCustomError("constraint", "{way} takes no operator and no values", {"way": ways[0]})
        if any_weight(self.any or self.all or ()):
            raise PydanticCustomError("weight", "is for a whole constraint, not for a part of it")
        if _depth(self) > DEPTH_MAX:
            raise PydanticCustomError("constraint", "is nested more than {most} deep", {"most": DEPTH_MAX})
        return self

    def to_parts(self) -> Iterator[ConstraintPart]:
        """The parts of the fact: itself before its own."""
        if self.attribute is not None:
            yield ConstraintPart(self.attribute, self.operator, tuple(self.values), 0, self.weight)
            return
        own = self.any or self.all or []
        yield ConstraintPart("", "any" if self.any else "all", (), len(own), self.weight)
        for each in own:
            yield from each.to_parts()


def any_weight(constraints: Iterable[Constraint]) -> bool:
    """Whether one of them is a preference."""
    return any(each.weight for each in constraints)


def _depth(constraint: Constraint) -> int:
    return 1 + max((_depth(each) for each in constraint.any or constraint.all or ()), default=0)


def _sound(constraints: list[Constraint]) -> list[Constraint]:
    if fault := conditions_fault(constraint_parts(constraints)):
        raise PydanticCustomError("constraints", "{what}", {"what": fault})
    return constraints


Constraints = Annotated[list[Constraint], Field(max_length=CONSTRAINTS_MAX), AfterValidator(_sound)]


def _toleration(text: str) -> str:
    if fault := toleration_fault(text):
        raise PydanticCustomError("toleration", "{what}", {"what": fault})
    return text


Taint = Annotated[str, AfterValidator(_toleration)]


class TimedTolerationSpec(Spec):
    """A taint by which tasks that run leave only after a time; new ones are kept away."""

    taint: Taint = Field(description="KEY, or KEY=VALUE.")
    tolerate: SomeMilliseconds = Field(description="So long after the taint was set they stay.")


LASTING, TIMED = "[taint]", "[time]"
"""The two forms of a toleration, as errors name them."""


def _form(toleration: Any) -> str:
    return TIMED if isinstance(toleration, Mapping | TimedTolerationSpec) else LASTING


Toleration = Annotated[
    Annotated[Taint, Tag(LASTING)] | Annotated[TimedTolerationSpec, Tag(TIMED)], Discriminator(_form)
]
Tolerations = Annotated[list[Toleration], Field(max_length=TOLERATIONS_MAX)]


def toleration_parts(tolerations: Iterable[str | TimedTolerationSpec]) -> dict[str, Any]:
    """The fields of the fact: of a taint that is named twice with a time the shorter one counts."""
    timed = sorted(((each.taint, each.tolerate) for each in tolerations if not isinstance(each, str)), reverse=True)
    return {
        "tolerations": tuple(sorted({each for each in tolerations if isinstance(each, str)})),
        "stays": tuple(TimedToleration(taint, for_ms) for taint, for_ms in sorted(dict(timed).items())),
    }


def tolerations_body(rules: PlacementRules) -> list[Any]:
    """The JSON of tolerations."""
    return [*rules.tolerations, *({"taint": each.taint, "tolerate": write_ms(each.for_ms)} for each in rules.stays)]


def constraint_parts(constraints: Iterable[Constraint]) -> tuple[ConstraintPart, ...]:
    """The parts of the fact, in one list."""
    return tuple(part for each in constraints for part in each.to_parts())


def constraints_body(constraints: Sequence[ConstraintPart]) -> list[dict[str, Any]]:
    """The JSON of conditions. A list that breaks the rules of lists is told as far as it goes."""
    try:
        return [_body(constraints, at) for at in tops(constraints)]
    except IndexError:
        return [_single(each) for each in constraints]


def _body(constraints: Sequence[ConstraintPart], at: int) -> dict[str, Any]:
    one = constraints[at]
    if one.operator not in COMBINED:
        return _single(one)
    own = constraints[at + 1 :]
    body: dict[str, Any] = {one.operator: [_body(own, part) for part in islice(tops(own), one.parts)]}
    return body | ({"weight": one.weight} if one.weight else {})


def _single(one: ConstraintPart) -> dict[str, Any]:
    body: dict[str, Any] = {"attribute": one.attribute, "operator": one.operator, "values": list(one.values)}
    return body | ({"weight": one.weight} if one.weight else {})
