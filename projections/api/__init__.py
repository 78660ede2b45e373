"""The HTTP API over the views. Importing this takes FastAPI; whoever needs only rows imports `projections.views`."""

from projections.api.app import create_app
from projections.api.cells import create_cells_app
from projections.api.context import LogPage, TaskLog

__all__ = ["LogPage", "TaskLog", "create_app", "create_cells_app"]
