"""Jobs behind others in their queue that ask for hosts that aren't there: their turn alone doesn't help them."""

from collections.abc import Mapping, Sequence

import msgspec
from sqlalchemy import Connection, select, text

from events.codec import decode
from events.codes import Code
from events.conditions import MEETS, first_unmet, text_of, tops
from events.records.jobs import JobSubmitted
from events.records.parts import Constraint
from projections.queries.hosts_there import OFFERS
from projections.views import tables
from projections.views.rows import JobRow
from projections.views.sharing_rows import WaitReasonRow


def unmet(
    connection: Connection, rows: Sequence[JobRow], holds: Mapping[str, Sequence[WaitReasonRow]]
) -> dict[str, str]:
    """By job that waits behind others, the conditions of its tasks that no host of the cell meets together, in words.
    `holds`: what jobs are held for.
    """
    behind = [row for row in rows if any(hold.code == Code.BEHIND_IN_QUEUE for hold in holds.get(row.job_id, ()))]
    asked = _asked(connection, behind) if behind else {}
    if not asked:
        return {}
    seen = connection.scalars(select(tables.hosts.c.attributes).where(text(OFFERS)).distinct())
    attributes = [msgspec.json.decode(each, type=dict[str, str]) for each in seen]
    return {
        job_id: ", ".join(text_of(conditions, at) for at in tops(conditions) if not conditions[at].weight)
        for job_id, conditions in asked.items()
        if attributes and not any(first_unmet(conditions, each) == MEETS for each in attributes)
    }


def _asked(connection: Connection, rows: Sequence[JobRow]) -> dict[str, tuple[Constraint, ...]]:
    """The conditions of jobs that have any."""
    submissions = tables.submissions.c
    values = connection.execute(
        select(submissions.job_id, submissions.value).where(submissions.offset.in_([row.offset for row in rows]))
    )
    events = {job_id: decode(value) for job_id, value in values}
    return {
        job_id: event.constraints
        for job_id, event in events.items()
        if isinstance(event, JobSubmitted) and event.constraints
    }
