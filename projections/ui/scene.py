"""Types of pages: a page, the data that it is rendered from, the actions of its forms."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from starlette.datastructures import QueryParams

from projections.api.all_cells import Cells, OpenCell
from projections.api.context import Context
from projections.asked_values import whole_number
from projections.ui.page_values import PageValues
from projections.ui.sessions import Form

Contexts = Mapping[int, Context]


class Scene(NamedTuple):
    """One state of the views of each cell, and what of it is asked for: parts of the path, the query. `now_ms` is the
    moment that is shown: the present, or that of `at`; `at` is empty in the present.
    """

    cells: Cells
    path: Mapping[str, str]
    query: QueryParams
    now_ms: int
    at: str = ""

    def first(self) -> OpenCell:
        """The cell that `?cell=` names, the first where it names none."""
        number = whole_number(self.query.get("cell", ""))
        return (self.cells.get(number) if number is not None else None) or next(iter(self.cells.values()))

    def parameters(self, *but: str) -> dict[str, list[str]]:
        """The parameters of the query by name but for some, for links that change a part; `link` keeps the moment."""
        return {name: self.query.getlist(name) for name in self.query if name not in ("at", *but)}


class Elsewhere(Exception):
    """Raised by `load` of a page where another page shows it: the path of that, below /ui."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its path below /ui, as routes of Starlette have it; its template; what that shows, from a scene; the
    entry of the menu that it belongs to. `load` raises a `Problem` where there is nothing to show. One that only asks
    for what a form needs is `for_writing`: it leads to the sign-in first, and isn't shown in the past.
    """

    path: str
    template: str
    load: Callable[[Scene], PageValues]
    section: str
    for_writing: bool = False


@dataclass(frozen=True, slots=True)
class Data:
    """Data for a script of a page, or to keep: a path below /ui, and the function that makes the answer, as JSON; bytes
    are of `kind` already.
    """

    path: str
    load: Callable[[Scene], Any]
    kind: str = "application/json"


class Sent(NamedTuple):
    """A form of somebody who is signed in: parts of the path, and its fields."""

    contexts: Contexts
    path: Mapping[str, str]
    form: Form

    def field(self, name: str) -> str:
        """The only value of a field, empty where there is none."""
        return self.form.get(name, [""])[-1]


class Shown(NamedTuple):
    """An answer to a form: a template and what it shows."""

    template: str
    values: PageValues
    status: int = 200


@dataclass(frozen=True, slots=True)
class Action:
    """The action of a form: the path below /ui that it is sent to, and what then happens: an answer to show, or the
    address of a page to go to. The session and the CSRF token are checked before. Raises a `Problem` where it is
    refused.
    """

    path: str
    carry_out: Callable[[Sent], Awaitable[Shown | str]]
    section: str


@contextmanager
def opened(
    contexts: Contexts, path: Mapping[str, str], query: QueryParams, now_ms: int, at: str = ""
) -> Iterator[Scene]:
    """A scene over those cells; their views are read from one state each until it is left."""
    with ExitStack() as stack:
        cells = {
            cell: OpenCell(context, stack.enter_context(context.views.read())) for cell, context in contexts.items()
        }
        yield Scene(cells, path, query, now_ms, at)
