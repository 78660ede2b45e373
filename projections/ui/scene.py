"""What a page is, and what it is rendered from."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from starlette.datastructures import QueryParams

from projections.api.all_cells import Cells, OpenCell
from projections.api.context import Context

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
        wanted = self.query.get("cell", "")
        return self.cells.get(int(wanted) if wanted.isdecimal() else -1) or next(iter(self.cells.values()))


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its path below /ui, as routes of Starlette have it; its template; what that shows, from a scene; the
    entry of the menu that it belongs to. `load` raises a `Problem` where there is nothing to show.
    """

    path: str
    template: str
    load: Callable[[Scene], dict[str, Any]]
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
