"""The strategies that hold for jobs and pools, and where each is from."""

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, select

from events.codec import decode
from events.pool_paths import levels_of
from events.records.pools import PoolDefined
from events.strategies import DEFAULT, PACK, STRATEGIES, default_strategy
from events.words import strategy_words
from paceline.client.models import StrategyInEffect
from projections.queries.cell_capacity import capacity_of
from projections.queries.versions import submission
from projections.views import tables
from projections.views.rows import JobRow


def named_strategies(connection: Connection, paths: Sequence[str] = ()) -> dict[str, str]:
    """The strategies that pools have in records, by path; of `paths` alone where they are given. At "" stands the
    default of new pools.
    """
    pools = tables.pools.c
    query = select(pools.path, pools.spec)
    gpus = capacity_of(connection).amounts.get("gpu", 0)
    strategies = {"": STRATEGIES[default_strategy(DEFAULT, gpus)]}
    for path, value in connection.execute(query.where(pools.path.in_(paths)) if paths else query):
        spec = decode(value) if value else None
        if isinstance(spec, PoolDefined) and spec.strategy:
            strategies[path] = spec.strategy
    return strategies


def strategy_of_pool(path: str, strategies: Mapping[str, str]) -> StrategyInEffect:
    """The strategy for jobs of a pool that name none: its own, or that of the first pool above that names one."""
    own = {level: strategies.get(level, "") for level in levels_of(path)[:-1] or [path]}
    pool = next((level for level, name in own.items() if name not in ("", DEFAULT)), None)
    default = strategies[""] if own[path] == DEFAULT else STRATEGIES[PACK]
    name = default if pool is None else own[pool]
    return {"name": name, "pool": pool, "text": strategy_words(name, pool, own=pool == path)}


def strategy_of_job(connection: Connection, job: JobRow) -> StrategyInEffect | None:
    """The strategy for tasks of a job that are admitted now; null: it is a daemon, which chooses no hosts."""
    if job.kind == "daemon":
        return None
    if name := submission(connection, job.offset).strategy:
        return {"name": name, "pool": None, "text": strategy_words(name, None, own=True)}
    of = strategy_of_pool(job.pool, named_strategies(connection, levels_of(job.pool)))
    return {**of, "text": strategy_words(of["name"], of["pool"], own=False)}
