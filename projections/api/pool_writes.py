"""Facts about pools are written one after the other, each once the facts before it are decided: so that it is checked
against the pool as it stands, and of two operators who change the same version of a pool one is told.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from starlette.concurrency import run_in_threadpool

from events.records.pools import PoolDefined, PoolRemoved
from events.topics import POOLS
from projections.api.context import Context
from projections.api.preconditions import Conditions
from projections.api.problems import Problem, wrong_cell
from projections.queries import pool_tree

Fact = PoolDefined | PoolRemoved


class Written(NamedTuple):
    """A fact, where it was written, and whether the pool was there before."""

    fact: Fact
    offset: int
    was_there: bool


class PoolWrites:
    """Writes facts about the pools of a cell."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lock = asyncio.Lock()

    async def append(
        self,
        path: str,
        conditions: Conditions,
        make: Callable[[PoolDefined | None], Fact],
        blindly: bool = False,
        required: bool = False,
    ) -> Written:
        """Writes the fact that is made of the present definition of a pool. Raises a problem where `make` does, where a
        condition isn't met or lacks though it is `required`, and, unless it is written `blindly`, where a fact about
        the pool isn't decided in time.
        """
        async with self._lock:
            await self._context.settle_pools()
            return await run_in_threadpool(self._append, path, conditions, make, blindly, required)

    def _append(
        self,
        path: str,
        conditions: Conditions,
        make: Callable[[PoolDefined | None], Fact],
        blindly: bool,
        required: bool,
    ) -> Written:
        with self._context.views.read() as connection:
            rows = pool_tree.pool_rows(connection, path)
            is_pending = pool_tree.pool_pending(connection, path)
        present = pool_tree.spec_of(rows[0]) if rows else None
        if present is not None:
            must_be_here(self._context, present.cell, path)
        if is_pending and not blindly:
            detail = f"an earlier change of pool {path} is not decided yet; send this one again after it"
            raise Problem(503, "NOT_REACHED", detail, headers={"Retry-After": "1"})
        conditions.check(f"pool {path}", f"{POOLS.name}:{rows[0].offset}" if rows else None, required)
        fact = make(present)
        return Written(fact, self._context.append(fact, path), present is not None)


def must_be_here(context: Context, cell: int, path: str) -> None:
    """Raises a problem where a pool belongs to another cell."""
    if cell != context.cell:
        raise wrong_cell(f"pool {path}", cell, [context.cell])
