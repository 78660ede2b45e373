"""Versions and updates of a job as the API shows them, and how two versions differ."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec
import numpy as np
from sqlalchemy import Connection, select

from events.codec import decode
from events.codes import UpdateState, UpdateStep
from events.columns import ints
from events.quantities import write_ms
from events.records.jobs import JobSubmitted
from events.spec.job import from_event
from events.task_overrides import whole
from events.words import image_pulls
from paceline.client.json_type import Json
from paceline.client.models import Change, Changes, ImagePulls, Update, UpdateSteps, Version
from projections.queries.pages import Page, rows_of, some
from projections.queries.resources import kinds_of
from projections.queries.stored_chunks import stored_chunks
from projections.queries.update_reasons import in_words
from projections.record_json import at
from projections.views import tables
from projections.views.rows import JobRow
from projections.views.update_rows import UpdateRow, UpdateStepRow, VersionRow
from projections.views.updates import first_version

CHANGES_MAX = 1000
POLICY_TIMES = ("healthy_ms", "promote_after_ms", "blocked_after_ms", "progress_deadline_ms")


def versions(connection: Connection, job: JobRow) -> list[VersionRow]:
    """The versions of a job that are kept, the newest first; of one that isn't accepted there is none."""
    if not job.update:
        return [first_version(job)] if job.version else []
    table = tables.versions
    query = select(table).where(table.c.job_id == job.job_id).order_by(table.c.version.desc())
    rows: list[VersionRow] = rows_of(connection, VersionRow, query)
    return rows


def version_json(row: VersionRow) -> Version:
    """A version without its specification."""
    return {
        "version": row.version,
        "kind": row.kind,
        "like": row.like or None,
        "update": row.update or None,
        "made_at": at(row.made_ms),
        "command": f"paceline.jobs:{row.command}" if row.command >= 0 else None,
        "reason": row.reason,
        "data": row.data,
    }


def submission(connection: Connection, offset: int) -> JobSubmitted:
    """The specification that was written at an offset."""
    columns = tables.submissions.c
    event = decode(connection.execute(select(columns.value).where(columns.offset == offset)).scalar_one())
    assert isinstance(event, JobSubmitted)
    return event


def submissions(connection: Connection, offsets: Sequence[int]) -> dict[str, JobSubmitted]:
    """By job the specifications that were written at some offsets, one of a job at most."""
    columns = tables.submissions.c
    rows = connection.execute(select(columns.job_id, columns.value).where(columns.offset.in_(offsets)))
    events = ((job_id, decode(value)) for job_id, value in rows)
    return {job_id: event for job_id, event in events if isinstance(event, JobSubmitted)}


def spec_of(connection: Connection, offset: int) -> Json:
    """The specification that was written at an offset, as users write it; of overrides that were uploaded in chunks it
    says only of which instances they are.
    """
    return from_event(submission(connection, offset), kinds_of(connection).units)


def whole_spec(connection: Connection, offset: int) -> Json:
    """The same with all its overrides."""
    return from_event(whole(submission(connection, offset), stored_chunks(connection)), kinds_of(connection).units)


def present_spec(connection: Connection, job: JobRow, overrides: bool) -> Json:
    """The specification that a job has, with the priority that it has been given since; with all its `overrides` even
    where they came in chunks.
    """
    read = whole_spec if overrides and job.base >= 0 else spec_of
    return {**read(connection, job.offset), "priority": job.priority}


def changes_json(before: Json, after: Json) -> Changes:
    """The first changes between two whole specifications, and how many more there are."""
    changes = differences(_by_instances(before), _by_instances(after))
    return {"changes": list(islice(changes, CHANGES_MAX)), "more": sum(1 for _ in changes)}


def _by_instances(spec: Json) -> Json:
    """A specification with its overrides by their instances, each of which has one: so they can be compared."""
    if "overrides" not in spec:
        return spec
    parts = [dict(each) for each in spec["overrides"]]
    return {**spec, "overrides": {part.pop("instances"): part for part in parts}}


def differences(before: Any, after: Any, pointer: str = "") -> Iterator[Change]:
    """The differences between two specifications, by JSON pointer; lists are compared as a whole."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in [*before, *(each for each in after if each not in before)]:
            place = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
            yield from differences(before.get(name), after.get(name), place)
    elif before != after:
        yield {"pointer": pointer, "from": before, "to": after}


def updates(connection: Connection, job_id: str, number: int | None = None) -> list[UpdateRow]:
    """The updates of a job that are kept, the newest first; or one of them."""
    table = tables.updates
    query = select(table).where(table.c.job_id == job_id).order_by(table.c.number.desc())
    rows: list[UpdateRow] = rows_of(
        connection, UpdateRow, query if number is None else query.where(table.c.number == number)
    )
    return rows


def newest_updates(connection: Connection, jobs: Sequence[JobRow]) -> dict[str, UpdateRow]:
    """The newest update of each job that had one, by id."""
    ids = [job.job_id for job in jobs if job.update]
    if not ids:
        return {}
    held, known = tables.updates, tables.jobs
    joined = held.join(known, (held.c.job_id == known.c.job_id) & (held.c.number == known.c.update))
    query = select(held).select_from(joined).where(held.c.job_id.in_(ids))
    return {row.job_id: row for row in rows_of(connection, UpdateRow, query)}


def has_way_back(connection: Connection, job: JobRow) -> bool:
    """Whether a roll-back has where to go: a version that was completed and isn't equal to the present one."""
    by_number = {row.version: row for row in versions(connection, job)}

    def content(number: int) -> int:
        while number in by_number and by_number[number].like:
            number = by_number[number].like
        return number

    columns = tables.updates.c
    query = select(columns.version).where(
        columns.job_id == job.job_id, columns.state == UpdateState.SUCCEEDED, columns.kind != "restart"
    )
    completed = {*connection.scalars(query), *(number for number, row in by_number.items() if row.kind == "submit")}
    return any(content(number) != content(job.version) for number in completed & by_number.keys())


def _image(row: UpdateRow) -> ImagePulls | None:
    """The hosts that pull the image of an update; None: none was told to."""
    if not row.image_hosts and not row.image_ms:
        return None
    return {
        "hosts": row.image_hosts,
        "have": row.image_have,
        "faults": row.image_faults,
        "waits": row.image_ms > 0,
        "message": image_pulls(row.image_hosts, row.image_have, row.image_faults, row.image_fault),
    }


def update_json(row: UpdateRow) -> Update:
    """An update, without what happened to each instance."""
    policy = msgspec.json.decode(row.policy)
    times = {name.removesuffix("_ms"): write_ms(policy.pop(name)) for name in POLICY_TIMES if name in policy}
    return {
        "number": row.number,
        "kind": row.kind,
        "from_version": row.from_version,
        "version": row.version,
        "state": row.state,
        "paused": bool(row.paused_ms),
        "instances": {
            "added": row.added,
            "updated": row.updated,
            "removed": row.removed,
            "unchanged": row.unchanged,
        },
        "image": _image(row),
        "steps": {"pending": row.pending, "in_flight": row.flight, "done": row.done, "failed": row.bad},
        "policy": policy | times,
        "started_at": at(row.started_ms),
        "ended_at": at(row.ended_ms),
        "code": row.code or None,
        "message": in_words(row.message),
        "reason": row.reason,
        "data": row.data,
    }


def update_steps(
    connection: Connection, job_id: str, number: int, size: int, after: Sequence[int] | None
) -> Page[UpdateSteps]:
    """The steps of the instances of an update, the oldest first: ranges of instances that took a step."""
    table = tables.update_steps
    key = (table.c.offset, table.c.place)
    query = select(table).where(table.c.job_id == job_id, table.c.number == number).order_by(*key)
    if after is not None:
        query = query.where((key[0] > after[0]) | (key[0] == after[0]) & (key[1] > after[1]))
    page = some(connection, UpdateStepRow, query, size, lambda row: 8 * len(row.ranges))
    items: list[UpdateSteps] = [
        {
            "position": f"paceline.lifecycle:{row.offset}",
            "at": at(row.at_ms),
            "steps": [
                {"first": first, "count": count, "step": UpdateStep(step).name}
                for first, count, step in np.reshape(ints(row.ranges), (3, -1)).T.tolist()
            ],
        }
        for row in page.rows
    ]
    last = page.rows[-1] if page.more else None
    return Page(items, [last.offset, last.place] if last else None)
