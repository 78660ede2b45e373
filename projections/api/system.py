"""Routes of the cell itself: rounds, quarantine, health, metrics."""

from typing import Annotated, cast

import orjson
from fastapi import APIRouter, Path, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from sqlalchemy import Connection

from events.codec import decode
from events.log.lookup import record_at
from events.run_tokens import key_set
from events.signing_keys import SigningKeys
from events.topics import ALL, MACHINES, rounds_of
from paceline.client.cell_models import CellInfo, Readiness, SignInInfo
from paceline.client.operation_models import RoundRecord, RoundReplay
from paceline.client.page_models import QuarantinePage
from projections.access.issuer import Issuer
from projections.api.context import LONG_MAX, Context, Pages, Place, Reading, Wait, next_token
from projections.api.log_loss import must_be_whole
from projections.api.parameters import KnownParameters
from projections.api.problems import ANSWERED, Problem, not_found
from projections.queries import entities, operations
from projections.queries.resources import kinds_json, kinds_of
from projections.record_json import at, whole
from projections.views.reader import folded

_LIVE = b'{"live":true}'
JWKS_KEPT_S = 300
"""So long others may keep the public keys."""
LAG_MAX = 10_000
"""Records that the views may be behind and still count as ready."""


def lag_of(context: Context, connection: Connection) -> dict[str, int]:
    """The number of records of each topic that the views don't have yet. Raises a problem where they are far behind, or
    the log has lost records that they have.
    """
    have = folded(connection)
    ends = context.log.ends(topic.name for topic in ALL)
    must_be_whole(have, ends)
    lag = {topic: end - have.get(topic, 0) for topic, end in ends.items()}
    if sum(lag.values()) > LAG_MAX:
        detail = f"the views are {sum(lag.values())} records behind the log, {LAG_MAX} are allowed"
        raise Problem(503, "BEHIND", detail, headers={"Retry-After": "1"})
    return lag


def routes(context: Context) -> APIRouter:
    """The routes of the cell."""
    router = APIRouter(tags=["cell"])
    _rounds(router, context)

    @router.get("/v1/cell", response_model=None)
    def cell() -> CellInfo:
        """The cell, its log and its machines."""
        with context.views.read() as connection:
            resources = kinds_json(kinds_of(connection))
        return cast(CellInfo, {"cell": context.cell, **context.cell_info(), "resources": resources})

    @router.get("/v1/cell/operations")
    async def operations_(read: Reading) -> Response:
        """The state of the cell: its machines and who has them, gateways, what was skipped; and what the process that
        answers knows beside that (`process`, null: it was not asked yet).
        """
        return await read(lambda connection: operations.standing_json(connection, context.operations))

    @router.get("/v1/log/quarantine")
    async def quarantine(read: Reading, page: Pages) -> Response:
        """Records that were skipped, and why."""
        after = page.after(tuple[str, Place], "quarantine")

        def look(connection: Connection) -> QuarantinePage:
            rows = entities.quarantine_rows(connection, page.size, after)
            last = (rows.rows[-1]["topic"], rows.rows[-1]["offset"]) if rows.more else None
            return {"records": rows.rows, "next_page_token": next_token(last, "quarantine")}

        return await read(look)

    @router.get("/readyz")
    async def readyz(read: Reading) -> Response:
        """Whether the views are close behind the log."""

        def look(connection: Connection) -> Readiness:
            return {"ready": True, "lag": lag_of(context, connection)}

        return await read(look)

    return router


def _rounds(router: APIRouter, context: Context) -> None:
    @router.get("/v1/rounds/{machine}/{number}")
    async def round_(machine: str, number: Annotated[int, Path(ge=0, le=LONG_MAX)], read: Reading) -> Response:
        """One round of a machine, decoded."""

        def look(connection: Connection) -> RoundRecord:
            offset = entities.round_offset(connection, machine, number) if machine in MACHINES else None
            if offset is None:
                raise not_found("round", f"{number} of {machine}")
            record = record_at(context.log, rounds_of(machine), offset)
            if record is None:
                raise not_found("round", f"{number} of {machine} in the log")
            place = {"position": f"{record.topic}:{offset}", "at": at(record.at_ms)}
            return cast(RoundRecord, place | whole(decode(record.value)))

        return await read(look)

    @router.post("/v1/rounds/{machine}/{number}/replays", status_code=202, responses=ANSWERED)
    async def replay(machine: str, number: Annotated[int, Path(ge=1, le=LONG_MAX)], wait: Wait) -> Response:
        """Decides a round again, in a process of its own: from the nearest snapshot, or from the start of the log. It
        changes nothing. `difference` is null where the decisions are identical.
        """
        progress = await context.replay(machine, number, wait)
        if progress.error:
            raise Problem(503, "REPLAY_FAILED", progress.error, headers={"Retry-After": "10"})
        body: RoundReplay = {
            "machine": machine,
            "round": number,
            "done": progress.done,
            "of": progress.of,
            "result": progress.result,
        }
        return Response(orjson.dumps(body), 200 if progress.over else 202, media_type="application/json")


def probes() -> APIRouter:
    """The routes about this process, whatever cells it serves."""
    router = APIRouter(tags=["cell"], route_class=KnownParameters)

    @router.get("/livez")
    async def livez() -> Response:
        """Whether this process answers."""
        return Response(_LIVE, media_type="application/json")

    @router.get("/.well-known/jwks.json", include_in_schema=False)
    def jwks(request: Request) -> Response:
        """The public keys by which anybody verifies a token of a run."""
        keys: SigningKeys | None = request.app.state.guards.keys
        body = key_set(keys.published() if keys is not None else ())
        headers = {"Cache-Control": f"public, max-age={JWKS_KEPT_S}"}
        return Response(orjson.dumps(body), media_type="application/jwk-set+json", headers=headers)

    @router.get("/v1/sign-in", response_model=None)
    async def sign_in(request: Request) -> SignInInfo:
        """Where users of the cell sign in: the issuer, and the cell's client there; empty: by tokens alone."""
        issuer: Issuer | None = request.app.state.guards.authentication.issuer
        if issuer is None:
            return {"issuer": "", "client_id": "", "scopes": ""}
        client_id = "" if issuer.client_secret else issuer.client_id  # a command line can keep no secret
        return {"issuer": issuer.url, "client_id": client_id, "scopes": issuer.scopes}

    @router.get("/startupz", include_in_schema=False)
    async def startupz() -> dict[str, bool]:
        """Whether this process has come up: it answers no requests before."""
        return {"started": True}

    @router.get("/metrics", include_in_schema=False)
    def metrics() -> Response:
        """The metrics of this process."""
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)

    return router
