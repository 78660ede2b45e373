"""Routes of the versions of a job, of its updates, and of the runs of its tasks."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from sqlalchemy import Connection

from events.bounds import INT_MAX
from events.codes import Code
from paceline.client import models
from paceline.client.page_models import RunList, UpdateList, UpdateStepsPage, VersionList
from projections.api.context import Pages, Place, Reading, next_token
from projections.api.job_rows import find_job
from projections.api.problems import Problem, not_found
from projections.queries import versions
from projections.queries.runs import task_runs
from projections.views.rows import JobRow
from projections.views.update_rows import UpdateRow, VersionRow

Instance = Annotated[int, Path(ge=0, le=INT_MAX)]
Number = Annotated[int, Path(ge=1, le=INT_MAX)]
Version = Annotated[int | None, Query(ge=1, le=INT_MAX)]


def add_routes(router: APIRouter) -> None:
    """Adds them to the routes of jobs."""
    _runs(router)

    @router.get("/{job_id}/versions")
    async def list_versions(job_id: str, read: Reading) -> Response:
        """The versions of the job that are kept, the newest first."""

        def look(connection: Connection) -> VersionList:
            rows = versions.versions(connection, find_job(connection, job_id))
            return {"versions": [versions.version_json(each) for each in rows]}

        return await read(look)

    @router.get("/{job_id}/versions/{version}")
    async def one_version(job_id: str, version: Number, read: Reading) -> Response:
        """A version of the job, with its specification."""

        def look(connection: Connection) -> models.Version:
            row = find_version(connection, find_job(connection, job_id), version)
            return {**versions.version_json(row), "spec": versions.spec_of(connection, row.offset)}

        return await read(look)

    @router.get("/{job_id}/diff")
    async def diff(
        job_id: str,
        read: Reading,
        from_version: Annotated[Version, Query(alias="from", description="By default the one before.")] = None,
        to_version: Annotated[Version, Query(alias="to", description="By default the newest.")] = None,
    ) -> Response:
        """The differences between two versions of the job."""

        def look(connection: Connection) -> models.Diff:
            job = find_job(connection, job_id)
            after = find_version(connection, job, to_version or job.version)
            before = find_version(connection, job, from_version or max(1, after.version - 1))
            old, new = (versions.whole_spec(connection, each.offset) for each in (before, after))
            return {"from": before.version, "to": after.version, **versions.changes_json(old, new)}

        return await read(look)

    @router.get("/{job_id}/updates")
    async def list_updates(job_id: str, read: Reading) -> Response:
        """The updates of the job that are kept, the newest first."""

        def look(connection: Connection) -> UpdateList:
            rows = versions.updates(connection, find_job(connection, job_id).job_id)
            return {"updates": [versions.update_json(each) for each in rows]}

        return await read(look)

    @router.get("/{job_id}/updates/{number}")
    async def one_update(job_id: str, number: Number, read: Reading) -> Response:
        """An update of the job."""
        return await read(lambda connection: versions.update_json(_find_update(connection, job_id, number)))

    @router.get("/{job_id}/updates/{number}/steps")
    async def steps(job_id: str, number: Number, read: Reading, page: Pages) -> Response:
        """The steps of the instances of an update, the oldest first."""
        after = page.after(tuple[Place, Place], "steps", job_id, number)

        def look(connection: Connection) -> UpdateStepsPage:
            _find_update(connection, job_id, number)
            rows = versions.update_steps(connection, job_id, number, page.size, after)
            return {"steps": rows.items, "next_page_token": next_token(rows.next, "steps", job_id, number)}

        return await read(look)


def _runs(router: APIRouter) -> None:
    @router.get("/{job_id}/tasks/{instance}/runs")
    async def list_runs(job_id: str, instance: Instance, read: Reading) -> Response:
        """The runs of the task that are kept, the newest first: at most 100 that a host was told of."""

        def look(connection: Connection) -> RunList:
            job = find_job(connection, job_id)
            rows = task_runs(connection, job, instance)
            if not rows and instance >= job.instances:
                raise not_found("task", f"{instance} of job {job_id}")
            return {"runs": rows}

        return await read(look)


def find_version(connection: Connection, job: JobRow, version: int) -> VersionRow:
    """A version of a job. Raises a problem where it isn't kept."""
    rows = versions.versions(connection, job)
    for row in rows:
        if row.version == version:
            return row
    if not rows:
        raise Problem(404, Code.NOT_FOUND, f"job {job.job_id} has no version yet: it isn't accepted")
    numbers = ", ".join(str(row.version) for row in reversed(rows))
    raise Problem(404, Code.NOT_FOUND, f"job {job.job_id} has no version {version}, or no longer; it has {numbers}")


def _find_update(connection: Connection, job_id: str, number: int) -> UpdateRow:
    rows = versions.updates(connection, find_job(connection, job_id).job_id, number)
    if not rows:
        raise not_found("update", f"{number} of job {job_id}, or no longer")
    return rows[0]
