"""Invitations of hosts: a token by which an agent joins once. The log has its hash alone."""

import time
from typing import Annotated

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from events.bounds import NAME
from events.join_tokens import invite_id, new_token
from events.records.hosts import HostInvited
from events.topics import HOSTS
from paceline.client.host_models import HostInvitation, OpenInvitationsPage
from projections.api.commands import REASON_MAX
from projections.api.context import Context, Pages, Reading, next_token
from projections.queries import access
from projections.queries.host_certificates import open_json
from projections.record_json import at

TTL_MAX_MS = 30 * 86_400_000


def _name(host_id: str) -> str:
    if not NAME.fullmatch(host_id):
        raise PydanticCustomError("host_id", "must be 1 to 128 of A-Z, a-z, 0-9, dot, dash, underscore")
    return host_id


class Invitation(BaseModel):
    """A host that may join, and for how long."""

    model_config = ConfigDict(extra="forbid", strict=True)

    host_id: Annotated[str, AfterValidator(_name)]
    ttl_ms: Annotated[int, Field(ge=1000, le=TTL_MAX_MS)] = 3_600_000
    reason: Annotated[str, Field(max_length=REASON_MAX)] = ""


def routes(context: Context) -> APIRouter:
    """The routes of invitations."""
    router = APIRouter(tags=["hosts"])

    @router.get("/v1/host-invitations")
    async def invitations(read: Reading, page: Pages) -> Response:
        """The invitations by which no agent has joined yet, and one still may, the oldest first. Their tokens are
        nowhere.
        """
        after = page.after(int, "host invitations")

        def look(connection: Connection) -> OpenInvitationsPage:
            now_ms = context.time_of(connection)
            rows = [each for each in access.invitations(connection) if each.is_open(now_ms)]
            rows = [each for each in rows if after is None or each.offset > after]
            last = rows[page.size - 1].offset if len(rows) > page.size else None
            token = next_token(last, "host invitations")
            return {"host_invitations": list(map(open_json, rows[: page.size])), "next_page_token": token}

        return await read(look)

    @router.post("/v1/host-invitations", status_code=201)
    async def invite(invitation: Invitation) -> JSONResponse:
        """Lets a host join once with the token in the answer, which nobody is shown again, and get a certificate. A
        host that is there may join too.
        """
        token = new_token(invitation.host_id)
        until_ms = time.time_ns() // 1_000_000 + invitation.ttl_ms
        fact = HostInvited(
            host_id=invitation.host_id, invite_id=invite_id(token), until_ms=until_ms, reason=invitation.reason
        )
        offset = await run_in_threadpool(context.append, fact, fact.host_id)
        position = f"{HOSTS.name}:{offset}"
        body: HostInvitation = {
            "host_id": fact.host_id,
            "invite_id": fact.invite_id,
            "token": token,
            "until": at(until_ms) or "",
            "position": position,
        }
        return JSONResponse(body, 201, {"Log-Position": position, "Cache-Control": "no-store"})

    return router
