"""The types of the answers of the API, as its description has them. The types are those of the client; queries make
values of them (decision 064).
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from paceline.client.access_models import (
    AccessAnswer,
    AccessCheck,
    AccessDryRun,
    BindingsPage,
    LockdownList,
    TokensPage,
    WhoAmI,
)
from paceline.client.batch_models import JobBatch
from paceline.client.cause_models import Blame, Causes
from paceline.client.cell_models import (
    AuditPage,
    CellInfo,
    CellOperations,
    CellSeries,
    LogPage,
    Marks,
    PoolSeries,
    ProblemKind,
    Readiness,
    SecretList,
    SecretsDeleted,
    SecretVersion,
    SignInInfo,
)
from paceline.client.explanation_models import Explanation
from paceline.client.forecast_models import Forecasts
from paceline.client.host_models import (
    Host,
    HostInvitation,
    HostPool,
    HostPoolList,
    HostPoolMovePlan,
    HostPoolPlan,
    OpenInvitationsPage,
)
from paceline.client.json_type import Json
from paceline.client.maintenance_models import (
    DrainEffects,
    HostsAnswer,
    Maintenance,
    MaintenanceHostsPage,
    MaintenancesPage,
    MaintenanceWindow,
    MaintenanceWindowList,
)
from paceline.client.models import (
    Answer,
    Diff,
    Entered,
    Job,
    JobAnswer,
    JobCheck,
    SubmittedJob,
    Update,
    UpdateCheck,
    Version,
)
from paceline.client.operation_models import RoundRecord, RoundReplay
from paceline.client.page_models import (
    HistoryPage,
    HostsPage,
    JobsPage,
    NameList,
    QuarantinePage,
    RunList,
    TasksPage,
    UpdateList,
    UpdateStepsPage,
    VersionList,
    VolumesPage,
)
from paceline.client.placement_models import TaskPlacement
from paceline.client.plan_models import JobPlan, JobPlans, RebalancePlan
from paceline.client.pool_models import Entitlement, Pool, PoolAnswer, PoolPlans, PoolTree, Queue
from paceline.client.sla_models import SlaGroup, SlaGroupList, SlasPage, SlaState
from paceline.client.usage_models import HostUsage, JobUsage, UsageSums
from paceline.client.waits_models import JobLedger, WaitLedger
from paceline.client.what_if_models import WhatIf

REF = "#/components/schemas/{name}"


ANSWERS: Mapping[str, Any] = {
    "/livez": dict[str, bool],
    "/problems/{code}": ProblemKind,
    "/readyz": Readiness,
    "/v1/access-checks": AccessCheck,
    "/v1/bindings": BindingsPage,
    "/v1/causes/{subject}": Causes,
    "/v1/blame": Blame,
    "/v1/cell": CellInfo,
    "/v1/cell/operations": CellOperations,
    "/v1/cell/settings": Json,
    "/v1/entitlements/{path}": Entitlement,
    "/v1/forecasts": Forecasts,
    "/v1/host-invitations": OpenInvitationsPage,
    "/v1/host-pools": HostPoolList,
    "/v1/host-pools/{name}": HostPool,
    "/v1/hosts": HostsPage,
    "/v1/hosts/{host_id}": Host,
    "/v1/hosts/{host_id}/history": HistoryPage,
    "/v1/hosts/{host_id}/tasks": TasksPage,
    "/v1/hosts/{host_id}/usage": HostUsage,
    "/v1/jobs": JobsPage,
    "/v1/jobs/{job_id}": Job,
    "/v1/jobs/{job_id}/diff": Diff,
    "/v1/jobs/{job_id}/explanation": Explanation,
    "/v1/jobs/{job_id}/ledger": JobLedger,
    "/v1/jobs/{job_id}/history": HistoryPage,
    "/v1/jobs/{job_id}/sla": SlaState,
    "/v1/jobs/{job_id}/tasks": TasksPage,
    "/v1/jobs/{job_id}/tasks/{instance}/runs": RunList,
    "/v1/jobs/{job_id}/updates": UpdateList,
    "/v1/jobs/{job_id}/updates/{number}": Update,
    "/v1/jobs/{job_id}/updates/{number}/steps": UpdateStepsPage,
    "/v1/jobs/{job_id}/usage": JobUsage,
    "/v1/jobs/{job_id}/versions": VersionList,
    "/v1/jobs/{job_id}/versions/{version}": Version,
    "/v1/audit": AuditPage,
    "/v1/sign-in": SignInInfo,
    "/v1/lockdowns": LockdownList,
    "/v1/log": LogPage,
    "/v1/log/quarantine": QuarantinePage,
    "/v1/maintenance-windows": MaintenanceWindowList,
    "/v1/maintenance-windows/{window_id}": MaintenanceWindow,
    "/v1/maintenances": MaintenancesPage,
    "/v1/maintenances/{maintenance_id}": Maintenance,
    "/v1/maintenances/{maintenance_id}/hosts": MaintenanceHostsPage,
    "/v1/marks": Marks,
    "/v1/names": NameList,
    "/v1/pool-histories/{path}": HistoryPage,
    "/v1/pool-series/{path}": PoolSeries,
    "/v1/pools": PoolTree,
    "/v1/pools/{path}": Pool,
    "/v1/queues/{path}": Queue,
    "/v1/rounds/{machine}/{number}": RoundRecord,
    "/v1/secrets": SecretList,
    "/v1/series": CellSeries,
    "/v1/sla-groups": SlaGroupList,
    "/v1/sla-groups/{name}": SlaGroup,
    "/v1/slas": SlasPage,
    "/v1/throttled-tasks": TasksPage,
    "/v1/tokens": TokensPage,
    "/v1/usage": UsageSums,
    "/v1/waits": WaitLedger,
    "/v1/volumes": VolumesPage,
    "/v1/what-ifs/{what_if_id}": WhatIf,
    "/v1/whoami": WhoAmI,
}
"""By path, of those that answer with JSON."""


OTHERWISE_DEFINED: Mapping[str, str] = {"/v1/cell/settings": "CellSpec"}
"""Answers that have the form of a specification."""
ACCESS_WRITES = (
    "POST /v1/bindings",
    "DELETE /v1/bindings/{binding_id}",
    "POST /v1/tokens",
    "DELETE /v1/tokens/{token_id}",
    "PUT /v1/cell/lockdown",
    "DELETE /v1/cell/lockdown",
    "PUT /v1/pool-lockdowns/{path}",
    "DELETE /v1/pool-lockdowns/{path}",
)
_ACCESS = {"200": (AccessAnswer, AccessDryRun), "202": (AccessAnswer,)}
WRITES: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    **dict.fromkeys(ACCESS_WRITES, _ACCESS),
    "POST /v1/jobs": {"200": (Job, JobCheck), "201": (Job,), "202": (SubmittedJob,)},
    "POST /v1/jobs/{job_id}/updates": {"200": (JobAnswer, UpdateCheck), "201": (JobAnswer,), "202": (Answer,)},
    "POST /v1/jobs/{job_id}/restarts": {"200": (JobAnswer,), "201": (JobAnswer,), "202": (Answer,)},
    "POST /v1/jobs/{job_id}/rollbacks": {"200": (JobAnswer,), "201": (JobAnswer,), "202": (Answer,)},
    "PUT /v1/pools/{path}": {"200": (PoolAnswer,), "201": (PoolAnswer,), "202": (PoolAnswer,)},
    "POST /v1/jobs/{job_id}/tasks/{instance}/placements": {"200": (TaskPlacement,)},
    **{
        f"POST /v1/{path}drains": {"200": (HostsAnswer, DrainEffects), "202": (Answer,)}
        for path in ("hosts/{host_id}/", "host-")
    },
    **{
        f"POST /v1/{path}{noun}": {"200": (HostsAnswer,), "202": (Answer,)}
        for path in ("hosts/{host_id}/", "host-")
        for noun in ("cordons", "uncordons", "resumptions")
    },
    "PUT /v1/host-pools/{name}": {"200": (Answer, HostPoolPlan), "202": (Answer,)},
    "DELETE /v1/host-pools/{name}": {"200": (Answer, HostPoolPlan), "202": (Answer,)},
    "POST /v1/host-pools/{name}/assignments": {"200": (HostsAnswer, HostPoolPlan), "202": (Answer,)},
    "POST /v1/host-pools/{name}/moves": {"200": (HostsAnswer, HostPoolMovePlan), "202": (Answer,)},
    "POST /v1/jobs/{job_id}/rebalances": {"200": (Answer, RebalancePlan), "202": (Answer,)},
    "POST /v1/host-invitations": {"201": (HostInvitation,)},
    "POST /v1/maintenances": {"200": (HostsAnswer, DrainEffects), "201": (HostsAnswer,), "202": (Answer,)},
    "PUT /v1/maintenance-windows/{window_id}": {"200": (HostsAnswer,), "202": (Answer,)},
    "POST /v1/job-batches": {"200": (JobBatch,)},
    "POST /v1/job-plans": {"200": (JobPlan, JobPlans)},
    "POST /v1/pool-plans": {"200": (PoolPlans,)},
    "PUT /v1/secrets/{name}": {"200": (SecretVersion,)},
    "DELETE /v1/secrets/{name}": {"200": (SecretsDeleted,)},
    "POST /v1/jobs/{job_id}/tasks/{instance}/execs": {"201": (Entered,)},
    "POST /v1/jobs/{job_id}/tasks/{instance}/execs/{exec_id}/in": {"204": ()},
    "POST /v1/rounds/{machine}/{number}/replays": {"200": (RoundReplay,), "202": (RoundReplay,)},
    "POST /v1/what-ifs": {"200": (WhatIf,), "202": (WhatIf,)},
}
"""By method and path the types of answers to writes and dry runs that differ from those to commands."""


def of_write(method: str, path: str) -> Mapping[str, tuple[Any, ...]]:
    """The types that a write may be answered with, by status."""
    command = JobAnswer if path.startswith("/v1/jobs/") else PoolAnswer if path.startswith("/v1/pools/") else Answer
    return WRITES.get(f"{method} {path}") or {"200": (command,), "202": (command,)}


def describe(paths: Mapping[str, Mapping[str, Any]], components: Json) -> None:
    """Adds the schemas of answers to the description of paths, and their types to its components."""
    described = [path for path in ANSWERS if path in paths]
    schemas, types = _schemas(ANSWERS[path] for path in described)
    for path, schema in zip(described, schemas, strict=True):
        name = OTHERWISE_DEFINED.get(path)
        content = {"schema": {"$ref": REF.format(name=name)} if name else schema}
        paths[path]["get"]["responses"]["200"]["content"] = {"application/json": content}
    components.update(types)
    for path, methods in paths.items():
        for method in sorted(methods.keys() & {"delete", "patch", "post", "put"}):
            for status, kinds in of_write(method.upper(), path).items():
                answer = methods[method]["responses"].setdefault(status, {"description": ""})
                if not kinds:
                    continue
                schemas, types = _schemas(kinds)
                components.update(types)
                schema = schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}
                answer["content"] = {"application/json": {"schema": schema}}


def _schemas(types: Iterable[Any]) -> tuple[tuple[Json, ...], Json]:
    schemas, components = msgspec.json.schema_components(types, ref_template=REF)
    for component in components.values():
        component["description"] = " ".join(component.get("description", "").split())
    for name in {"Job", "Version"} & components.keys():
        components[name]["properties"]["spec"] = {"$ref": REF.format(name="JobSpec")}
    return schemas, components
