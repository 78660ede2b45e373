"""The different shapes of the tasks of a job, and which tasks have which."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from events.abilities import IMAGE_WEIGHT, image_attribute, image_digits, needed
from events.columns import I64, ints, pack_ints
from events.records.parts import Constraint, PlacementRules, TaskShape
from events.resources import in_order, of_slack
from events.task_overrides import merged
from processors.lifecycle.alike import RULES, once
from processors.lifecycle.rows import OverrideRow, SubmittedRow
from processors.state.record_rows import ConstraintRow, RulesRow


@dataclass(frozen=True)
class Shapes:
    """Shapes, each once, the first that of the job itself; and columns of the ranges of tasks that have another one."""

    shapes: tuple[TaskShape, ...]
    first: bytes
    count: bytes
    shape: bytes


@once(RULES)
def task_shapes(job: SubmittedRow) -> Shapes:
    """The shapes of the tasks of a job, and the ranges of instances that have them."""
    shapes = [_shape(job)]
    numbers = {_key(job): 0}
    of_override = np.array([_number(job, each, shapes, numbers) for each in job.overrides], dtype=np.int64)
    first, count, override = (
        ints(column).astype(np.int64) for column in (job.override_first, job.override_count, job.override)
    )
    shape = of_override[override] if len(override) else override
    return Shapes(tuple(shapes), *_joined(first[shape > 0], count[shape > 0], shape[shape > 0]))


def _number(job: SubmittedRow, override: OverrideRow, shapes: list[TaskShape], numbers: dict[object, int]) -> int:
    asks = (override.ports, override.constraints, override.strategy, override.rules)
    if not override.resources and all(each is None for each in asks):
        return 0
    own = merged(job, override)
    number = numbers.setdefault(_key(own), len(shapes))
    if number == len(shapes):
        shapes.append(_shape(own))
    return number


def _key(job: SubmittedRow) -> object:
    amounts = tuple(in_order(asked(job)).items())
    return amounts, len(job.ports), job.constraints, job.strategy, fixed_ports(job), job.rules


def _shape(job: SubmittedRow) -> TaskShape:
    asks = in_order(asked(job)), len(job.ports), constraint_parts(all_constraints(job)), job.strategy
    return TaskShape(*asks, fixed_ports(job), rules_part(job.rules))


def constraint_parts(rows: Sequence[ConstraintRow]) -> tuple[Constraint, ...]:
    """Conditions as records have them."""
    return tuple(Constraint(one.attribute, one.operator, one.values, one.parts, one.weight) for one in rows)


def rules_part(rules: RulesRow | None) -> PlacementRules | None:
    """Rules as records have them."""
    return None if rules is None else rules.to_part()


def asked(job: SubmittedRow) -> dict[str, int]:
    """The resources that a task of a job asks of its pool and host: one that is revocable has its CPU of the slack."""
    return of_slack(job.resources) if job.revocable else job.resources


def all_constraints(job: SubmittedRow) -> tuple[ConstraintRow, ...]:
    """The conditions of a job on hosts, with those that follow from what its agents must be able to do, and the wish
    for hosts that have its image.
    """
    able = (ConstraintRow(attribute, "exists", ()) for attribute in needed(job))
    if job.isolation is None or not (digits := image_digits(job.isolation.image_digest)):
        return (*job.constraints, *able)
    has_image = ConstraintRow(image_attribute(digits), "exists", (), weight=IMAGE_WEIGHT)
    return (*job.constraints, *able, has_image)


def fixed_ports(job: SubmittedRow) -> tuple[int, ...]:
    """The number of each port, 0: any; empty: any for all."""
    numbers = tuple(job.port_numbers.get(name, 0) for name in job.ports)
    return numbers if any(numbers) else ()


def _joined(first: I64, count: I64, shape: I64) -> Sequence[bytes]:
    """The same ranges, those that follow one another and have the same shape as one."""
    order = np.argsort(first)
    first, count, shape = first[order], count[order], shape[order]
    begins = np.ones(len(first), dtype=np.bool_)
    begins[1:] = (first[:-1] + count[:-1] != first[1:]) | (shape[1:] != shape[:-1])
    starts = np.flatnonzero(begins)
    counts = np.add.reduceat(count, starts) if len(starts) else count
    return pack_ints(first[starts]), pack_ints(counts), pack_ints(shape[starts])
