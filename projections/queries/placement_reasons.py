"""Reasons of placement: why tasks find no host, with the numbers of hosts."""

import msgspec

from events.abilities import DEVICE, NEEDED, field_of
from events.codes import Code
from events.quantities import write_amounts
from events.reasons import OPERATOR, YOU, kind_of
from events.resources import Kinds, in_order
from events.words import listed
from paceline.client.json_type import Json
from projections.queries.reason import Reason, Remedy, counted, text_of
from projections.queries.sentences import bound_host_text, funnel
from projections.record_json import at
from projections.views.rows import ExplanationRow

AWAY = dict.fromkeys(("returning", "silent", "lost"))
"""Reasons of hosts for which it is no help that others leave."""
HIGHER_TARGET = Remedy(YOU, "raise the target of a value that has room, or leave out `hard`; more hosts may help")
SHRUNKEN = "offers less than runs there"
HOSTS = "hosts_considered", "hosts_by_reason", "nearest"
GROUPS = "level", "segment", "groups", "groups_considered"
GROW = Remedy(OPERATOR, "have that host offer more again, or stop runs there; `paceline host list` shows which it is")
MORE_HOSTS = Remedy(OPERATOR, "add hosts, or ask for less")


def of_row(row: ExplanationRow, waiting: int, kinds: Kinds, becomes: str = "", taint: str = "") -> Reason:
    """Why tasks have no host. `waiting`: how many there are now; `becomes`: what becomes of them by themselves;
    `taint`: which keeps them away, and how it goes.
    """
    numbers: Json = msgspec.json.decode(row.numbers)
    tasks = min(row.tasks or waiting, waiting)
    size, fit, missing = numbers.get("size", 1), numbers.get("fit", 0), numbers.get("missing", "")
    some = size > 1 and fit
    text, remedy = _text(row.code, tasks, numbers, kinds), remedy_of(row.code, becomes)
    fields = {"fit": fit if size > 1 else None, "missing": missing or None}
    if kind_of(row.code).bound:
        busy = row.code == Code.BOUND_HOST_IN_MAINTENANCE or (
            row.code == Code.BOUND_HOST_BUSY and not AWAY.keys() >= numbers.get("hosts_by_reason", {}).keys()
        )
        remedy, fields = remedy if busy else None, {}
    else:
        if row.code == Code.NO_GROUP_FITS and numbers.get("level"):
            text, remedy = _without_group(text, numbers)
        if row.code == Code.NEVER_FITS and some:
            text = f"at most {fit} of the gang's {size} tasks {'fits' if fit == 1 else 'fit'}, even on empty hosts"
            remedy = MORE_HOSTS
        if row.code == Code.HOSTS_TAINTED and some:
            text = f"{fit} of the {size} tasks of the gang would fit on hosts without taints, even if nothing else ran;"
            text += " the others find only hosts with taints that the job doesn't tolerate"
        if row.code == Code.HOSTS_TAINTED and taint:
            remedy = Remedy(YOU, f"tolerate the taints: `tolerations` of the job; {taint}")
        failed = numbers.get("hosts_by_reason", {})
        if (
            row.code == Code.NO_HOST_FITS
            and SHRUNKEN in failed
            and all(name == SHRUNKEN or name.startswith("constraint:") for name in failed)
        ):
            remedy = GROW
        if row.code == Code.CONSTRAINT_MISMATCH:
            remedy = _without_ability(numbers) or remedy
        if "spread target" in numbers.get("hosts_by_reason", ()):
            remedy = HIGHER_TARGET if row.code == Code.SPREAD_LIMIT else remedy
        if missing and some:
            text += f"; without a place: {'task' if missing.isdigit() else 'tasks'} {missing}"
        if row.code != Code.WAITING_FOR_HOST:
            text += funnel(numbers, kinds)
        if row.code in (Code.NO_GROUP_FITS, Code.NO_DEVICES_FIT, Code.NEVER_FITS):
            text += _rooms(row.code, numbers)
    need = numbers.get("need")
    fields |= funnel_of(row, kinds) | {"tasks": tasks, "round": row.round}
    fields["asked"] = write_amounts(in_order(need), kinds.units) if need else None
    return Reason(row.code, text, row.machine, row.since_ms, remedy, waiting, fields)


def _without_ability(numbers: Json) -> Remedy | None:
    """The remedy where hosts lack what a field of the job needs; None: a constraint was written by somebody."""
    attributes = [name.removeprefix("constraint:") for name in numbers.get("hosts_by_reason", ())]
    if not all(each in NEEDED or each.startswith(DEVICE) for each in attributes):
        return None
    fields = ", ".join(dict.fromkeys(map(field_of, attributes)))
    return (
        Remedy(YOU, f"leave out {fields} of the job, or add hosts that offer {', '.join(attributes)} (docs/hosts.md)")
        if fields
        else None
    )


def _text(code: str, tasks: int, numbers: Json, kinds: Kinds) -> str:
    if kind_of(code).bound:
        return bound_host_text(tasks, numbers, kinds)
    words = counted(tasks) | {"within": numbers.get("level") or "value of `within`"}
    return text_of(code, {"fit": 0, "size": 1, **numbers, **words, "until": at(numbers.get("until_ms", 0))})


def _rooms(code: str, numbers: Json) -> str:
    """The tasks of a gang for which groups of hosts have room: `; room by rack, in tasks: a 12, b 8 and 3 more`."""
    groups, empty = numbers.get("groups", ()), ", if nothing ran" if code == Code.NEVER_FITS else ""
    if not groups:
        return ""
    rooms = [f"{group['value'] or 'none'} {group['fit']}" for group in groups]
    return f"; room by {numbers['level']}, in tasks{empty}: {listed(rooms, len(rooms), numbers['groups_considered'])}"


def _without_group(text: str, numbers: Json) -> tuple[str, Remedy]:
    """Why no group of hosts holds a gang, or a segment more of it, and what would help."""
    level, segment, most = numbers["level"], numbers["segment"], numbers["groups"][0]["fit"] if numbers["groups"] else 0
    if segment:
        text = f"{numbers['fit']} of the {numbers['size']} tasks of the gang find room in segments of {segment}"
        remedy = Remedy(YOU, f"smaller segments help, or room for a whole one in one {level}")
        return f"{text}, each in one {level}", remedy
    smaller = f"a gang of {most} fits now; " if most > 1 else ""
    return text, Remedy(YOU, f"{smaller}`near: {level}` instead of `within` lets it be in several")


def remedy_of(code: str, becomes: str) -> Remedy | None:
    """The remedy of a code, behind what becomes of tasks by themselves."""
    kind = kind_of(code)
    return Remedy(kind.actor, f"{becomes}; {kind.remedy}") if becomes and kind.remedy else None


def funnel_of(row: ExplanationRow | None, kinds: Kinds) -> Json:
    """The number of hosts that failed for each reason, and those that lacked least; the room of groups of hosts."""
    numbers: Json = msgspec.json.decode(row.numbers) if row else {}
    for near in numbers.get("nearest", ()):
        near["lacks"] = write_amounts(in_order(near["lacks"]), kinds.units)
    grouped = numbers if numbers.get("level") else {}
    return {name: numbers.get(name) for name in HOSTS} | {name: grouped.get(name) for name in GROUPS}
