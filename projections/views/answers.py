"""The answers of machines to facts, as rows."""

from projections.views.cache import Cache
from projections.views.record_context import RecordContext


def add_answer(
    cache: Cache,
    moment: RecordContext,
    topic: str,
    offset: int,
    subject: str,
    code: str,
    message: str,
    command_id: str = "",
    version: int = 0,
    update: int = 0,
) -> None:
    """Adds the answer to the fact at an offset; `subject` is what that is about."""
    by = (moment.machine, moment.round)
    cache.answers.add(topic, offset, subject, command_id, code, message, *by, version, update)
