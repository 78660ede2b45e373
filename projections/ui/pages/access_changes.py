"""Changes of access from its page: roles are bound and unbound, tokens revoked, the cell and pools locked down."""

import uuid
from collections.abc import Callable
from typing import NamedTuple

from pydantic import ValidationError
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from events.records.pools import LockdownSet, RoleUnbound, TokenRevoked
from events.roles import ROLES
from projections.api.access_writes import Bind, Fact, must_have_pool, written
from projections.api.context import Context
from projections.api.problems import Problem, not_found
from projections.asked_values import whole_number
from projections.queries import pool_tree
from projections.ui.page_values import PageValues
from projections.ui.scene import Action, Page, Scene, Sent, Shown

WAIT_S = 2.0
REASON_MAX = 1000
FIELDS = ("name", "subject", "group", "role", "pool", "until_at", "reason")
PAGE, FORM = "/access/{change}", "access_change.html"


class Change(NamedTuple):
    """A change: the word on its button, what it does, and the fact of a form, which a state of the views allows."""

    word: str
    says: str
    fact: Callable[[Connection, Sent], Fact]
    fields: tuple[str, ...] = ()
    danger: bool = False


def _bind(connection: Connection, form: Sent) -> Fact:
    fields = {name: form.field(name).strip() or None for name in ("until_at", "command_id")}
    texts = {name: form.field(name).strip() for name in ("subject", "group", "role", "pool", "reason")}
    try:
        return Bind.model_validate(fields | texts).to_fact(connection)
    except ValidationError as error:
        fault = error.errors()[0]
        raise Problem(422, "INVALID_REQUEST", f"{fault['loc'][-1]}: {fault['msg']}") from error


def _unbind(connection: Connection, form: Sent) -> Fact:
    return RoleUnbound(command_id=_id(form), binding_id=form.field("name"), reason=form.field("reason"))


def _revoke(connection: Connection, form: Sent) -> Fact:
    return TokenRevoked(command_id=_id(form), token_id=form.field("name"), reason=form.field("reason"))


def _lock(connection: Connection, form: Sent) -> Fact:
    return _lockdown(connection, form, locked=True)


def _unlock(connection: Connection, form: Sent) -> Fact:
    return _lockdown(connection, form, locked=False)


def _lockdown(connection: Connection, form: Sent, locked: bool) -> Fact:
    pool = form.field("name").strip() or "/"
    must_have_pool(connection, pool)
    if pool != "/" and pool_tree.pools_json(connection, pool)[0]["cell"] != whole_number(form.field("of_cell"), 9):
        raise Problem(422, "WRONG_CELL", f"pool {pool} is of another cell: lock it down on its page Access")
    return LockdownSet(command_id=_id(form), pool=pool, locked=locked, reason=form.field("reason"))


def _id(form: Sent) -> str:
    return form.field("command_id")[:128] or uuid.uuid4().hex


CHANGES = {
    "bind": Change("Bind a role", "A user or a group gets a role over a pool and all below it; / is the whole cell.",
                   _bind, ("subject", "group", "role", "pool", "until_at")),
    "unbind": Change("Unbind", "The role is taken back; what was written by it stays.", _unbind, danger=True),
    "revoke": Change("Revoke", "Who shows the token is refused from then on.", _revoke, danger=True),
    "lock": Change("Lock down", "All writes but those of operators are refused, with the reason, in a pool and below "
                   "it; / is the whole cell.", _lock, ("name",), danger=True),
    "unlock": Change("End lockdown", "Whoever has a role may write again.", _unlock),
}  # fmt: skip


def _change(name: str) -> Change:
    if name not in CHANGES:
        raise not_found("change of access", name)
    return CHANGES[name]


def ask(scene: Scene) -> PageValues:
    """Loads what the form of a change asks for."""
    fields = {name: scene.query.get(name, "") for name in FIELDS}
    return _values(scene.path["change"], scene.first().context, fields, uuid.uuid4().hex)


def _values(name: str, context: Context, fields: PageValues, command_id: str, fault: str = "") -> PageValues:
    values = {"change": _change(name), "change_name": name, "given": fields, "fault": fault, "roles": list(ROLES)}
    return {**values, "of_cell": context.cell, "command_id": command_id}


async def carry_out(form: Sent) -> Shown | str:
    """Writes the fact of a form, and leads back to the page; shows the form again with why it was refused."""
    name = form.path["change"]
    change, number = _change(name), whole_number(form.field("of_cell"), 9)
    context = None if number is None else form.contexts.get(number)
    if context is None:
        raise Problem(422, "CELL_NEEDED", "the form says no cell that is served here")

    def look() -> Fact:
        with context.views.read_all() as connection:
            return change.fact(connection, form)

    try:
        if not 0 < len(form.field("reason").strip()) <= REASON_MAX:
            raise Problem(422, "INVALID_REQUEST", f"a reason is needed, of {REASON_MAX} characters at most")
        await context.settle_pools()
        await written(context, await run_in_threadpool(look), WAIT_S)
    except Problem as problem:
        fields = {each: form.field(each) for each in FIELDS}
        values = _values(name, context, fields, form.field("command_id"), f"{problem.code}: {problem.detail}")
        return Shown(FORM, values, problem.status)
    return f"/ui/access?cell={context.cell}"


PAGES = (Page(PAGE, FORM, ask, "Access", for_writing=True),)
ACTIONS = (Action(PAGE, carry_out, "Access"),)
