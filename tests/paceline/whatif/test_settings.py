"""`--set`: what may be written, and what becomes of it."""

import pytest

from events.records.pools import CellConfigured, PoolDefined
from paceline.client.errors import InvalidValue
from paceline.simulate.world.cell import START_MS
from paceline.whatif.settings import change_from, change_of, read_setting
from paceline.whatif.stretch import Stretch, read_stretch
from tests.paceline.whatif.recorded import THREE_TEAMS, of_file


@pytest.fixture(scope="module")
def stretch() -> Stretch:
    log, end_ms = of_file(THREE_TEAMS)
    return read_stretch(log, START_MS + 60_000, end_ms)


def test_fields_of_pools_and_settings_of_the_cell_are_changed_and_the_rest_stays(stretch):
    texts = ("/b:share:gpu=4", "/b:limit:cpu=8", "/a:preemption_delay=never", "cell:preemption_delay=60s")
    change = change_of(stretch, [read_setting(text) for text in texts], {})
    b, a, cell = change.first
    assert isinstance(b, PoolDefined)
    assert isinstance(a, PoolDefined)
    assert isinstance(cell, CellConfigured)
    assert (b.share, b.share_default, b.limit) == ({"gpu": 4}, 1, {"cpu": 8000})
    assert (a.preemption_delay_ms, a.limit) == (-1, {})
    assert cell.preemption_delay_ms == 60_000
    assert cell.settle_ms is None
    assert change.lines == [
        "/b limit: none -> cpu 8",
        "/b share: 1 -> gpu 4, others 1",
        "/a preemption_delay: none -> never",
        "cell preemption_delay: 2m -> 1m",
    ]


def test_a_change_that_only_a_later_definition_meets_is_told_too(stretch):
    machine = stretch.fold("entitlement").machine
    [setting] = [read_setting("/b:share=1")]  # as it is
    assert change_from(machine, 0, [setting], {}).lines == []
    later = PoolDefined(path="/b", command_id="later", limit={}, share_default=2)
    assert change_from(machine, 0, [setting], {}, {"/b": later}).lines == ["/b is defined otherwise later"]


def test_of_a_pool_that_is_defined_within_the_stretch_each_field_that_changes_is_told(stretch):
    machine = stretch.fold("entitlement").machine
    later = PoolDefined(path="/maps", command_id="later", limit={"cpu": 4000}, share_default=1)
    settings = [read_setting("/maps:share=2"), read_setting("/maps:limit:cpu=8")]
    change = change_from(machine, 0, settings, {}, {"/maps": later})
    assert change.lines == ["/maps limit: cpu 4 -> cpu 8", "/maps share: 1 -> 2"]


def test_later_definitions_have_the_changed_fields_and_their_own_others(stretch):
    change = change_of(stretch, [read_setting("/b:share=4"), read_setting("cell:settle=1m")], {})
    later = change.alter(PoolDefined(path="/b", command_id="later", limit={"cpu": 2000}, share_default=2))
    assert isinstance(later, PoolDefined)
    assert (later.command_id, later.limit, later.share_default) == ("later", {"cpu": 2000}, 4)
    other = PoolDefined(path="/c", command_id="other", share_default=2)
    assert change.alter(other) is other
    again = change.alter(CellConfigured(command_id="x", settle_ms=5, hold_for_ms=7))
    assert isinstance(again, CellConfigured)
    assert (again.settle_ms, again.hold_for_ms) == (60_000, 7)
    assert change.alter(CellConfigured(command_id="x", hold_for_ms=7)) == CellConfigured(command_id="x", hold_for_ms=7)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("/b:share", "is no change"),
        ("b:share=2", "is no change"),
        ("/b=2", "is no change"),
        ("/b:shares=2", "did you mean share?"),
        ("/b:path=/c", "can be changed"),
        ("/b:closed:cpu=true", "isn't by resource"),
        ("/b:limit=4", "/b:limit:cpu=4"),
        ("cell:preemption_dely=1s", "did you mean preemption_delay?"),
    ],
)
def test_what_is_no_change_is_refused_with_what_to_write(text, why):
    with pytest.raises(InvalidValue, match=why.replace("?", r"\?")):
        read_setting(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("/bb:share=2", "there is no pool /bb"),
        ("/b:closed=maybe", "/b:closed must be true or false"),
        ("/b:host_pools=shard", r"/b:host_pools: there is no host pool shard; did you mean shared\?"),
        ("/b:share=many", "/b:share must be a whole number"),
        ("/b:limit:cpu=lots", "/b:limit:cpu"),
        ("cell:preemption_delay=soon", "cell:preemption_delay"),
    ],
)
def test_a_value_that_cant_be_is_refused(stretch, text, why):
    with pytest.raises(InvalidValue, match=why):
        change_of(stretch, [read_setting(text)], {})
