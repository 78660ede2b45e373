"""Jobs behind others in their queue that ask for hosts that aren't there: their turn alone doesn't help them."""

from collections.abc import Mapping, Sequence

import msgspec
from sqlalchemy import Connection, text

from events.codes import Code
from events.conditions import MEETS, first_unmet, text_of, tops
from projections.queries.hosts_there import OFFERS
from projections.queries.versions import submissions
from projections.views.rows import JobRow
from projections.views.sharing_rows import WaitReasonRow

_OFFERED = text(f"SELECT DISTINCT attributes FROM main.hosts WHERE {OFFERS}")


def unmet(
    connection: Connection, rows: Sequence[JobRow], holds: Mapping[str, Sequence[WaitReasonRow]]
) -> dict[str, str]:
    """By job that waits behind others, the conditions of its tasks that no host of the cell meets together, in words.
    `holds`: what jobs are held for.
    """
    behind = [row for row in rows if any(hold.code == Code.BEHIND_IN_QUEUE for hold in holds.get(row.job_id, ()))]
    specs = submissions(connection, [row.offset for row in behind]) if behind else {}
    asked = {job_id: spec.constraints for job_id, spec in specs.items() if spec.constraints}
    if not asked:
        return {}
    seen = connection.scalars(_OFFERED)
    attributes = [msgspec.json.decode(each, type=dict[str, str]) for each in seen]
    return {
        job_id: ", ".join(text_of(conditions, at) for at in tops(conditions) if not conditions[at].weight)
        for job_id, conditions in asked.items()
        if attributes and not any(first_unmet(conditions, each) == MEETS for each in attributes)
    }
