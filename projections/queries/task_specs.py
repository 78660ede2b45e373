"""What tasks with an override are run from: the spec of their job with the override merged into it."""

from collections.abc import Sequence

from sqlalchemy import Connection, select

from events.codec import decode
from events.records.jobs import JobSubmitted
from events.spec import from_event
from events.spec_overrides import Override
from events.task_overrides import instance_of, override_index
from projections.queries.pages import Json
from projections.queries.resources import kinds_of
from projections.views import tables
from projections.views.rows import JobRow

_FIELDS = Override.model_fields.keys() - {"instances"}


def submission(connection: Connection, row: JobRow) -> JobSubmitted:
    """The fact that a job stands on."""
    values = tables.submissions.c
    event = decode(connection.execute(select(values.value).where(values.offset == row.offset)).scalar_one())
    assert isinstance(event, JobSubmitted)
    return event


def own_specs(connection: Connection, row: JobRow, instances: Sequence[int]) -> dict[int, Json]:
    """By instance what it has, of those that don't have all as the job says."""
    if not row.overridden:
        return {}
    job, units = submission(connection, row), kinds_of(connection).units
    index = override_index(job)
    override = {instance: int(index[instance]) for instance in instances if instance < len(index)}
    specs = {
        at: {name: value for name, value in from_event(instance_of(job, at), units).items() if name in _FIELDS}
        for at in {*override.values()} - {0}
    }
    return {instance: specs[at] for instance, at in override.items() if at}
