"""Heads in an S3-compatible store."""

import pytest
from s3fs import S3FileSystem

from paceline.witness.alarms import Alarmed
from paceline.witness.published import Heads
from tests.events.log.test_object_store import BUCKET, bucket
from tests.helpers.past import past
from tests.paceline.witness.world import World, copied, grow, part

__all__ = ["bucket"]
pytestmark = pytest.mark.outside


def test_a_chain_goes_on_in_a_bucket(bucket: S3FileSystem, world: World) -> None:
    world.heads = Heads(f"s3://{BUCKET}/heads", 0)
    log = copied(until_ms=part(0.5))
    world.follow(log)
    grow(log, past())
    world.follow(log)
    names = sorted(name.rpartition("/")[2] for name in bucket.ls(f"{BUCKET}/heads/cell-0"))
    assert names == ["head-000000000001.txt", "head-000000000002.txt"]
    chain = world.chain()
    assert (chain.finding, chain.count) == (None, 2)
    kept = bucket.cat(f"{BUCKET}/heads/cell-0/head-000000000002.txt")
    bucket.rm(f"{BUCKET}/heads/cell-0/head-000000000002.txt")
    world.witness(log).close()
    assert bucket.cat(f"{BUCKET}/heads/cell-0/head-000000000002.txt") == kept, "it is there again"
    bucket.rm(f"{BUCKET}/heads", recursive=True)
    with pytest.raises(Alarmed, match="head 2, which this witness has signed, is missing"):
        world.witness(log)
