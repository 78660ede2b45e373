"""Parameters of queries: one that a route doesn't know is an error, not a filter that does nothing."""

from collections.abc import Callable, Coroutine, Iterator
from difflib import get_close_matches
from typing import Any

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from projections.api.problems import Problem

EVERYWHERE = frozenset(("at", "cell"))
"""Parameters that clients may send with each request."""
_KNOWN = "known_parameters"


async def known_parameters(request: Request) -> None:
    """Refuses a request with a parameter that its route doesn't have. As a dependency it is asked before values are
    checked; a request without a query costs nothing.
    """
    if request.scope["query_string"]:
        must_be_known(request)


class KnownParameters(APIRoute):
    """A route that checks as `known_parameters` does; as a dependency it took a quarter of a short answer."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Makes the handler of the route, as `APIRoute` has it."""
        plain = super().get_route_handler()

        async def handler(request: Request) -> Response:
            await known_parameters(request)
            return await plain(request)

        return handler


def must_be_known(request: Request) -> None:
    """Raises a problem for a parameter that the route of a request doesn't have, with the nearest that it has."""
    names = _known(request.scope["route"])
    for name in request.query_params:
        if name not in names:
            near = get_close_matches(name[:100], sorted(names), n=1, cutoff=0.5)
            has = f"there are {', '.join(sorted(names))}"
            detail = f"no parameter {name[:100]}; {f'did you mean {near[0]}?' if near else has}"
            raise Problem(422, "UNKNOWN_PARAMETER", detail, [(f"/query/{name[:100]}", "no such parameter")])


def _known(route: APIRoute) -> frozenset[str]:
    """The parameters of a route, which is told them once: routes have no hash."""
    names: frozenset[str] | None = vars(route).get(_KNOWN)
    if names is None:
        names = vars(route)[_KNOWN] = EVERYWHERE.union(_names(route.dependant))
    return names


def _names(dependant: Dependant) -> Iterator[str]:
    yield from (field.alias for field in dependant.query_params)
    for below in dependant.dependencies:
        yield from _names(below)
