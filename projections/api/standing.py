"""Requests that go on for long end when who made them may no longer ask: a token is revoked or over, a role ended."""

import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable

from fastapi import Request

from projections.access.identity import present
from projections.api.problems import Problem

Lasts = Callable[[], Awaitable[bool]]
LOOK_S = 1.0
"""So long after the end of a right what goes on by it ends, at most, where anything comes."""


def standing(
    request: Request, permitted: Callable[[], Awaitable[object]] | None = None
) -> Callable[[], Awaitable[bool]]:
    """Says, as often as it is asked, whether the actor of a request may go on; it is looked at once a second.
    `permitted` raises a problem where they may not.
    """
    authentication = request.app.state.guards.authentication
    who, looked = present(), time.monotonic()

    async def lasts() -> bool:
        nonlocal looked
        now = time.monotonic()
        if now - looked < LOOK_S:
            return True
        looked = now
        if not await authentication.still_is(who, request.scope):
            return False
        if permitted is not None:
            try:
                await permitted()
            except Problem:
                return False
        return True

    return lasts


async def while_standing(chunks: AsyncIterable[bytes], lasts: Lasts) -> AsyncIterator[bytes]:
    """Hands chunks on as long as their actor may go on."""
    async for chunk in chunks:
        if not await lasts():
            return
        yield chunk
