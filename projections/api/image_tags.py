"""Looks up what the tag of an image stands for, so that all runs of a job use the same bytes.

The fact that submits or updates a job carries the digest: the log says which image a tag was, when, and replays without
a registry.
"""

from typing import Any

import msgspec

from events.bounds import DIGEST, IMAGE
from events.codes import Code
from events.process.images import ImageFault, resolve
from events.records.jobs import JobSubmitted
from projections.api.problems import Problem


async def digest_of(spec: Any, at: str = "") -> str:
    """The digest of the image that the JSON of a job names by a tag; empty: it names none so. `at`: where the job
    stands in the request. Raises a problem where the registry has no such image, or can't be reached.
    """
    image = spec.get("image") if isinstance(spec, dict) else None
    if not isinstance(image, str) or not image or "@" in image:
        return ""
    try:
        return await resolve(image)
    except ImageFault as fault:
        by_digest = f"; a name with its digest, {image}@sha256:..., needs no look at the registry"
        text = f"{fault}{by_digest if IMAGE.fullmatch(image) else ''}"
        raise Problem(422 if fault.lasting else 503, Code.IMAGE_UNPINNED, text, [(f"{at}/image", str(fault))]) from None


def pinned(event: JobSubmitted, digest: str) -> JobSubmitted:
    """The fact with the digest that was looked up."""
    if not DIGEST.fullmatch(digest) or event.isolation is None:
        return event
    return msgspec.structs.replace(event, isolation=msgspec.structs.replace(event.isolation, image_digest=digest))
