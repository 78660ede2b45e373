"""Settings of a cell: what a new one needs is its field in the record, and one with bounds and default in Settings."""

import pytest

from events.cell_settings import (
    DEFAULTS,
    LISTS,
    TYPES,
    Settings,
    SettingsChange,
    bounds,
    change_fault,
    change_of,
    changed,
)
from events.records.parts import ConditionPolicy
from events.records.pools import CellConfigured
from events.spec.settings import CellSpec, descriptions, settings_json


def test_each_setting_is_a_field_of_the_record_and_can_be_written_by_users() -> None:
    fields = set(CellConfigured.__struct_fields__) - {"command_id", "reason", "actor"}
    assert fields == set(Settings.__struct_fields__) == {*TYPES, *LISTS}
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


def test_a_setting_that_is_one_of_some_words_is_nothing_else() -> None:
    fault = change_fault(DEFAULTS, change_of(CellConfigured(command_id="", access="everyone")))
    assert fault == "access is 'everyone', it must be open or roles"
    assert CellSpec.model_validate({"access": "roles"}).to_event("c").access == "roles"
    with pytest.raises(ValueError, match="'open' or 'roles'"):
        CellSpec.model_validate({"access": "everyone"})


def policies(*policies: ConditionPolicy) -> SettingsChange:
    return change_of(CellConfigured(command_id="", conditions=policies))


def test_policies_of_conditions_are_set_one_by_one_and_taken_back() -> None:
    settings = changed(
        DEFAULTS, policies(ConditionPolicy("raid", "off"), ConditionPolicy("disk-full", "drain", 60_000))
    )
    settings = changed(settings, policies(ConditionPolicy("raid", "avoid")))
    assert settings_json(settings)["conditions"] == [
        {"name": "disk-full", "policy": "drain", "drain_after": "1m"},
        {"name": "raid", "policy": "avoid"},
    ]
    both = policies(ConditionPolicy("raid", "default"), ConditionPolicy("disk-full", "default"))
    assert changed(settings, both) == DEFAULTS


def test_a_wrong_policy_is_told() -> None:
    faults = {
        ConditionPolicy("Raid!", "off"): "'Raid!' is no name of a condition",
        ConditionPolicy("suspected", "off"): "suspected has no policy",
        ConditionPolicy("raid", "reboot"): "raid is 'reboot', it must be avoid, drain, off or default",
        ConditionPolicy("raid", "avoid", 60_000): "raid: only drain has a time",
        ConditionPolicy("raid", "drain", 0): "raid: only drain has a time",
    }
    for policy, fault in faults.items():
        assert fault in change_fault(DEFAULTS, policies(policy))
    assert "raid is named twice" in change_fault(DEFAULTS, policies(*[ConditionPolicy("raid", "off")] * 2))
