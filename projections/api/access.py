"""Routes of who may what: bindings, tokens, lockdowns, and checks of them."""

import uuid
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi.responses import JSONResponse
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from events.access import EVERYBODY
from events.actors import SUBJECT_MAX
from events.bounds import WORD_MAX
from events.codes import Code
from events.nearest import meant
from events.pool_paths import ROOT
from events.records.pools import LockdownSet, RoleUnbound, TokenRevoked
from events.roles import ROLES, Verb
from paceline.client.access_models import AccessCheck, BindingsPage, LockdownList, TokensPage, WhoAmI
from paceline.client.json_type import Json
from projections.access.checks import judge
from projections.access.grants import now_ms
from projections.access.identity import Identity, present
from projections.api.access_writes import Bind, Issue, must_have_pool, written
from projections.api.commands import Command, Reason
from projections.api.context import Context, Pages, Reading, Wait, next_token
from projections.api.pool_writes import must_be_here
from projections.api.problems import ANSWERED, Problem, not_found
from projections.queries import access, entities, pool_tree
from projections.queries.access_checks import (
    Target,
    binding_json,
    check_json,
    lockdown_json,
    role_binding,
    token_json,
)
from projections.queries.known_names import nearest_pool, unknown_host, unknown_job
from projections.record_json import at as time_text

DryRun = Annotated[bool, Query(description="Only check it; nothing is written.")]
GROUPS_MAX = 100
TOKEN_PLACE: Any = tuple[str, int]
"""Where a page of tokens goes on: its id and its age."""


def routes(context: Context) -> APIRouter:
    """The routes of access."""
    router = APIRouter(prefix="/v1", tags=["access"])
    _bindings(router, context)
    _tokens(router, context)
    _lockdowns(router, context)
    _checks(router, context)
    return router


def _bindings(router: APIRouter, context: Context) -> None:
    @router.get("/bindings")
    async def bindings(read: Reading, page: Pages) -> Response:
        """The bindings of roles that have not ended, by id."""
        after = page.after(str, "bindings") or ""

        def look(connection: Connection) -> BindingsPage:
            rows = [each for each in access.bindings(connection) if each.binding.binding_id > after]
            last = rows[page.size - 1].binding.binding_id if len(rows) > page.size else None
            page_rows = [binding_json(each) for each in rows[: page.size]]
            return {"bindings": page_rows, "next_page_token": next_token(last, "bindings")}

        return await read(look)

    @router.post("/bindings", status_code=202, responses=ANSWERED)
    async def bind(body: Bind, wait: Wait, dry_run: DryRun = False) -> Response:
        """Binds a role to a subject or a group, over a pool and all below it. A binding of the same id is replaced."""
        await context.settle_pools()
        fact = await run_in_threadpool(_looked, context, body.to_fact)
        if dry_run:
            await run_in_threadpool(context.permits.fact, fact)
            return _dry(f"{fact.subject or f'group {fact.group}'} would get role {fact.role} over {fact.pool}")
        return _told(await written(context, fact, wait) | {"binding_id": fact.binding_id})

    @router.delete("/bindings/{binding_id}", status_code=202, responses=ANSWERED)
    async def unbind(binding_id: str, wait: Wait, reason: Reason = "", dry_run: DryRun = False) -> Response:
        """Ends a binding."""

        def must_be(connection: Connection) -> None:
            ids = [each.binding.binding_id for each in access.bindings(connection)]
            if binding_id not in ids:
                raise not_found("binding", binding_id, meant(binding_id, ids))

        await run_in_threadpool(_looked, context, must_be)
        fact = RoleUnbound(command_id=uuid.uuid4().hex, binding_id=binding_id, reason=reason)
        if dry_run:
            await run_in_threadpool(context.permits.fact, fact)
            return _dry(f"binding {binding_id} would end")
        return _told(await written(context, fact, wait) | {"binding_id": binding_id})


def _tokens(router: APIRouter, context: Context) -> None:
    @router.get("/tokens")
    async def tokens(read: Reading, page: Pages) -> Response:
        """The tokens, without their texts, by id; for a while also those that were revoked or have expired. Who may
        read only some pools sees its own.
        """
        after = page.after(TOKEN_PLACE, "tokens") or ("", -1)

        def look(connection: Connection) -> TokensPage:
            now = context.time_of(connection)
            who = present()
            rows = access.tokens(connection)
            if who.is_limited and who.subject:
                with context.views.read_all() as whole:
                    rows = [each for each in access.tokens(whole) if each.subject == who.subject]
            rows = [each for each in rows if (each.token_id, each.offset) > after]
            last = rows[page.size - 1] if len(rows) > page.size else None
            token = next_token(None if last is None else (last.token_id, last.offset), "tokens")
            return {"tokens": [token_json(each, now) for each in rows[: page.size]], "next_page_token": token}

        return await read(look)

    @router.post("/tokens", status_code=202, responses=ANSWERED)
    async def issue(body: Issue, wait: Wait, dry_run: DryRun = False) -> Response:
        """Makes a token for a subject, and binds a role to it where one is named. The answer has the text of the token
        this once: the log and the views keep its SHA-256. With a public key the log learns of that in its place.
        """
        await context.settle_pools()
        bound, fact, text = await run_in_threadpool(_looked, context, body.to_facts)
        if dry_run:
            await run_in_threadpool(context.permits.fact, fact)
            role = f", with role {bound.role} over {bound.pool}" if bound is not None else ""
            what = "a token" if text else "a key that vouches for it"
            return _dry(f"{fact.subject} would get {what}{role}")
        answer = await written(context, fact, wait)
        if bound is not None:  # after the token: a refused one gives nobody a role
            await written(context, bound, wait)
        answer |= {"token_id": fact.token_id, "until_at": time_text(fact.until_ms)} | ({"token": text} if text else {})
        return _told(answer, {"Cache-Control": "no-store"})

    @router.delete("/tokens/{token_id}", status_code=202, responses=ANSWERED)
    async def revoke(token_id: str, wait: Wait, reason: Reason = "", dry_run: DryRun = False) -> Response:
        """Revokes a token: who shows it is refused from then on. What is bound to its subject stays."""

        def must_be(connection: Connection) -> None:
            ids = [each.token_id for each in access.tokens(connection) if not each.is_revoked]
            if token_id not in ids:
                raise not_found("token", token_id, meant(token_id, ids))

        await run_in_threadpool(_looked, context, must_be)
        fact = TokenRevoked(command_id=uuid.uuid4().hex, token_id=token_id, reason=reason)
        if dry_run:
            await run_in_threadpool(context.permits.fact, fact)
            return _dry(f"token {token_id} would be revoked")
        return _told(await written(context, fact, wait) | {"token_id": token_id})


def _lockdowns(router: APIRouter, context: Context) -> None:
    @router.get("/lockdowns")
    async def lockdowns(read: Reading) -> Response:
        """The lockdowns of the cell, by pool; `/` is the cell."""

        def look(connection: Connection) -> LockdownList:
            by_pool = access.lockdowns(connection)
            return {"lockdowns": [lockdown_json(pool, each) for pool, each in sorted(by_pool.items())]}

        return await read(look)

    async def locked(pool: str, locks: bool, command: Command, wait: float, dry_run: bool) -> Response:
        await context.settle_pools()

        def must_be(connection: Connection) -> None:
            must_have_pool(connection, pool)
            if pool != ROOT:
                must_be_here(context, pool_tree.pools_json(connection, pool)[0]["cell"], pool)

        await run_in_threadpool(_looked, context, must_be)
        command_id = command.command_id or uuid.uuid4().hex
        fact = LockdownSet(command_id=command_id, pool=pool, locked=locks, reason=command.reason)
        if dry_run:
            await run_in_threadpool(context.permits.fact, fact)
            return _dry(f"{pool} would be locked down" if locks else f"the lockdown of {pool} would end")
        return _told(await written(context, fact, wait))

    @router.put("/cell/lockdown", status_code=202, responses=ANSWERED)
    async def lock_cell(body: Command, wait: Wait, dry_run: DryRun = False) -> Response:
        """Locks the cell down: all writes but those of operators are refused, with the reason."""
        return await locked(ROOT, True, body, wait, dry_run)

    @router.delete("/cell/lockdown", status_code=202, responses=ANSWERED)
    async def end_cell(wait: Wait, reason: Reason = "", dry_run: DryRun = False) -> Response:
        """Ends the lockdown of the cell; those of pools stay."""
        return await locked(ROOT, False, Command(reason=reason), wait, dry_run)

    @router.put("/pool-lockdowns/{path:path}", status_code=202, responses=ANSWERED)
    async def lock_pool(path: str, body: Command, wait: Wait, dry_run: DryRun = False) -> Response:
        """Locks a pool down, and all below it: all writes but those of operators are refused, with the reason."""
        return await locked(f"/{path}", True, body, wait, dry_run)

    @router.delete("/pool-lockdowns/{path:path}", status_code=202, responses=ANSWERED)
    async def end_pool(path: str, wait: Wait, reason: Reason = "", dry_run: DryRun = False) -> Response:
        """Ends the lockdown of a pool."""
        return await locked(f"/{path}", False, Command(reason=reason), wait, dry_run)


def _checks(router: APIRouter, context: Context) -> None:
    @router.get("/access-checks")
    async def check(
        read: Reading,
        actor: Annotated[str, Query(max_length=SUBJECT_MAX, description="The subject; empty: who asks.")] = "",
        verb: Annotated[str, Query(max_length=WORD_MAX, description="What it would do, such as submit.")] = "read",
        object: Annotated[str, Query(max_length=300, description="/POOL, job/ID, host/ID or cell.")] = "/",
        group: Annotated[list[str] | None, Query(max_length=GROUPS_MAX, description="Groups of the actor.")] = None,
    ) -> Response:
        """Whether an actor may do something, with the binding that allows it, or with the roles that would."""

        def look(connection: Connection) -> AccessCheck:
            wish = _verb(verb)
            who = _asked_for(context, connection, actor, group or [])
            target = _target(context, connection, object, who)
            with context.views.read_all() as whole:
                return check_json(access.granted(whole), who, wish, target, context.time_of(connection))

        return await read(look)

    @router.get("/whoami")
    async def whoami(read: Reading) -> Response:
        """The identity of who asks, how it is known, and its roles."""

        def look(connection: Connection) -> WhoAmI:
            who = present()
            with context.views.read_all() as whole:
                granted = access.granted(whole)
            now = context.time_of(connection)
            bindings = () if who.is_cell or who.run else granted.bindings_of(who.subject, who.groups)
            return {
                "subject": who.subject,
                "how": who.how,
                "credential": who.credential,
                "groups": sorted(who.groups),
                "is_cell": who.is_cell,
                "access": granted.access,
                "reads": None if who.reads is None else list(who.reads),
                "bindings": [role_binding(each) for each in bindings if each.holds(now)],
            }

        return await read(look)


def _verb(text: str) -> Verb:
    try:
        return Verb(text)
    except ValueError:
        verbs = [each.value for each in Verb]
        fault = f"there is no verb {text[:40]}{meant(text, verbs)}; there are {', '.join(verbs)}"
        raise Problem(422, "INVALID_REQUEST", fault, [("/query/verb", fault)]) from None


def _asked_for(context: Context, connection: Connection, actor: str, groups: list[str]) -> Identity:
    """The identity that a check is about. Raises a problem where who asks may not know that of others."""
    who = present()
    if not groups and actor in ("", who.subject):
        return who
    if who.is_limited:
        with context.views.read_all() as whole:
            if not judge(access.granted(whole), who, Verb.ACCESS, ROOT, False, now_ms()).is_allowed:
                text = f"checks of others need the verb access over /: {', '.join(_with_access())} have it"
                raise Problem(403, "NOT_ALLOWED", text)
    return Identity(actor, frozenset(groups) - {EVERYBODY})


def _with_access() -> list[str]:
    return [name for name, role in ROLES.items() if Verb.ACCESS in role.verbs]


def _target(context: Context, connection: Connection, name: str, who: Identity) -> Target:
    """The object of a check. Raises a problem where it isn't there, or can't be read."""
    kind, _, rest = name.partition("/")
    if name in (ROOT, "cell"):
        return Target(name, ROOT, False)
    if not kind:
        if not pool_tree.pool_rows(connection, name):
            raise not_found("pool", name, nearest_pool([connection], name))
        return Target(name, name, False)
    if kind == "job" and rest:
        row = entities.job_row(connection, rest)
        if row is None:
            raise Problem(404, Code.NOT_FOUND, unknown_job([connection], rest) or f"there is no job {rest[:140]}")
        return Target(name, row.pool, context.permits.is_own(row, who.subject))
    if kind == "host" and rest:
        if text := unknown_host([connection], rest):
            raise Problem(404, Code.NOT_FOUND, text)
        return Target(name, ROOT, False)
    text = f"{name[:80]!r} is no object: write /POOL, job/ID, host/ID or cell"
    raise Problem(422, "INVALID_REQUEST", text, [("/query/object", text)])


def _looked(context: Context, look: Callable[[Connection], Any]) -> Any:
    with context.views.read() as connection:
        return look(connection)


def _dry(message: str) -> Response:
    return JSONResponse({"dry_run": True, "message": message})


def _told(body: Json, headers: dict[str, str] | None = None) -> Response:
    status = 200 if "code" in body else 202
    return JSONResponse(body, status, {"Log-Position": body["position"], **(headers or {})})
