"""Settings of a cell: what a new one needs is its field in the record, and one with bounds and default in Settings."""

from events.cell_settings import DEFAULTS, TYPES, Settings, bounds, change_fault, change_of, changed
from events.records.pools import CellConfigured
from events.spec.settings import CellSpec, descriptions, settings_json


def test_each_setting_is_a_field_of_the_record_and_can_be_written_by_users() -> None:
    fields = set(CellConfigured.__struct_fields__) - {"command_id", "reason", "actor"}
    assert fields == set(Settings.__struct_fields__) == {*TYPES, "resources"}
    assert settings_json(DEFAULTS).keys() == descriptions().keys() == CellSpec.model_fields.keys()
    assert all(getattr(CellConfigured(command_id=""), name) is None for name in TYPES)


def test_defaults_as_users_write_them_are_the_defaults_again() -> None:
    fact = CellSpec.model_validate(settings_json(DEFAULTS)).to_event("c")
    assert changed(DEFAULTS, change_of(fact)) == DEFAULTS
    assert change_of(fact).values.keys() == TYPES.keys()
    assert change_fault(DEFAULTS, change_of(fact)) == ""


def test_each_setting_has_bounds_that_are_named() -> None:
    for name in (name for name in TYPES if bounds(name)):
        fault = change_fault(DEFAULTS, change_of(CellConfigured(command_id="", **{name: -1})))
        least = 1000 if name in ("reserve_for_ms", "hold_for_ms") else 0
        assert fault.startswith(f"{name} is -1, it must be {least} to ")
