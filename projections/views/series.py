"""Folds the time series of a cell: what each topic says of it, step by step of that topic's log time."""

from sqlalchemy import Connection

from events.topics import ALL, RANK, rounds_of
from projections.views.cache import Cache
from projections.views.record_context import RecordContext
from projections.views.series_columns import Columns
from projections.views.task_series import TaskSeries


class SeriesFold:
    """The series of a cell."""

    def __init__(self, cache: Cache) -> None:
        self._columns = {topic.name: Columns(cache.series, RANK[topic.name]) for topic in ALL}
        self.tasks = TaskSeries(self._columns[rounds_of("lifecycle")])

    def restore(self, connection: Connection) -> None:
        """Finds again what is derived from rows."""
        for columns in self._columns.values():
            columns.restore(connection)
        self.tasks.restore(connection)

    def record(self, topic: str, at_ms: int) -> None:
        """A record of a topic was delivered; what it says is folded after that."""
        columns = self._columns[topic]
        columns.go_to(at_ms)
        columns.count("records")

    def round(self, moment: RecordContext, decisions: int) -> None:
        """A machine has written a round: so much later than its logical time, that of the newest record it had read."""
        columns = self._columns[moment.topic]
        columns.count("rounds")
        columns.count("decisions", decisions)
        columns.peak("lag_ms", max(0, moment.at_ms - moment.now))

    def flush(self) -> None:
        """Writes the open steps."""
        for columns in self._columns.values():
            columns.flush()
