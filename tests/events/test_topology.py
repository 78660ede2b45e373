"""The levels of a cell's tree of hosts."""

import pytest

from events.topology import levels_fault


@pytest.mark.parametrize("levels", [[], ["rack"], ["row", "rack", "host"], ["rack", "host", "link_group"], ["host"]])
def test_levels_end_with_attributes_hosts_or_link_groups(levels: list[str]) -> None:
    assert levels_fault(levels) == ""


@pytest.mark.parametrize(
    ("levels", "fault"),
    [
        (["rack", "link_group"], "names link_group, groups of cards within a host, and not host just before it"),
        (["link_group"], "names link_group, groups of cards within a host, and not host just before it"),
        (["host", "rack"], "names rack below host, where link_group alone may be"),
        (["host", "link_group", "rack"], "names rack below link_group, which is the last level"),
        (["rack", "rack"], "names rack twice"),
    ],
)
def test_what_is_wrong_with_levels_is_said(levels: list[str], fault: str) -> None:
    assert levels_fault(levels) == fault
