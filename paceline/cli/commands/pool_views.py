"""Prints pools for people."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from paceline.cli.commands.common import cell_column
from paceline.cli.commands.lockdown import Lockdowns
from paceline.client.json_type import Json
from paceline.output import Column, TableOptions, cores, facts, gib, note, other_columns, say, table, when, words

if TYPE_CHECKING:
    from paceline.client.pool_models import (
        CellCapacity,
        Entitlement,
        FieldChange,
        JobOutlook,
        Pool,
        PoolChange,
        PoolPlans,
        PoolTree,
        Queue,
    )

LISTED = {
    "reservation": "RESERVED",
    "limit": "LIMIT",
    "entitlement": "ENTITLED",
    "demand": "DEMAND",
    "held": "USED",
}
"""The amounts of a list of pools, by their titles."""
NO_LIMIT = "no limit"
AMOUNT_FIELDS = ("reservation", "limit", "entitlement", "demand", "allocation", "held", "without_hosts", "capacity")
NOTHING = {
    "reservation": "none",
    "limit": NO_LIMIT,
    "static": "none",
    "preemption_delay": "that of the cell",
    "owners": "none",
    "description": "none",
    "strategy": "none",
    "host_pools": "those of the pool above, else by the kind of each job",
    "over_since": "it isn't over",
    "under_since": "it isn't under",
    "queue": "nobody waits",
    "turn": "none",
    "credit": "none",
    "warnings": "none",
}
"""The meaning of a field without a value."""
SHOWN = ("reservation", "limit", "entitlement", "held", "without_hosts", "demand")
FACTORS = {"MiB": 1, "GiB": 1 << 10, "TiB": 1 << 20}
JOBS_SHOWN = 10


def pool_columns(pools: "Sequence[Pool]", lockdowns: Lockdowns) -> list[Column]:
    """The columns of a list of pools: of CPU and of memory what is told of each, then its jobs, and where there are
    some its lockdowns.
    """
    locked = {each["path"]: lockdowns.of(each["path"], each.get("cell")) for each in pools}
    columns = [Column("POOL", lambda each: each["path"])]
    for unit, name, say_amount in (("CPU", "cpu", cores), ("GiB", "memory", gib)):
        columns += [
            Column(f"{title} {unit}", partial(_amount_in, field, name, say_amount), right=True)
            for field, title in LISTED.items()
        ]
    columns += other_columns(pools, {field: f"{title} OTHER" for field, title in LISTED.items()})
    columns.append(Column("JOBS", lambda each: each.get("open_jobs"), right=True))
    columns.append(Column("TASKS", lambda each: each.get("open_tasks"), right=True))
    if any(locked.values()):
        columns.append(Column("LOCKED DOWN", lambda each: locked[each["path"]]))
    return columns + cell_column(pools)


def _amount_in(field: str, name: str, say_amount: Callable[[Any], str], pool: Mapping[str, Any]) -> str:
    amounts = pool.get(field) or {}
    return NO_LIMIT if field == "limit" and name not in amounts else say_amount(amounts)


def print_pool(body: "Pool", lockdown: str) -> None:
    """A pool, a line for each field. Each says in words what it means where there is nothing. `lockdown`: what holds
    for it; empty: none.
    """
    strategy = body.get("strategy_in_effect")
    values = {**body, "strategy": strategy["text"]} if strategy else body
    lines = [(name, _shown(name, value)) for name, value in values.items() if name != "strategy_in_effect"]
    facts([*lines, *_locked(lockdown)])
    note(f"its jobs: paceline job list --pool {body['path']}")


def print_cells(cells: "Iterable[CellCapacity]", lockdowns: Lockdowns) -> None:
    """The capacity of cells, the use of it, and their lockdowns."""
    for cell in cells:
        locked = _locked(lockdowns.of("/", cell["cell"]))
        facts([("path", "/"), *((name, _shown(name, value)) for name, value in cell.items()), *locked])


def _locked(lockdown: str) -> list[tuple[str, str]]:
    return [("locked_down", lockdown)] if lockdown else []


def _shown(name: str, value: Any) -> Any:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name in AMOUNT_FIELDS:
        return words(value) if value else NOTHING.get(name, "nothing")
    if name == "queue" and value:
        return ", ".join(f"{each.replace('_', '-')} {_count(line['tasks'], 'task')}" for each, line in value.items())
    if not value and name in NOTHING:
        return NOTHING[name]
    if name.endswith("_at") or name in ("over_since", "under_since"):
        return when(value)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return words(value) if isinstance(value, dict) else value


def print_tree(body: "PoolTree", resource: str, shape: TableOptions) -> None:
    """The tree of pools in one resource, a line each."""
    cells = body["cells"]
    resources = dict.fromkeys(name for each in (*cells, *body["pools"]) for name in _names(each))
    if resource and resource not in resources:
        raise click.BadParameter(f"no pool has {resource}; there are {', '.join(resources)}", param_hint="--resource")
    name = resource or "cpu"
    several = len(cells) > 1
    rows = [row for cell in cells for row in _rows(cell, body["pools"], several)]

    def named(each: "Json") -> object:
        return each["path"] if shape.sort and each["path"] != "/" else each["title"]

    columns = [Column("POOL", named, order=lambda each: each["path"])]
    titles = {"reservation": "RESERVED", "share": "SHARE", "limit": "LIMIT", "entitlement": "ENTITLED"}
    titles |= {"held": "USED", "without_hosts": "WITHOUT HOSTS", "demand": "DEMAND"}
    for field, title in titles.items():
        columns.append(_amount_column(title, field, name))
    columns.append(Column("QUEUE", lambda each: each.get("waiting"), right=True))
    columns.append(Column("HEAD", lambda each: each.get("head")))
    columns.append(Column("NOTE", lambda each: each.get("note")))
    if shape.header:
        say(f"RESOURCE {name}")
    table(rows, columns, shape)
    if others := ", ".join(other for other in resources if other != name):
        note(f"other resources, with --resource NAME: {others}")
    for cell in cells:
        for warning in cell["warnings"]:
            note(f"cell {cell['cell']}: {warning}" if several else warning)


def _names(each: Mapping[str, Any]) -> Iterator[str]:
    for field in (*SHOWN, "capacity"):
        yield from (name for name, amount in each.get(field, {}).items() if number(amount))


def _rows(cell: "CellCapacity", pools: "list[Pool]", several: bool) -> "Iterator[Json]":
    """The lines of a cell: its capacity, then its pools, each below the one above it."""
    mine = [each for each in pools if each.get("cell", cell["cell"]) == cell["cell"]]
    title = f"/  (cell {cell['cell']})" if several else "/"
    waiting = sum(line["tasks"] for each in mine for line in each.get("queue", {}).values())
    yield {**cell, "path": "/", "title": title, "entitlement": cell["capacity"], "waiting": waiting}
    for each in sorted(mine, key=lambda pool: pool["path"].split("/")):
        depth = each["path"].count("/")
        lines = each.get("queue", {})
        below = [
            other for other in mine if other["path"] == each["path"] or other["path"].startswith(f"{each['path']}/")
        ]
        heads = (f"{line['head']['job_id']} {line['head']['code']}" for line in lines.values())
        yield {
            **each,
            "title": f"{'  ' * (depth - 1)}{each['path'] if depth == 1 else each['path'].rpartition('/')[2]}",
            "waiting": sum(line["tasks"] for one in below for line in one.get("queue", {}).values()),
            "head": ", ".join(heads),
            "note": ", ".join(_notes(each)),
        }


def _notes(each: "Pool") -> Iterator[str]:
    if each.get("closed"):
        yield "closed"
    if turn := each.get("turn"):
        yield f"turn of {turn['job_id']}"
    elif credit := each.get("credit"):
        yield f"saved {credit['percent']} % of a turn" if credit["saves"] else "saves nothing for a turn now"


def _amount_column(title: str, field: str, name: str) -> Column:
    def cell(row: "Json") -> object:
        amounts = row.get(field)
        if amounts is None:
            return None
        if field == "share":
            return amounts.get(name, amounts.get("others"))
        return _in_one_unit(amounts.get(name, NO_LIMIT if field == "limit" else 0))

    return Column(title, cell, right=True, order=lambda row: number(cell(row) or 0))


def _in_one_unit(amount: object) -> object:
    """A size in GiB, whatever unit it is written in; all else as it is."""
    text = str(amount)
    if text[-3:] not in FACTORS:
        return amount
    return f"{number(text) / FACTORS['GiB']:.3f}".rstrip("0").rstrip(".") + "GiB"


def number(amount: object) -> float:
    """An amount as the API has it, to compare it."""
    text = str(amount)
    if text == NO_LIMIT:
        return float("inf")
    return float(text[:-3]) * FACTORS[text[-3:]] if text[-3:] in FACTORS else float(text)


def print_queue(body: "Queue", leaves: "Sequence[Pool]", zone: str, shape: TableOptions) -> None:
    """Prints the jobs that wait, in the order of the queue of each class; `leaves`: the pools below it that
    jobs go to.
    """
    rows = [{"class": name, **gang} for name, line in body["classes"].items() for gang in line["gangs"]]

    def tasks(each: "Json") -> str:
        first, count = each["first"], each["count"]
        return str(first) if count == 1 else f"{first}-{first + count - 1}"

    columns = [
        Column("CLASS", lambda each: each["class"].replace("_", "-")),
        Column("JOB", lambda each: each["job_id"]),
        Column("TASKS", tasks, right=True),
        Column("PRIORITY", lambda each: each["priority"], right=True),
        Column("CODE", lambda each: each["code"]),
        Column("BY", lambda each: each["pool"]),
        Column("ASKED", lambda each: words(each["asked"])),
        Column("SINCE", lambda each: when(each["since"], zone), order=lambda each: each["since"]),
    ]
    table(rows, columns, shape)
    for name, line in body["classes"].items():
        tasks_ = _count(line["tasks"], "task")
        say(f"{name.replace('_', '-')}: {tasks_} of {_count(line['jobs'], 'job')} wait{'s' * (line['tasks'] == 1)}")
    placing = {name: tasks for name, tasks in body["waiting_for_place"].items() if tasks}
    if placing:
        say(f"admitted and without a place: {words(placing)}")
    if not body["classes"] and not placing:
        below = (f"{pool['path']} {_count(count, 'task')}" for pool in leaves if (count := _waiting(pool)))
        waiting = ", ".join(below)
        say(f"jobs wait in leaf pools: {waiting}" if waiting else f"nothing waits in pool {body['path']}")


def _waiting(pool: "Pool") -> int:
    """Counts the tasks that wait in a pool, for admission or for a place."""
    return sum(line["tasks"] for line in pool["queue"].values()) + sum(pool["waiting_for_place"].values())


def print_entitlement(body: "Entitlement", pool: "Callable[[], Pool]") -> None:
    """Prints what a pool may use, holds and wants, and why. `pool` is asked where it wants nothing."""
    uses = any((body["entitlement"], body["allocation"], body["demand"]))
    if not uses and body["path"] != "/":
        reserved = words(pool()["reservation"])
        own = f"its reservation is {reserved}" if reserved != "-" else "nothing is reserved for it"
        say(f"pool {body['path']} asks for nothing now; {own}")
    else:
        say(f"pool {body['path']} may use {_some(body['entitlement'])}")
        say(f"  holds    {_some(body['allocation'])}")
        say(f"  demands  {_some(body['demand'])}")
    for name, lines in body["lines"].items():
        say(name)
        for line in lines:
            say(f"  {line}")
    if body["note"]:
        note(body["note"])


def _some(amounts: "Mapping[str, object]") -> str:
    return words(amounts) if amounts else "nothing"


def print_plan(body: "PoolPlans") -> None:
    """Prints what a change of pools would do."""
    for plan in body["cells"]:
        for change in plan["changes"]:
            say(_change(change))
            for line in changed_fields(change["fields"]) if change["change"] == "change" else ():
                say(line)
        for each in plan["pools"]:
            before, after = words(each["entitlement"]["before"]), words(each["entitlement"]["after"])
            say(f"{each['path']} may use {after} instead of {before}, holds {words(each['allocation'])}")
        _print_work(plan["lets_in"], "would be let in")
        _print_work(plan["preempts"], "would be preempted")
    note("nothing was changed")


def _change(change: "PoolChange") -> str:
    done = {"create": "would be created", "change": "would be changed", "unchanged": "unchanged"}
    if change["change"] == "refuse":
        return f"pool {change['path']} would be refused: {change['message']} ({change['code']})"
    warning = f"; {change['message']}" if change["message"] and change["code"] == "DONE" else ""
    return f"pool {change['path']} {done[change['change']]}{warning}"


def changed_fields(fields: "Mapping[str, FieldChange]") -> list[str]:
    """A line for each field that a change of a pool gives another value."""
    return [f"  {name}: {_value(field['before'])} -> {_value(field['after'])}" for name, field in fields.items()]


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return str(value["others"]) if list(value) == ["others"] else words(value) or "-"
    return ", ".join(map(str, value)) or "-" if isinstance(value, list) else "-" if value in (None, "") else str(value)


def _print_work(work: "Iterable[JobOutlook]", what: str) -> None:
    listed = list(work)
    for each in listed[:JOBS_SHOWN]:
        say(f"{_count(each['tasks'], 'task')} of job {each['job_id']} in {each['pool']} {what}")
    if len(listed) > JOBS_SHOWN:
        say(f"and those of {_count(len(listed) - JOBS_SHOWN, 'more job')} {what}")


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
