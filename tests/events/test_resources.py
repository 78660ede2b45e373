"""Amounts of resources: vectors over the kinds of a cell, and maps by name."""

import pytest

from events.bounds import AMOUNT_MAX, KINDS_MAX, TASKS_MAX
from events.records.parts import ResourceKind
from events.resources import (
    LONG_MAX,
    STANDARD_KINDS,
    UNBOUNDED,
    Kinds,
    Unit,
    UnknownResource,
    add,
    amount_text,
    amounts_fault,
    fits,
    in_order,
    scale,
    subtract,
)

A100 = Kinds([ResourceKind("gpu/a100"), ResourceKind("matlab", amount=5000)])


def test_kinds_that_are_added_come_after_the_four_in_their_order() -> None:
    assert A100.names == ("cpu", "memory", "disk", "gpu", "gpu/a100", "matlab")
    assert A100.vector({"gpu/a100": 1000, "cpu": 500}) == (500, 0, 0, 0, 1000, 0)


def test_a_vector_and_its_record_are_the_same_amounts_in_one_order_without_zeros() -> None:
    amounts = {"gpu/a100": 1000, "memory": 0, "cpu": 500}
    record = A100.amounts(A100.vector(amounts))
    assert list(record.items()) == [("cpu", 500), ("gpu/a100", 1000)]
    assert list(in_order(amounts).items()) == [("cpu", 500), ("gpu/a100", 1000)]


def test_a_limit_that_is_left_out_has_the_default_and_one_of_zero_is_kept() -> None:
    vector = A100.vector({"gpu": 0}, default=-1)
    assert vector == (-1, -1, -1, 0, -1, -1)
    assert A100.amounts(vector, default=-1) == {"gpu": 0}


def test_a_vector_made_before_a_kind_was_added_is_widened() -> None:
    old = STANDARD_KINDS.vector({"cpu": 1, "gpu": 2})
    assert A100.widened(old) == A100.vector({"cpu": 1, "gpu": 2})
    assert A100.widened(A100.widened(old)) == A100.widened(old)


def test_an_unknown_name_is_named_with_those_that_are_known() -> None:
    with pytest.raises(UnknownResource, match="unknown resource 'gpu/h100', 'tpu'; the cell has cpu, mem"):
        STANDARD_KINDS.vector({"tpu": 1, "cpu": 1, "gpu/h100": 1})


def test_what_a_host_offers_counts_where_the_cell_knows_it_and_has_no_licence_of_it() -> None:
    offer = {"cpu": 4000, "gpu/a100": 2000, "tpu": 1000, "matlab": 9000}
    assert A100.offered(offer, ()) == (4000, 0, 0, 0, 2000, 0)
    assert STANDARD_KINDS.offered(offer, ()) == (4000, 0, 0, 0)
    assert A100.ignored(offer, ()) == {"tpu": "UNKNOWN_RESOURCE", "matlab": "LICENCE"}


def test_what_a_host_offers_in_another_unit_than_the_cell_has_is_ignored() -> None:
    offer = {"cpu": 4000, "memory": 100, "gpu/a100": 2048}
    assert A100.offered(offer, ("gpu/a100",)) == (4000, 100, 0, 0, 0, 0)
    assert A100.ignored(offer, ("gpu/a100", "memory")) == {"gpu/a100": "WRONG_UNIT"}


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(1500, Unit.MILLI, "1.5"), (-20, Unit.MILLI, "-0.02"), (3000, Unit.MILLI, "3"), (0, Unit.MIB, "0MiB"),
     (3072, Unit.MIB, "3GiB"), (1 << 21, Unit.MIB, "2TiB"), (5, None, "5 (thousandths or MiB)")],
)  # fmt: skip
def test_amounts_in_messages_are_written_as_users_write_them(value, unit, text) -> None:
    assert amount_text(value, unit) == text


def test_amounts_out_of_bounds_are_told_in_the_unit_of_the_resource() -> None:
    assert amounts_fault({"cpu": -500}) == "cpu is -0.5, it must be 0 to 274877906.944"
    assert amounts_fault({"memory": 1 << 39}) == "memory is 524288TiB, it must be 0MiB to 262144TiB"


def test_arithmetic() -> None:
    a, b = (5, 7, 0, 1), (1, 2, 3, 4)
    assert add(a, b) == (6, 9, 3, 5)
    assert add(a, b, -2) == (3, 3, -6, -7)
    assert subtract(a, b) == (4, 5, -3, -3)
    assert scale(b, 3) == (3, 6, 9, 12)
    assert [fits(need, a) for need in ((2, 0, 0, 0), (0, 8, 0, 0), (1, 1, 0, 1))] == [2, 0, 1]
    assert fits((0, 0, 0, 0), a) == UNBOUNDED
    assert fits((1, 0, 0, 0), (-3, 0, 0, 0)) == 0


def test_vectors_of_different_kinds_are_never_combined() -> None:
    for combine in (add, subtract, fits):
        with pytest.raises(ValueError, match="amounts of 4 and 6 kinds"):
            combine((0, 0, 0, 0), A100.vector({}))


def test_beyond_64_bits_arithmetic_raises_and_within_the_bounds_it_never_does() -> None:
    most = (AMOUNT_MAX,) * KINDS_MAX
    assert add(scale(most, TASKS_MAX), most, TASKS_MAX - 1)
    assert min(subtract((0,) * KINDS_MAX, scale(most, TASKS_MAX))) < 0
    for beyond in (lambda: add((LONG_MAX,), (1,)), lambda: scale((1 << 62,), 2), lambda: subtract((-LONG_MAX,), (2,))):
        with pytest.raises(OverflowError):
            beyond()
    with pytest.raises(OverflowError):
        STANDARD_KINDS.vector({"cpu": 1 << 63})


@pytest.mark.parametrize(
    ("amounts", "fault"),
    [
        ({"cpu": 1, "gpu/a100": AMOUNT_MAX}, ""),
        ({"cpu": -1}, "cpu is -0.001, it must be 0 to"),
        ({"cpu": AMOUNT_MAX + 1}, "it must be 0 to"),
        ({"": 1}, "'' is no name of a resource"),
        ({"a/b/c": 1}, "is no name of a resource"),
        ({f"kind-{number}": 1 for number in range(KINDS_MAX + 1)}, "33 resources are named, at most 32"),
    ],
)
def test_amounts_beyond_their_bounds_have_a_fault(amounts: dict[str, int], fault: str) -> None:
    said = amounts_fault(amounts)
    assert fault in said
    assert bool(fault) == bool(said)
