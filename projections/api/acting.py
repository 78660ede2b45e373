"""The actor of a request, put into each fact that it writes.

Who proves a name is named by that. Others say one in the header Paceline-Actor (UTF-8, percent-encoded where it isn't
ASCII), and in Paceline-Actor-How how they know it. Anybody with the token of the cell can say any name: nothing is
decided by it. The header Paceline-Reason, written like names, says why somebody does something.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar
from urllib.parse import unquote

import msgspec
from starlette.datastructures import Headers
from starlette.types import Scope

from events.actors import API, CERTIFICATE, ENVIRONMENT, HEADER, RUN, SESSION, SUBJECT_MAX, SYSTEM_USER
from events.hashed_names import NameHashes
from events.records.base import Event
from events.records.parts import Actor
from events.unsafe_text import is_visible
from paceline.client.acting import HOW_HEADER, NAME_HEADER
from projections.access.identity import Identity
from projections.api.problems import Problem

E = TypeVar("E", bound=Event)
HOWS = (HEADER, ENVIRONMENT, SYSTEM_USER)
"""The ways to know a name that a client may claim."""
ADDRESS_MAX = 64
REASON_HEADER = "Paceline-Reason"
REASON_MAX = 1000
_actor: ContextVar[Actor | None] = ContextVar("actor", default=None)
"""The actor of the request that is answered. A thread that works for a request has a copy of its context."""
_hashes: ContextVar[Callable[[], NameHashes | None]] = ContextVar("hashes", default=lambda: None)


def begin(
    scope: Scope, headers: Headers, who: Identity, in_session: bool, hashes: Callable[[], NameHashes | None]
) -> None:
    """Notes who makes a request, `in_session`: by a form of a page; `hashes`: by which facts name actors, asked when
    one is written; None: they name them as they are. Raises a problem where it says a bad name.
    """
    _actor.set(_actor_of(scope, headers, who, in_session))
    _hashes.set(hashes)


def hidden(actor: Actor, names: NameHashes) -> Actor:
    """An actor with its address hashed, and its name, unless that is of a run or a host."""
    subject = actor.subject if actor.how in (RUN, CERTIFICATE) else names.of(actor.subject)
    return msgspec.structs.replace(actor, subject=subject, address=names.of(actor.address))


def _actor_of(scope: Scope, headers: Headers, who: Identity, in_session: bool) -> Actor:
    client = scope.get("client")
    address = str(client[0])[:ADDRESS_MAX] if client else ""
    text = headers.get(REASON_HEADER)
    reason = "" if text is None else _words(REASON_HEADER, text, REASON_MAX)
    if not who.is_nobody and not who.is_cell:
        return Actor(who.subject, who.how, address, credential=who.credential, reason=reason)
    if in_session:
        return Actor("", SESSION, address, reason=reason)
    text = headers.get(NAME_HEADER)
    if text is None:
        return Actor("", API, address, reason=reason)
    how = headers.get(HOW_HEADER, HEADER)
    if how not in HOWS:
        fault = f"{how[:40]!r} is no way to know a name: {', '.join(HOWS)} are"
        raise Problem(422, "INVALID_REQUEST", f"{HOW_HEADER}: {fault}", [(f"/header/{HOW_HEADER}", fault)])
    return Actor(_words(NAME_HEADER, text, SUBJECT_MAX), how, address, reason=reason)


def present() -> Actor | None:
    """The actor of the request that is answered, as facts name it; None: there is no request."""
    actor = _actor.get()
    names = None if actor is None else _hashes.get()()
    return actor if actor is None or names is None else hidden(actor, names)


def permitted(binding: int | None, read_to: int | None) -> Actor | None:
    """The same, with the binding that allows what it does, and how far the server has read."""
    actor = present()
    if actor is None or (binding is None and read_to is None):
        return actor
    return msgspec.structs.replace(actor, binding=binding, read_to=read_to)


def signed(event: E, binding: int | None = None, read_to: int | None = None) -> E:
    """The fact with who wrote it, where facts of its kind say so, and what allowed it."""
    actor = permitted(binding, read_to) if "actor" in event.__struct_fields__ else None
    return event if actor is None else msgspec.structs.replace(event, actor=actor)


def _words(header: str, text: str, most: int) -> str:
    """The text in a header. Raises a problem."""
    try:
        words = unquote(text, errors="strict").strip() if text.isascii() else ""
    except UnicodeDecodeError:
        words = ""
    if not is_visible(words, most):
        fault = f"must be 1 to {most} visible characters, percent-encoded (of UTF-8) beyond ASCII"
        raise Problem(422, "INVALID_REQUEST", f"{header} {fault}", [(f"/header/{header}", fault)])
    return words
