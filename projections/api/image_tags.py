"""Looks up what the tag of an image stands for, so that all runs of a job use the same bytes.

The fact that submits or updates a job carries the digest: the log says which image a tag was, when, and replays without
a registry.
"""

import asyncio
from typing import Any

import msgspec
from fastapi import Request

from events.bounds import DIGEST, IMAGE
from events.codes import Code
from events.process.images import ImageFault, resolve
from events.records.jobs import JobSubmitted
from projections.api.problems import Problem


async def digest_of(spec: Any, request: Request | None, at: str = "") -> str:
    """The digest of the image that the JSON of a job names by a tag; empty: it names none so. `at`: where the job
    stands in the request; None: whoever asks is waited for though he may leave. Raises a problem where the registry has
    no such image, or can't be reached, and where the client left before it answered.
    """
    image = spec.get("image") if isinstance(spec, dict) else None
    if not isinstance(image, str) or not image or "@" in image:
        return ""
    try:
        return await (resolve(image) if request is None else _resolve_for(request, image))
    except ImageFault as fault:
        by_digest = f"; a name with its digest, {image}@sha256:..., needs no look at the registry"
        text = f"{fault}{by_digest if IMAGE.fullmatch(image) else ''}"
        raise Problem(422 if fault.lasting else 503, Code.IMAGE_UNPINNED, text, [(f"{at}/image", str(fault))]) from None


async def _resolve_for(request: Request, image: str) -> str:
    """Looks at a registry while the client of a request, whose body has been read, waits for it."""
    look, leave = asyncio.ensure_future(resolve(image)), asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait((look, leave), return_when=asyncio.FIRST_COMPLETED)
        if not look.done():
            raise Problem(499, Code.IMAGE_UNPINNED, f"the client left before the registry of {image} answered")
        return await look
    finally:
        leave.cancel()
        look.cancel()
        await asyncio.wait((look, leave))


def pinned(event: JobSubmitted, digest: str) -> JobSubmitted:
    """The fact with the digest that was looked up."""
    if not DIGEST.fullmatch(digest) or event.isolation is None:
        return event
    return msgspec.structs.replace(event, isolation=msgspec.structs.replace(event.isolation, image_digest=digest))
