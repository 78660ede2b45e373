"""A list that many poll: what the parameters of a request mean is found once for each query."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from projections.api.context import Reader, reader

KNOWN_MAX = 1000
"""Queries whose meaning is kept."""
BYTES_MAX = 1024
"""The most bytes of a query that is kept."""

Answer = Callable[[Reader], Awaitable[Response]]


class KnownQueries(APIRoute):
    """A route whose handler says by `remember` what answers a query; the same query again is answered by that. To find
    out what one asks for, FastAPI takes as long as the answer.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Makes the handler of the route, as `APIRoute` has it."""
        plain, known = super().get_route_handler(), dict[bytes, Answer]()

        async def handler(request: Request) -> Response:
            query = request.scope["query_string"]
            answer = known.get(query)
            if answer is not None:
                return await answer(await reader(request, request.headers.get("at-least-position")))
            response = await plain(request)
            answer = getattr(request.state, "answer", None)
            if answer is not None and len(query) <= BYTES_MAX:
                known[query] = answer
                if len(known) > KNOWN_MAX:
                    del known[next(iter(known))]
            return response

        return handler


def remember(request: Request, answer: Answer) -> Answer:
    """Says what answers a request, and every other one with this query."""
    request.state.answer = answer
    return answer
