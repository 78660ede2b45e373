"""Looks up what the tag of an image stands for, so that all runs of a job use the same bytes.

The fact that submits or updates a job carries the digest: the log says which image a tag was, when, and replays without
a registry.
"""

import asyncio
import time
from collections.abc import Iterable
from typing import Any

import msgspec
from fastapi import Request

from events.bounds import DIGEST, IMAGE
from events.codes import Code
from events.process.images import ImageFault, resolve
from events.records.jobs import JobSubmitted
from projections.api.problems import CLIENT_LEFT, Problem

LOOKS_MAX = 3
"""Tags of one request that are looked up at the same time: one fewer than of all requests."""


def tag_of(spec: Any) -> str:
    """The image that the JSON of a job names by a tag; empty: it names none so."""
    image = spec.get("image") if isinstance(spec, dict) else None
    return image if isinstance(image, str) and "@" not in image else ""


async def digest_of(spec: Any, request: Request | None, at: str = "") -> str:
    """The digest of the image that the JSON of a job names by a tag; empty: it names none so. `at`: where the job
    stands in the request; None: whoever asks is waited for though he may leave. Raises a problem where the registry has
    no such image, or can't be reached, and where the client left before it answered.
    """
    image = tag_of(spec)
    if not image:
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
            raise _left(image)
        return await look
    finally:
        leave.cancel()
        look.cancel()
        await asyncio.wait((look, leave))


async def digests_of(images: Iterable[str], request: Request, deadline: float) -> dict[str, str | Problem]:
    """Looks up some tags together until `deadline` (`time.monotonic`): what each stands for, or the problem why that
    isn't known. Raises a problem where the client of the request, whose body has been read, leaves before.
    """
    places = asyncio.Semaphore(LOOKS_MAX)

    async def look(image: str) -> str | Problem:
        async with places:
            try:
                return await digest_of({"image": image}, None)
            except Problem as problem:
                return problem

    looks = {image: asyncio.ensure_future(look(image)) for image in dict.fromkeys(images) if image}
    if not looks:
        return {}
    leave = asyncio.ensure_future(request.receive())
    every = asyncio.ensure_future(asyncio.wait(looks.values()))
    try:
        rest_s = max(0.0, deadline - time.monotonic())
        await asyncio.wait((every, leave), timeout=rest_s, return_when=asyncio.FIRST_COMPLETED)
        if leave.done() and not every.done():
            raise _left(next(image for image, each in looks.items() if not each.done()))
        return {image: each.result() if each.done() else _late(image) for image, each in looks.items()}
    finally:
        for each in (leave, every, *looks.values()):
            each.cancel()
        await asyncio.wait((leave, every, *looks.values()))


def _left(image: str) -> Problem:
    return Problem(CLIENT_LEFT, Code.IMAGE_UNPINNED, f"the client left before the registry of {image} answered")


def _late(image: str) -> Problem:
    fault = f"{image}: no answer of its registry within the time for all images of the request"
    wish = "; send the job again, name the image with its digest, or let the request wait longer (wait)"
    return Problem(503, Code.IMAGE_UNPINNED, fault + wish, [("/image", fault)])


def pinned(event: JobSubmitted, digest: str) -> JobSubmitted:
    """The fact with the digest that was looked up."""
    if not DIGEST.fullmatch(digest) or event.isolation is None:
        return event
    return msgspec.structs.replace(event, isolation=msgspec.structs.replace(event.isolation, image_digest=digest))
