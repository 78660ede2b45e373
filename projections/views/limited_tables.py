"""The tables of the views as a limited reader sees them: which rows, and which columns say less (decision 101).

A connection of such a reader has a temporary view of the name of each table. SQLite looks there first, so a query that
names a table finds what its reader may see, and one that is to find all says `main.` before it. What stands in blocks
over the tasks of all jobs is found by the rows of jobs.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from events.pool_paths import ROOT, levels_of
from projections.access.limits import OTHER_JOB, OTHER_POOL, Limits
from projections.views import tables

Condition = Callable[[Limits], str]


class Seen(NamedTuple):
    """The part of a table that limited readers see: the rows of which a condition holds, and what stands in columns
    that don't show what is there.
    """

    rows: Condition
    columns: Mapping[str, Condition] = {}


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _whole(limits: Limits) -> str:
    return "1"


def _nothing(limits: Limits) -> str:
    return "0"


def _in_pools(limits: Limits, column: str) -> str:
    """Whether a column names a pool that may be seen."""
    parts = (
        f"{column} = {_quoted(pool)} OR {column} > {_quoted(f'{pool}/')} AND {column} < {_quoted(f'{pool}0')}"
        for pool in limits.pools
    )
    return f"({' OR '.join(parts) or '0'})"


def _is_job(limits: Limits, column: str) -> str:
    """Whether a column names a job that may be seen."""
    if limits.job_id:
        return f"{column} = {_quoted(limits.job_id)}"
    # Names that no table has: a plain `job_id` of the row that is asked about would be that of the job itself in here.
    own = "(SELECT job_id AS own_id, pool AS own_pool FROM main.jobs)"
    return f"EXISTS (SELECT 1 FROM {own} WHERE own_id = {column} AND {_in_pools(limits, 'own_pool')})"


def by_pool(column: str) -> Condition:
    """Rows of pools, by the column that names one."""
    return lambda limits: _in_pools(limits, column)


def by_job(column: str) -> Condition:
    """Rows of jobs, by the column that names one."""
    return lambda limits: _is_job(limits, column)


def jobs_seen(limits: Limits, pool: str = "pool") -> str:
    """The condition of the jobs that may be seen, over the table of all jobs."""
    return f"job_id = {_quoted(limits.job_id)}" if limits.job_id else _in_pools(limits, pool)


def _pool_name(column: str) -> Condition:
    """A pool as it is named."""

    def name(limits: Limits) -> str:
        is_known = f"{column} IN ('', {_quoted(ROOT)}) OR {_in_pools(limits, column)}"
        if limits.job_id:
            is_known += f" OR {column} = (SELECT pool FROM main.jobs WHERE job_id = {_quoted(limits.job_id)})"
        return f"CASE WHEN {is_known} THEN {column} ELSE {_quoted(OTHER_POOL)} END"

    return name


def _job_name(column: str) -> Condition:
    """A job as it is named."""
    return lambda limits: (
        f"CASE WHEN {column} = '' OR {_is_job(limits, column)} THEN {column} ELSE {_quoted(OTHER_JOB)} END"
    )


def _if_own_job(column: str, value: str, other: str) -> Condition:
    """A value where a column names a job that may be seen, else another one."""
    return lambda limits: f"CASE WHEN {_is_job(limits, column)} THEN {value} ELSE {other} END"


def _value(text: str) -> Condition:
    return lambda limits: text


def _histories(limits: Limits) -> str:
    """Those of jobs, and of pools and hosts, whose names begin with a slash."""
    pools = _in_pools(limits, "substr(job_id, 7)")
    number = "SELECT number FROM main.hosts WHERE host_id = substr(job_id, 8)"
    hosts = f"substr(job_id, 1, 7) = '/hosts/' AND own_runs(({number}))"
    return (
        f"CASE WHEN substr(job_id, 1, 1) <> '/' THEN {_is_job(limits, 'job_id')} "
        f"WHEN substr(job_id, 1, 7) = '/pools/' THEN {pools} ELSE {hosts} END"
    )


def _orders(limits: Limits) -> str:
    """Orders for a job that may be seen, or of which one is a victim."""
    victims = "SELECT 1 FROM main.victims AS left_for WHERE left_for.number = orders.number"
    return f"({_is_job(limits, 'for_job')} OR EXISTS ({victims} AND {_is_job(limits, 'left_for.job_id')}))"


def _of_own_hosts(limits: Limits) -> str:
    return "EXISTS (SELECT 1 FROM temp.hosts AS own WHERE own.host_id = host_stages.host_id)"


def _lockdowns(limits: Limits) -> str:
    """Those by which something is refused in pools that may be seen: of these, of those below and of all above."""
    above = sorted({ROOT, *(each for pool in limits.pools for each in levels_of(pool))})
    return f"(pool IN ({', '.join(map(_quoted, above))}) OR {_in_pools(limits, 'pool')})"


def _groups(limits: Limits) -> str:
    """Budgets that a job shares that may be seen."""
    sharers = f"sharer.shared = sla_groups.name AND {_is_job(limits, 'sharer.job_id')}"
    return f"EXISTS (SELECT 1 FROM main.slas AS sharer WHERE {sharers})"


_OF_WINNER = {"victims": "0", "for_first": "0", "for_count": "0", "for_run": "0", "host_ids": "'[]'", "spared": "'{}'"}
"""Columns of orders that say something of the job for which others leave, and what stands there for other readers."""
SEEN: Mapping[str, Seen] = {
    # by pool
    "pools": Seen(by_pool("path")),
    "pool_facts": Seen(by_pool("path")),
    "pool_use": Seen(by_pool("path")),
    "pool_numbers": Seen(by_pool("path")),
    "forecast_scores": Seen(by_pool("pool")),
    "forecasts": Seen(by_job("job_id")),
    "pool_tasks": Seen(by_pool("path")),
    "turns": Seen(by_pool("pool")),
    "credits": Seen(by_pool("pool")),
    "month_usage": Seen(by_pool("pool")),
    "week_waits": Seen(by_pool("pool")),
    "holds": Seen(by_pool("pool"), {"at": _pool_name('"at"')}),
    "bindings": Seen(by_pool("pool")),
    "lockdowns": Seen(_lockdowns),
    # by job
    "jobs": Seen(jobs_seen),
    "submissions": Seen(by_job("job_id")),
    "commands": Seen(by_job("job_id")),
    "versions": Seen(by_job("job_id")),
    "updates": Seen(by_job("job_id")),
    "update_steps": Seen(by_job("job_id")),
    "stops": Seen(by_job("job_id")),
    "past_runs": Seen(by_job("job_id")),
    "run_reports": Seen(by_job("job_id")),
    "run_devices": Seen(by_job("job_id")),
    "run_needs": Seen(by_job("job_id")),
    "slas": Seen(by_job("job_id")),
    "volumes": Seen(by_job("job_id")),
    "explanations": Seen(by_job("job_id"), {"numbers": _value("named_numbers(numbers)")}),
    "waiting": Seen(by_job("job_id")),
    "victims": Seen(by_job("job_id")),
    "reservations": Seen(by_job("job_id")),
    "disruptions": Seen(by_job("job_id")),
    "deferrals": Seen(by_job("job_id")),
    "job_usage": Seen(by_job("job_id")),
    "job_waits": Seen(by_job("job_id")),
    # by what they name
    "history": Seen(_histories),
    "orders": Seen(
        _orders,
        {
            "for_pool": _pool_name("for_pool"),
            "for_job": _job_name("for_job"),
            **{name: _if_own_job("for_job", name, none) for name, none in _OF_WINNER.items()},
            "from_pools": _if_own_job("for_job", "named_pools(from_pools)", "'{}'"),
            "from_jobs": _if_own_job("for_job", "named_jobs(from_jobs)", "'{}'"),
        },
    ),
    "sla_groups": Seen(_groups),
    "hosts": Seen(
        _value("own_runs(number)"),
        {
            "runs": _value("own_runs(number)"),
            "allocated": _value("own_amounts(number)"),
            "cpu_used": _value("0"),
            "memory_used": _value("0"),
            "loaded_ms": _value("0"),
            "slack": _value("0"),
            "suspect_job": _job_name("suspect_job"),
            "suspect_instance": _if_own_job("suspect_job", "suspect_instance", "0"),
            "suspect_run": _if_own_job("suspect_job", "suspect_run", "0"),
        },
    ),
    "host_stages": Seen(_of_own_hosts, {name: _value("''") for name in ("source", "message", "reason", "actor")}),
    # whole: what tells nothing of others, is named by what may be seen, or is the log's positions
    "positions": Seen(_whole),
    "chains": Seen(_whole),
    "rounds": Seen(_whole),
    "answers": Seen(_whole),
    "meta": Seen(_whole),
    "override_chunks": Seen(_whole),
    "task_blocks": Seen(_whole),
    "port_blocks": Seen(_whole),
    "host_names": Seen(_whole),
    "series": Seen(_value("part > 0")),
    # the cell's alone
    "access_facts": Seen(_nothing),
    "access_tokens": Seen(_nothing),
    "token_uses": Seen(_nothing),
    "invitations": Seen(_nothing),
    "certificates": Seen(_nothing),
    "host_removals": Seen(_nothing),
    "owners": Seen(_nothing),
    "week_owners": Seen(_nothing),
    "quarantine": Seen(_nothing),
    "unread": Seen(_nothing),
    "tallies": Seen(_nothing),
    "marks": Seen(_nothing),
    "host_commands": Seen(_nothing),
    "host_pools": Seen(_nothing),
    "host_pool_moves": Seen(_nothing),
    "maintenances": Seen(_nothing),
    "maintenance_hosts": Seen(_nothing),
    "maintenance_windows": Seen(_nothing),
}
"""By the name of each table; of one that isn't here limited readers see nothing."""


def statements(limits: Limits) -> list[str]:
    """The statements that make a connection one of a reader with these limits."""
    return [_view(name, SEEN.get(name, Seen(_nothing)), limits) for name in tables.metadata.tables]


def _view(name: str, seen: Seen, limits: Limits) -> str:
    columns = (
        f'{seen.columns[column.name](limits)} AS "{column.name}"' if column.name in seen.columns else f'"{column.name}"'
        for column in tables.metadata.tables[name].columns
    )
    return f"CREATE TEMP VIEW {name} AS SELECT {', '.join(columns)} FROM main.{name} WHERE {seen.rows(limits)}"
