"""Images that a user wants on hosts ahead of runs."""

import pytest

from events.codes import Code
from events.records.jobs import ImagePrefetchRequested
from events.records.lifecycle import CommandAnswered, ImagePrefetchOrdered
from tests.helpers.machines import one
from tests.processors.lifecycle.harness import World

DIGEST = f"sha256:{'0' * 64}"


def asked(world: World, image: str = "r/web:1", digest: str = DIGEST, job_id: str = "web") -> ImagePrefetchRequested:
    return ImagePrefetchRequested(job_id=job_id, command_id=world.command_id(), image=image, image_digest=digest)


def test_all_hosts_pull_it_and_the_order_names_the_command() -> None:
    world = World()
    said = world.fact("paceline.jobs", asked(world))
    assert one(said, CommandAnswered).code == Code.DONE
    order = one(said, ImagePrefetchOrdered)
    assert (order.job_id, order.image, order.image_digest, order.host_ids) == ("web", "r/web:1", DIGEST, ())
    assert order.cause is not None
    assert order.cause.topic == "paceline.jobs"


@pytest.mark.parametrize(("image", "digest"), [("r/web:1", ""), ("--help", DIGEST), ("r/web:1", "sha256:../x")])
def test_what_names_no_image_by_its_digest_reaches_no_host(image: str, digest: str) -> None:
    world = World()
    said = world.fact("paceline.jobs", asked(world, image, digest))
    assert one(said, CommandAnswered).code == Code.IMAGE_UNPINNED
    assert not any(isinstance(each, ImagePrefetchOrdered) for each in said)
