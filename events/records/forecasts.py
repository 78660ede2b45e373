"""The records of `schemas/forecasts`. Written by `python -m tools.records`; do not edit."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from events.columns import I32, I64, INT32, INT64, Values, pack_ints, pack_longs
from events.records.base import Event


class ForecastsMade(Event, frozen=True, kw_only=True):
    """When jobs that wait are expected to begin. It takes the place of earlier forecasts of these jobs."""

    topic: ClassVar[str] = "paceline.forecasts"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {
        "pool": INT32,
        "method": INT32,
        "low": INT64,
        "median": INT64,
        "high": INT64,
        "raw_low": INT64,
        "raw_high": INT64,
        "by_limits": INT64,
        "waited": INT64,
        "size": INT32,
    }

    made_ms: int
    """When they were made: milliseconds since 1970."""

    job_ids: tuple[str, ...]
    """The jobs, an item each in all columns."""

    pools: tuple[str, ...]
    """The pools named by the column pool."""

    pool: bytes
    """Index into pools. Column of int32."""

    method: bytes
    """1: simulated ahead, 2: by limits that are scaled by what they were worth, 3: by the waits of jobs of their size.
    Column of int32.
    """

    low: bytes
    """When the job begins at the earliest, with 90 %: milliseconds since 1970. Column of int64."""

    median: bytes
    """When it begins most likely: as likely earlier as later. Column of int64."""

    high: bytes
    """When it begins at the latest, with 90 %. Column of int64."""

    raw_low: bytes
    """The same before it was widened by what was missed before: low. Column of int64."""

    raw_high: bytes
    """The same: high. Column of int64."""

    by_limits: bytes
    """The wait from made_ms on, in milliseconds, if all runs lasted for their limits; 0: not known. Column of int64.
    """

    waited: bytes
    """For how long the job had waited, in milliseconds. Column of int64."""

    size: bytes
    """The number of its tasks. Column of int32."""

    @property
    def pool_array(self) -> I32:
        return np.frombuffer(self.pool, INT32, len(self.pool) // 4)

    @property
    def method_array(self) -> I32:
        return np.frombuffer(self.method, INT32, len(self.method) // 4)

    @property
    def low_array(self) -> I64:
        return np.frombuffer(self.low, INT64, len(self.low) // 8)

    @property
    def median_array(self) -> I64:
        return np.frombuffer(self.median, INT64, len(self.median) // 8)

    @property
    def high_array(self) -> I64:
        return np.frombuffer(self.high, INT64, len(self.high) // 8)

    @property
    def raw_low_array(self) -> I64:
        return np.frombuffer(self.raw_low, INT64, len(self.raw_low) // 8)

    @property
    def raw_high_array(self) -> I64:
        return np.frombuffer(self.raw_high, INT64, len(self.raw_high) // 8)

    @property
    def by_limits_array(self) -> I64:
        return np.frombuffer(self.by_limits, INT64, len(self.by_limits) // 8)

    @property
    def waited_array(self) -> I64:
        return np.frombuffer(self.waited, INT64, len(self.waited) // 8)

    @property
    def size_array(self) -> I32:
        return np.frombuffer(self.size, INT32, len(self.size) // 4)

    @classmethod
    def pack(
        cls,
        *,
        made_ms: int,
        job_ids: tuple[str, ...],
        pools: tuple[str, ...],
        pool: Values,
        method: Values,
        low: Values,
        median: Values,
        high: Values,
        raw_low: Values,
        raw_high: Values,
        by_limits: Values,
        waited: Values,
        size: Values,
    ) -> Self:
        return cls(
            made_ms=made_ms,
            job_ids=job_ids,
            pools=pools,
            pool=pack_ints(pool),
            method=pack_ints(method),
            low=pack_longs(low),
            median=pack_longs(median),
            high=pack_longs(high),
            raw_low=pack_longs(raw_low),
            raw_high=pack_longs(raw_high),
            by_limits=pack_longs(by_limits),
            waited=pack_longs(waited),
            size=pack_ints(size),
        )


class ForecastsScored(Event, frozen=True, kw_only=True):
    """What came of the first forecast of jobs that have begun, or that have ended without a run."""

    topic: ClassVar[str] = "paceline.forecasts"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {
        "pool": INT32,
        "method": INT32,
        "made": INT64,
        "low": INT64,
        "median": INT64,
        "high": INT64,
        "began": INT64,
    }

    job_ids: tuple[str, ...]
    """The jobs, an item each in all columns."""

    pools: tuple[str, ...]
    """The pools named by the column pool."""

    pool: bytes
    """Index into pools. Column of int32."""

    method: bytes
    """1: simulated ahead, 2: by limits that are scaled by what they were worth, 3: by the waits of jobs of their size.
    Column of int32.
    """

    made: bytes
    """When that forecast was made: milliseconds since 1970. Column of int64."""

    low: bytes
    """When the job begins at the earliest, with 90 %: milliseconds since 1970. Column of int64."""

    median: bytes
    """When it begins most likely: as likely earlier as later. Column of int64."""

    high: bytes
    """When it begins at the latest, with 90 %. Column of int64."""

    began: bytes
    """When the job began; -1: it never did, and isn't counted. Column of int64."""

    @property
    def pool_array(self) -> I32:
        return np.frombuffer(self.pool, INT32, len(self.pool) // 4)

    @property
    def method_array(self) -> I32:
        return np.frombuffer(self.method, INT32, len(self.method) // 4)

    @property
    def made_array(self) -> I64:
        return np.frombuffer(self.made, INT64, len(self.made) // 8)

    @property
    def low_array(self) -> I64:
        return np.frombuffer(self.low, INT64, len(self.low) // 8)

    @property
    def median_array(self) -> I64:
        return np.frombuffer(self.median, INT64, len(self.median) // 8)

    @property
    def high_array(self) -> I64:
        return np.frombuffer(self.high, INT64, len(self.high) // 8)

    @property
    def began_array(self) -> I64:
        return np.frombuffer(self.began, INT64, len(self.began) // 8)

    @classmethod
    def pack(
        cls,
        *,
        job_ids: tuple[str, ...],
        pools: tuple[str, ...],
        pool: Values,
        method: Values,
        made: Values,
        low: Values,
        median: Values,
        high: Values,
        began: Values,
    ) -> Self:
        return cls(
            job_ids=job_ids,
            pools=pools,
            pool=pack_ints(pool),
            method=pack_ints(method),
            made=pack_longs(made),
            low=pack_longs(low),
            median=pack_longs(median),
            high=pack_longs(high),
            began=pack_longs(began),
        )


ALL: tuple[type[Event], ...] = (
    ForecastsMade,
    ForecastsScored,
)
