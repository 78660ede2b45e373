"""The groups of jobs that share a budget: which there are. Sla counts what is left of each."""

import re

import msgspec

from events.bounds import INT_MAX, SLA_GROUPS_MAX
from events.codes import Code
from events.records.lifecycle import SlaGroupSet
from events.sla import GROUP_PATTERN, Bounds
from processors.lifecycle.rows import GroupAskRow
from processors.lifecycle.updates.commands import Answer
from processors.state.causes import job_fact
from processors.state.table import Table, struct_table


class GroupRow(msgspec.Struct, frozen=True, array_like=True):
    """The bounds of a group; `max_unavailable` and `max_unavailable_percent` exclude each other, so do the others."""

    max_unavailable: int | None = None
    max_unavailable_percent: int | None = None
    min_available: int | None = None
    min_available_percent: int | None = None


class SlaGroups:
    """Answers to those who set or remove groups; the jobs that name one needn't be there, nor it before them."""

    def __init__(self) -> None:
        self.table: Table[str, GroupRow] = struct_table("sla_groups", GroupRow)

    def answer(self, offset: int, ask: GroupAskRow) -> Answer:
        """A group is to have these bounds, or to be no more."""
        there = self.table.get(ask.group)
        if ask.remove:
            if there is None:
                return Answer(Code.NOT_FOUND, f"there is no SLA group {ask.group[:140]}")
            removed = SlaGroupSet(group=ask.group, removed=True, cause=job_fact(offset))
            return Answer(Code.DONE, f"SLA group {ask.group} has no budget any more", (removed,))
        if fault := _fault(ask):
            return Answer(Code.INVALID_SPEC, fault)
        bounds = Bounds.of(ask.max_unavailable, ask)
        text = f"SLA group {ask.group}: {bounds.words()}"
        if there == GroupRow(*bounds):
            return Answer(Code.REPEATED, f"{text}, as before")
        if there is None and len(self.table) >= SLA_GROUPS_MAX:
            return Answer(Code.INVALID_SPEC, f"there are {len(self.table)} SLA groups, at most that many are known")
        decided = SlaGroupSet(group=ask.group, **bounds._asdict(), cause=job_fact(offset))
        return Answer(Code.DONE, text, (decided,))

    def said(self, event: SlaGroupSet, now: int) -> None:
        """A group has these bounds, or is no more."""
        if event.removed:
            self.table.remove(event.group)
        else:
            self.table.put(event.group, GroupRow(*Bounds.of(event.max_unavailable, event)))


def _fault(ask: GroupAskRow) -> str:
    """The fault of a group; empty: there is none."""
    bounds = Bounds.of(ask.max_unavailable, ask)
    if not re.fullmatch(GROUP_PATTERN, ask.group):
        return f"the name {ask.group[:140]!r} must be 1 to 128 of a-z, 0-9, dot, dash, underscore"
    if bounds == Bounds():
        return "a group has max_unavailable or min_available, or both"
    for field, value in bounds._asdict().items():
        most = 100 if field.endswith("percent") else INT_MAX
        if value is not None and not 0 <= value <= most:
            return f"{field} is {value}, it must be 0 to {most}"
    for number, percent in ((bounds[0], bounds[1]), (bounds[2], bounds[3])):
        if number is not None and percent is not None:
            return "a bound is a number or a percentage, not both"
    return ""
