"""The newest lines of the history of a pool or a host, for its page."""

from sqlalchemy import Connection

from projections.asked_values import whole_number
from projections.queries.other_histories import history_page
from projections.ui.page_values import PageValues
from projections.ui.scene import Scene

LINES, LINES_MAX = 8, 800


def history_lines(scene: Scene, connection: Connection, name: str) -> PageValues:
    """The lines of a history by name, and how many the page may show instead; None: that was all, or the most."""
    lines = whole_number(scene.query.get("history", ""), 4) or LINES
    size = min(LINES_MAX, max(1, lines))
    page = history_page(connection, name, size, None, newest=True)
    return {
        "history_lines": page.items,
        "more_history": min(LINES_MAX, 10 * size) if page.next and size < LINES_MAX else None,
    }
