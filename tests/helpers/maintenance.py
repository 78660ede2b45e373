"""Records of maintenance, as tests write them by hand."""

from collections.abc import Sequence
from typing import Any

from events.codes import Stage, Step
from events.records.lifecycle import DisruptionAsked
from events.records.parts import Cause
from events.records.placement import HostMaintenanceChanged
from events.records.sla import DisruptionAllowed, DisruptionDeferred
from events.topics import HOSTS

NOBODY = {"by": "", "source": ""}


def by_fact(offset: int) -> Cause:
    """A fact of an operator."""
    return Cause(topic=HOSTS.name, offset=offset)


def stage_of(
    stage: Stage,
    *host_ids: str,
    code: str = "ASKED",
    step: Step = Step.NONE,
    cordon: bool = False,
    times: Sequence[int] = (0, 0, 0),
    by: str = "operator",
    source: str = "",
    cause: Cause | None = None,
) -> HostMaintenanceChanged:
    """Hosts that are all in one stage; `times`: the seconds of preemption, force and check."""
    of = len(host_ids)
    columns = {"stage": [stage], "cordon": [int(cordon)], "batch": [0], "step": [step]}
    columns |= {name: [value] for name, value in zip(("preempt_at", "force_at", "check_until"), times, strict=True)}
    return HostMaintenanceChanged.pack(
        host_ids=host_ids,
        **{name: values * of for name, values in columns.items()},
        code=code,
        by=by,
        source=source,
        cause=cause,
    )


def _items(job_id: str, instances: Sequence[int], run: int) -> dict[str, Any]:
    of = len(instances)
    return {"job_ids": (job_id,), "job": [0] * of, "instance": list(instances), "run": [run] * of}


def asked(job_id: str, instances: Sequence[int], since: int, run: int = 1, why: int = 0) -> DisruptionAsked:
    """Runs of a job that are to leave, since a second; `why`: a `RunCause`."""
    of = len(instances)
    causes = {"why": [why] * of} if why else {}
    return DisruptionAsked.pack(**_items(job_id, instances, run), since=[since] * of, **causes)


def allowed(job_id: str, instances: Sequence[int], run: int = 1) -> DisruptionAllowed:
    """Runs that may leave."""
    return DisruptionAllowed.pack(**_items(job_id, instances, run))


def deferred(
    job_id: str,
    instances: Sequence[int],
    code: str = "SLA_BUDGET_SPENT",
    unavailable: int = 1,
    most: int = 1,
    run: int = 1,
) -> DisruptionDeferred:
    """Runs that must wait."""
    numbers = {"unavailable": [unavailable], "max_unavailable": [most]}
    return DisruptionDeferred.pack(**_items(job_id, instances, run), code=code, **numbers)
