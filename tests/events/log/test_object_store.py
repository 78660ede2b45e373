"""Snapshots and archive in an S3-compatible store, whose address and keys come from the environment alone."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from moto.server import ThreadedMotoServer
from s3fs import S3FileSystem

from tests.helpers.stored_cell import JOBS
from tests.paceline.cli.test_snapshot import Cli, archived, cli, data, verified, work

__all__ = ["cli", "data"]
BUCKET = "paceline"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3FileSystem]:
    """An empty bucket, named to all commands as docs/snapshots.md says."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    httpx2.post(f"http://{host}:{port}/moto-api/reset", trust_env=False)  # moto keeps its buckets for the next server
    S3FileSystem.clear_instance_cache()  # s3fs keeps what it made, with the address of that time
    files = S3FileSystem()
    files.mkdir(BUCKET)
    yield files
    S3FileSystem.clear_instance_cache()
    server.stop()


@pytest.fixture
def places(bucket: S3FileSystem, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> S3FileSystem:
    """The bucket, set as the place of snapshots and of the archive."""
    monkeypatch.setenv("PACELINE_SNAPSHOTS", f"s3://{BUCKET}/snapshots")
    monkeypatch.setenv("PACELINE_ARCHIVE", f"s3://{BUCKET}/archive")
    return bucket


def test_a_store_is_kept_in_a_bucket_lost_and_brought_back(cli: Cli, data: Path, places: S3FileSystem) -> None:
    hashes: dict[str, bytes] = {}
    for first in (30, 60, 90, 120):
        hashes = work(data, first, first + 30)
        assert cli("snapshot", "create")[0] == 0
    found = json.loads(cli("snapshot", "list", "-o", "json")[1])["snapshots"]
    assert [each["machine"] for each in found] == [*["left"] * 3, *["right"] * 3], "older ones are removed"
    assert {each["machine"]: each["manifest"]["state_hash"] for each in reversed(found)} == {
        name: hash_.hex() for name, hash_ in hashes.items()
    }
    code, out, _ = cli("snapshot", "verify")
    assert (code, out.count("good")) == (0, 6)

    shutil.rmtree(data / "store")
    code, out, err = cli("snapshot", "restore")
    assert (code, err, len(out.splitlines())) == (0, "", 3)
    assert work(data, 150, 150) == hashes


def test_a_snapshot_that_was_damaged_in_the_bucket_is_refused(cli: Cli, data: Path, places: S3FileSystem) -> None:
    cli("snapshot", "create", "--machine", "left")
    [snapshot] = json.loads(cli("snapshot", "list", "--machine", "left", "-o", "json")[1])["snapshots"]
    largest = max(snapshot["manifest"]["files"], key=lambda file: file["size"])
    places.pipe_file(f"{snapshot['place'].removeprefix('s3://')}/{largest['hash']}", b"rot")
    code, out, _ = cli("snapshot", "verify", "--machine", "left")
    assert (code, "has another hash than its manifest says" in out) == (1, True)


def test_a_log_that_was_cut_is_verified_from_an_archive_in_a_bucket(
    cli: Cli, data: Path, places: S3FileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("snapshot", "create")
    whole = verified(cli)
    done = archived(cli, "--remove")
    assert done[JOBS]["removed"] == done[JOBS]["log_from"] == 30
    assert places.glob(f"{BUCKET}/archive/cell-0/{JOBS}/*.avro")
    assert verified(cli) == whole
    monkeypatch.delenv("PACELINE_ARCHIVE")
    assert cli("log", "verify")[0] == 1


def test_a_bucket_that_is_not_there_is_said(cli: Cli, data: Path, places: S3FileSystem) -> None:
    code, _, err = cli("snapshot", "create", "--snapshots", "s3://nobodys/snapshots")
    assert (code, err.count("\n")) == (6, 1)
    assert "s3://nobodys/snapshots can't be used now: " in err
