"""The records of `schemas/sla`. Written by `python -m tools.records`; do not edit."""

from typing import ClassVar

from events.records.base import Event
from events.records.parts import Cause


class DisruptionAllowed(Event, frozen=True, kw_only=True):
    """Disruptions that may go on; their budget is held until the instance is available again or gone."""

    topic: ClassVar[str] = "paceline.sla"

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of little-endian int32."""

    instance: bytes
    """Instance of the job, from 0. Column of little-endian int32."""

    run: bytes
    """Number of the run, from 1. Column of little-endian int32."""

    causes: tuple[Cause, ...] = ()
    """For each job of job_ids the last change of its availability, or of what is asked of it, before the verdict.
    """

    deferred: bytes = b""
    """1: it was deferred before; empty: none was. Column of little-endian int32."""


class DisruptionDeferred(Event, frozen=True, kw_only=True):
    """Disruptions that must wait."""

    topic: ClassVar[str] = "paceline.sla"

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of little-endian int32."""

    instance: bytes
    """Instance of the job, from 0. Column of little-endian int32."""

    run: bytes
    """Number of the run, from 1. Column of little-endian int32."""

    code: str
    """Reason code."""

    unavailable: bytes
    """Instances that are unavailable now, or may be, of each job of job_ids. Column of little-endian int32."""

    max_unavailable: bytes
    """Instances that may be, of each job of job_ids. Column of little-endian int32."""

    causes: tuple[Cause, ...] = ()
    """For each job of job_ids the last change of its availability, or of what is asked of it, before the verdict.
    """


ALL: tuple[type[Event], ...] = (
    DisruptionAllowed,
    DisruptionDeferred,
)
