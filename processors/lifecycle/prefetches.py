"""Images that are to be on hosts before runs need them there."""

from events.bounds import DIGEST, IMAGE, NAME
from events.codes import Code
from events.records.lifecycle import ImagePrefetchOrdered
from processors.lifecycle.rows import PrefetchRow
from processors.lifecycle.updates.commands import Answer
from processors.state.causes import job_fact


def ordered(offset: int, wish: PrefetchRow) -> Answer:
    """The answer to a user who wants an image on all hosts that run containers."""
    if not NAME.fullmatch(wish.job_id):
        return Answer(Code.INVALID_SPEC, "no job can have that id")
    if not (IMAGE.fullmatch(wish.image) and DIGEST.fullmatch(wish.image_digest)):
        return Answer(Code.IMAGE_UNPINNED, f"image {wish.image[:80]} has no digest: ask over HTTP, or say image_digest")
    order = ImagePrefetchOrdered(
        job_id=wish.job_id,
        image=wish.image,
        image_digest=wish.image_digest,
        host_ids=(),
        cause=job_fact(offset),
    )
    return Answer(Code.DONE, "hosts that run containers pull it, those that connect within the hour too", (order,))
