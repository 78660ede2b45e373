"""The log: facts and decisions, the newest first, and why something was decided."""

from urllib.parse import urlencode

from events.records import BY_NAME as KINDS
from events.topics import ALL, BY_NAME, FANOUT
from projections.api.causes import starts_of
from projections.api.log_pages import filter_of
from projections.api.problems import Problem
from projections.asked_values import whole_number
from projections.queries import log_records, why
from projections.queries.log_places import read_place, write_place
from projections.ui.page_values import PageValues
from projections.ui.scene import Page, Scene

PAGE = 50
FILTERS = ("topic", "kind", "job", "pool", "host")
SENT_OUT = {topic.name for topic in FANOUT}
"""Topics whose records stand in no cell's log."""


def load(scene: Scene) -> PageValues:
    """Some records, those before `before` or from `position` on, where one of them is named."""
    cell = scene.first()
    cell.context.permits.read("/v1/log")
    values = {name: scene.query.get(name, "").strip() for name in FILTERS}
    marked, ends = "", _ends(scene.query.get("before", ""))
    if (position := scene.query.get("position")) is not None:
        place = read_place(position)
        if place is None or not place.topic:
            raise Problem(
                400, "BAD_POSITION", f"{position[:80]!r} is no position of a record, such as paceline.jobs:17"
            )
        marked, values["topic"], ends = f"{place.topic}:{place.number}", place.topic, {place.topic: place.number + 1}
    actor = scene.query.get("actor", "").strip()
    log_filter = filter_of(**values, actors=cell.context.names.forms(actor) if actor else ())
    records = log_records.page(cell.connection, cell.context.log, log_filter, PAGE, ends)
    filters = {name: value for name, value in [*values.items(), ("actor", actor)] if value}
    older = (
        {**filters, "before": ",".join(str(records.ends.get(name, 0)) for name in BY_NAME)} if records.ends else None
    )
    return {
        "entries": records.entries,
        "older": older,
        "back_to_ms": records.back_to_ms,
        "full": len(records.entries) == PAGE,
        "values": {**values, "actor": actor},
        "marked": marked,
        "newest": not marked and ends is None,
        "topics": [topic.name.removeprefix("paceline.") for topic in ALL],
        "kinds": [name for name, kind in sorted(KINDS.items()) if getattr(kind, "topic", "") not in SENT_OUT],
        "cell": scene.query.get("cell"),
        "cell_number": cell.context.cell,
        "then": lambda at: f"/ui/log?{urlencode({**filters, 'at': at})}",
    }


def _ends(text: str) -> dict[str, int] | None:
    """Where a page begins: the ends of the topics with commas between, in their order."""
    if not text:
        return None
    ends = [end for part in text.split(",") if (end := whole_number(part)) is not None]
    if len(ends) != len(BY_NAME) or text.count(",") != len(ends) - 1:
        raise Problem(400, "BAD_POSITION", f"{text[:80]!r} is no place in the log; go on from the first page")
    return dict(zip(BY_NAME, ends, strict=True))


def load_why(scene: Scene) -> PageValues:
    """Loads what led to the records at a position, or to the headline of a job."""
    cell = scene.first()
    subject = scene.path["subject"]
    causes = why.chain(cell.connection, cell.context.log, starts_of(cell.context, cell.connection, subject))
    return {
        "subject": subject,
        "rows": why.tree(causes),
        "whole": causes.whole,
        "cell": scene.query.get("cell"),
        "cell_number": cell.context.cell,
        "write_place": write_place,
    }


PAGES = (
    Page("/log", "log.html", load, "Log"),
    Page("/why/{subject:path}", "why.html", load_why, "Log"),
)
