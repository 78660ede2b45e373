"""The route by which the image of a job comes to hosts before its runs are there."""

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import Field
from sqlalchemy import Connection

from events.codes import IN_EFFECT, Code
from events.process.images import Image
from events.records.jobs import ImagePrefetchRequested
from projections.api.commands import Command, carry_out
from projections.api.context import Context, Wait
from projections.api.image_tags import digest_of
from projections.api.job_rows import find_job
from projections.api.problems import ANSWERED, Problem
from projections.queries import versions


class PrefetchCommand(Command):
    """The image that hosts are to pull."""

    image: Annotated[str, Field(max_length=512, description="Empty: that of the job, which is submitted.")] = ""


def add_routes(router: APIRouter, context: Context) -> None:
    """Adds it to the routes of jobs."""

    @router.post("/{job_id}/prefetches", status_code=202, responses=ANSWERED)
    async def prefetch(job_id: str, command: PrefetchCommand, wait: Wait, request: Request) -> Response:
        """Has all hosts that run containers pull the image of a job, which needn't be submitted yet."""
        name, _, pinned = command.image.partition("@")
        image_to_pull = [Image(name, pinned or await digest_of({"image": command.image}, request))]

        def must_be(connection: Connection) -> None:
            if not command.image:
                spec = versions.present_spec(connection, find_job(connection, job_id), overrides=False)
                if not spec.get("image"):
                    raise Problem(422, Code.INVALID_SPEC, f"job {job_id} has no image")
                image_to_pull[0] = Image(*spec["image"].split("@"))

        def fact(command_id: str) -> ImagePrefetchRequested:
            image = image_to_pull[0]
            return ImagePrefetchRequested(
                job_id=job_id,
                command_id=command_id,
                image=image.name,
                image_digest=image.digest,
                reason=command.reason,
            )

        return await carry_out(context, command, fact, job_id, must_be, wait, IN_EFFECT)
