"""New names compare as the old ones did, however machines compare them."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from events.natural_order import natural_key
from paceline.history.anonymise import kinds
from paceline.history.anonymise.kinds import Kind, new_names
from tests.helpers.drawn import examples

ALL = [each for each in vars(kinds).values() if isinstance(each, Kind)]
NATURAL = [each for each in ALL if each.natural]
SEPARATED = [each for each in ALL if each.separator]
PARTS = st.sampled_from(["a", "b", "ab", "-", ".", "_", "0", "1", "9", "10", "01", "/", "=", "gpu", "host", " "])
NAMES = st.lists(st.lists(PARTS, max_size=5).map("".join), max_size=20)


def renamed(kind, names):
    new = new_names(kind, names)
    return {name: new.get(name, name) for name in names}


@examples(1000, 100)
@given(st.sampled_from(ALL), NAMES)
def test_they_sort_as_the_old_ones_did(kind, names):
    among = [*names, *kind.fixed] if kind.anchors else [name for name in names if name not in kind.fixed]
    new = renamed(kind, among)
    for one, other in product(among, repeat=2):
        assert (one < other) == (new[one] < new[other]), (one, other)


@examples(1000, 100)
@given(st.sampled_from(NATURAL), NAMES)
def test_they_sort_as_the_old_ones_did_in_natural_order(kind, names):
    new = renamed(kind, names)
    for one, other in product(names, repeat=2):
        assert (natural_key(one) < natural_key(other)) == (natural_key(new[one]) < natural_key(new[other]))


@examples(1000, 100)
@given(st.sampled_from(SEPARATED), NAMES)
def test_they_sort_as_the_old_ones_did_before_a_separator(kind, names):
    valid = [name for name in names if name and kind.valid(name)]
    new = renamed(kind, valid)
    for one, other, below in product(valid, valid, [*valid[:2], ""]):
        old = f"{one}{kind.separator}{below}" < other
        assert old == (f"{new[one]}{kind.separator}{new.get(below, '')}" < new[other])


@examples(1000, 100)
@given(st.sampled_from(ALL), NAMES)
def test_a_machine_takes_them_for_names_where_it_took_the_old_ones(kind, names):
    for old, new in renamed(kind, names).items():
        assert not old or kind.valid(old) == kind.valid(new)


def test_names_with_a_meaning_stay():
    names = ["cpu", "gpu", "gpu/a100", "gpu/h100", "fpga", "memory"]
    assert renamed(kinds.RESOURCE, names) == {
        "cpu": "cpu",
        "gpu": "gpu",
        "gpu/a100": "gpu/resource-2",
        "gpu/h100": "gpu/resource-3",
        "fpga": "disk-resource-1",
        "memory": "memory",
    }


def test_hosts_keep_both_of_their_orders():
    names = [f"rack2-node{number}" for number in (1, 9, 10, 11, 100)]
    assert [*renamed(kinds.HOST_ID, names).values()] == [f"host-a1-a{number}" for number in (1, 2, 10, 11, 100)]
