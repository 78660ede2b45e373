"""The FastAPI app of a cell."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from fastapi import APIRouter, Depends, FastAPI

from events.bounds import ALARM_UNREAD_MS
from events.codec import encode
from events.hashed_names import NameHashes
from events.log.port import Log, NewRecord
from events.signing_keys import SigningKeys
from paceline.client.cell_models import ServedCell
from paceline.client.proof import Proving
from projections.access.authentication import Authentication
from projections.access.grants import Grants
from projections.access.run_tokens import RunProver
from projections.access.token_uses import TokenUses
from projections.api import (
    access,
    audit,
    blame,
    causes,
    drains,
    execs,
    forecasts,
    host_invitations,
    host_pools,
    hosts,
    job_batches,
    job_plans,
    jobs,
    log_pages,
    maintenances,
    names,
    pool_views,
    pools,
    problem_pages,
    rebalances,
    series,
    settings,
    slas,
    stream,
    system,
    throttled,
    usage,
    volumes,
    waits,
    windows,
)
from projections.api import (
    secrets as secret_routes,
)
from projections.api import (
    what_ifs as what_if_routes,
)
from projections.api.as_of import AsOf
from projections.api.context import (
    AskHost,
    Context,
    Execs,
    Operations,
    Placements,
    Plans,
    Replays,
    Secrets,
    TaskLog,
    own_cell,
)
from projections.api.description import install_description
from projections.api.errors import install
from projections.api.fact_signing import FactSigning
from projections.api.guards import Guards
from projections.api.log_loss import LossCheckedLog
from projections.api.moments import Moments, MomentSource
from projections.api.parameters import known_parameters
from projections.api.permits import Permits
from projections.api.problems import PROBLEMS
from projections.api.what_if_questions import WhatIfs
from projections.queries.access import granted
from projections.views.reader import Views

STREAMS_MAX = 64


class Guarded(NamedTuple):
    """Parts that guard an app: the token of the cell, its address, the authentication of requests, and its keys."""

    token: str
    listen: str
    authentication: Authentication
    keys: SigningKeys | None = None


def create_app(
    views: Views,
    log: Log,
    *,
    token: str,
    listen: str,
    cell_info: Callable[[], ServedCell],
    gateway: APIRouter | None = None,
    task_log: TaskLog | None = None,
    streams_max: int = STREAMS_MAX,
    others: Sequence[Log] = (),
    moments: MomentSource | None = None,
    operations: Operations | None = None,
    replays: Replays | None = None,
    plans: Plans | None = None,
    placements: Placements | None = None,
    what_ifs: WhatIfs | None = None,
    alarm_unread_ms: int = ALARM_UNREAD_MS,
    carries: Execs | None = None,
    secrets: Secrets | None = None,
    host_usage: AskHost | None = None,
    names: NameHashes | None = None,
    signing_keys: SigningKeys | None = None,
    has_ended: bool = False,
) -> FastAPI:
    """The app over the views of a cell.

    `token` is asked for by writes, `listen` is host:port, `cell_info` answers /v1/cell, `gateway` brings the routes of
    agents, `task_log` asks a host for output, `host_usage` for what its runs use, `others` are the logs of the other
    cells, which are told of pools, `moments` makes views of the past, `operations` tells what this process knows beside
    the views, `replays` decides rounds again, `plans` plans facts, `placements` derives candidates, `what_ifs` answers
    what would have been; `carries` takes commands into runs, `secrets` keeps values, `names` has the key by which names
    are hashed, `signing_keys` sign facts of proven actors and tokens of runs; `alarm_unread_ms`: see
    `machine_lag.late_since_ms`; `has_ended`: see `Context`.
    Handlers run in threads of their own beside the components of the cell.
    """
    facts = LossCheckedLog(views, log)
    names = names or NameHashes()
    grants = Grants(views, granted)
    permits = Permits(views, grants, names)
    context = Context(views, log, facts, permits, cell_info, task_log, streams_max, list(others), operations, replays)
    context = replace(
        context,
        plans=plans,
        placements=placements,
        what_ifs=what_ifs,
        alarm_unread_ms=alarm_unread_ms,
        execs=carries,
        secrets=secrets,
        host_usage=host_usage,
        names=names,
        signing=None if signing_keys is None else FactSigning(signing_keys, log.cell, [facts, *others]),
        has_ended=has_ended,
    )
    authentication = Authentication(token, grants, names)
    authentication.on_use = TokenUses(lambda used: facts.append([NewRecord(used.topic, b"", encode(used))])).note
    if signing_keys is not None:
        authentication.provers.append(RunProver(views, signing_keys, context.cell))
    app = app_over(context, Guarded(token, listen, authentication, signing_keys), gateway)
    add_past(app, {context.cell: context}, moments, lambda past: app_over(past[context.cell], app.state.guards))
    return app


def app_over(context: Context, guards: Guarded, gateway: APIRouter | None = None) -> FastAPI:
    """The app over a context, of the present or of a moment."""
    app = FastAPI(title="Paceline", version="1", docs_url=None, redoc_url=None)
    app.state.context = context
    app.state.guards = guards
    app.state.wrong_tokens = guards.authentication.wrong  # those of agents count with all others
    app.include_router(system.probes(), responses=PROBLEMS)
    app.include_router(problem_pages.routes(), dependencies=[Depends(known_parameters)])
    for part in (
        jobs,
        job_batches,
        job_plans,
        execs,
        throttled,
        names,
        pools,
        pool_views,
        hosts,
        drains,
        host_pools,
        rebalances,
        host_invitations,
        maintenances,
        windows,
        usage,
        waits,
        forecasts,
        volumes,
        slas,
        secret_routes,
        settings,
        stream,
        series,
        causes,
        blame,
        log_pages,
        what_if_routes,
        audit,
        access,
        system,
    ):
        app.include_router(part.routes(context), dependencies=[Depends(own_cell)], responses=PROBLEMS)
    if gateway is not None:
        app.include_router(gateway)
    install(app)
    install_description(app)
    return app


def add_past(
    app: FastAPI,
    contexts: Mapping[int, Context],
    source: MomentSource | None,
    app_of: Callable[[Mapping[int, Context]], FastAPI],
) -> None:
    """Lets an app answer requests with `?at=` by the app that `app_of` makes over contexts of that moment."""
    app.state.moments = Moments(contexts, source)
    guards: Guarded = app.state.guards
    app.add_middleware(AsOf, moments=app.state.moments, app_of=app_of)
    app.add_middleware(Guards, authentication=guards.authentication, listen=guards.listen)
    app.add_middleware(Proving, token=guards.token)
