"""The records of `schemas/sla`. Written by `python -m tools.records`; do not edit."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from events.columns import I32, I64, INT32, INT64, Values, pack_ints, pack_longs
from events.records.base import Event, ItemsEvent
from events.records.parts import Cause


class DisruptionAllowed(ItemsEvent, frozen=True, kw_only=True):
    """Disruptions that may go on; their budget is held until the instance is available again or gone."""

    topic: ClassVar[str] = "paceline.sla"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {
        "job": INT32,
        "instance": INT32,
        "run": INT32,
        "deferred": INT32,
        "free": INT32,
    }

    cause_fields: ClassVar[Mapping[str, str]] = {"causes": "job"}

    newest_unless: ClassVar[tuple[str, ...] | None] = ()

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of int32."""

    instance: bytes
    """Instance of the job, from 0. Column of int32."""

    run: bytes
    """Number of the run, from 1. Column of int32."""

    causes: tuple[Cause, ...] = ()
    """For each job of job_ids the last change of its availability, or of what is asked of it, before the verdict.
    """

    deferred: bytes = b""
    """1: it was deferred before; empty: none was. Column of int32."""

    free: bytes = b""
    """1: it wasn't available, so it costs nothing. Empty: none. Column of int32."""

    @property
    def job_array(self) -> I32:
        return np.frombuffer(self.job, INT32, len(self.job) // 4)

    @property
    def instance_array(self) -> I32:
        return np.frombuffer(self.instance, INT32, len(self.instance) // 4)

    @property
    def run_array(self) -> I32:
        return np.frombuffer(self.run, INT32, len(self.run) // 4)

    @property
    def deferred_array(self) -> I32:
        if self.deferred:
            return np.frombuffer(self.deferred, INT32, len(self.deferred) // 4)
        return np.full(len(self.job) // 4, 0, INT32)

    @property
    def free_array(self) -> I32:
        return np.frombuffer(self.free, INT32, len(self.free) // 4)

    @classmethod
    def pack(
        cls,
        *,
        job_ids: tuple[str, ...],
        job: Values,
        instance: Values,
        run: Values,
        causes: tuple[Cause, ...] = (),
        deferred: Values | None = None,
        free: Values | None = None,
    ) -> Self:
        return cls(
            job_ids=job_ids,
            job=pack_ints(job),
            instance=pack_ints(instance),
            run=pack_ints(run),
            causes=causes,
            deferred=b"" if deferred is None else pack_ints(deferred),
            free=b"" if free is None else pack_ints(free),
        )


class DisruptionDeferred(ItemsEvent, frozen=True, kw_only=True):
    """Disruptions that must wait."""

    topic: ClassVar[str] = "paceline.sla"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {
        "job": INT32,
        "instance": INT32,
        "run": INT32,
        "unavailable": INT32,
        "max_unavailable": INT32,
        "until": INT64,
    }

    cause_fields: ClassVar[Mapping[str, str]] = {"causes": "job"}

    newest_unless: ClassVar[tuple[str, ...] | None] = ()

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of int32."""

    instance: bytes
    """Instance of the job, from 0. Column of int32."""

    run: bytes
    """Number of the run, from 1. Column of int32."""

    code: str
    """Reason code."""

    unavailable: bytes
    """Instances that are unavailable now, or may be, of each job of job_ids. Column of int32."""

    max_unavailable: bytes
    """Instances that may be, of each job of job_ids. Column of int32."""

    causes: tuple[Cause, ...] = ()
    """For each job of job_ids the last change of its availability, or of what is asked of it, before the verdict.
    """

    again: bool = False
    """Whether the runs were deferred before, by another code."""

    groups: tuple[str, ...] = ()
    """For each job of job_ids the group whose budget is spent; empty: none is."""

    until: bytes = b""
    """Second of the next time at which it may be allowed, for each job of job_ids; 0: not known. Empty: 0. Column of
    int64.
    """

    @property
    def job_array(self) -> I32:
        return np.frombuffer(self.job, INT32, len(self.job) // 4)

    @property
    def instance_array(self) -> I32:
        return np.frombuffer(self.instance, INT32, len(self.instance) // 4)

    @property
    def run_array(self) -> I32:
        return np.frombuffer(self.run, INT32, len(self.run) // 4)

    @property
    def unavailable_array(self) -> I32:
        return np.frombuffer(self.unavailable, INT32, len(self.unavailable) // 4)

    @property
    def max_unavailable_array(self) -> I32:
        return np.frombuffer(self.max_unavailable, INT32, len(self.max_unavailable) // 4)

    @property
    def until_array(self) -> I64:
        return np.frombuffer(self.until, INT64, len(self.until) // 8)

    @classmethod
    def pack(
        cls,
        *,
        job_ids: tuple[str, ...],
        job: Values,
        instance: Values,
        run: Values,
        code: str,
        unavailable: Values,
        max_unavailable: Values,
        causes: tuple[Cause, ...] = (),
        again: bool = False,
        groups: tuple[str, ...] = (),
        until: Values | None = None,
    ) -> Self:
        return cls(
            job_ids=job_ids,
            job=pack_ints(job),
            instance=pack_ints(instance),
            run=pack_ints(run),
            code=code,
            unavailable=pack_ints(unavailable),
            max_unavailable=pack_ints(max_unavailable),
            causes=causes,
            again=again,
            groups=groups,
            until=b"" if until is None else pack_longs(until),
        )


class SurplusSet(Event, frozen=True, kw_only=True):
    """Jobs have so many instances more than they want, while instances of them are replaced."""

    topic: ClassVar[str] = "paceline.sla"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {"job": INT32, "surplus": INT32, "serial": INT32}

    cause_fields: ClassVar[Mapping[str, str]] = {"causes": "job"}

    newest_unless: ClassVar[tuple[str, ...] | None] = ()

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of int32."""

    surplus: bytes
    """So many more than wanted; 0: none any more. Column of int32."""

    serial: bytes
    """Grows by 1 whenever a job that had none gets some: instances of an older serial count nowhere. Column of int32.
    """

    causes: tuple[Cause, ...] = ()
    """For each job the last change that led to it."""

    @property
    def job_array(self) -> I32:
        return np.frombuffer(self.job, INT32, len(self.job) // 4)

    @property
    def surplus_array(self) -> I32:
        return np.frombuffer(self.surplus, INT32, len(self.surplus) // 4)

    @property
    def serial_array(self) -> I32:
        return np.frombuffer(self.serial, INT32, len(self.serial) // 4)

    @classmethod
    def pack(
        cls,
        *,
        job_ids: tuple[str, ...],
        job: Values,
        surplus: Values,
        serial: Values,
        causes: tuple[Cause, ...] = (),
    ) -> Self:
        return cls(
            job_ids=job_ids,
            job=pack_ints(job),
            surplus=pack_ints(surplus),
            serial=pack_ints(serial),
            causes=causes,
        )


ALL: tuple[type[Event], ...] = (
    DisruptionAllowed,
    DisruptionDeferred,
    SurplusSet,
)
