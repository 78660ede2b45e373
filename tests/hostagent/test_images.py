"""Images of a host, from a registry of this machine."""

import asyncio
import os
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from events.process import images
from events.process.images import Image, ImageFault, last_line, resolve
from hostagent.folders import disarm
from hostagent.images import Images, _make_mount_points
from tests.helpers.image_registry import ImageRegistry, image_registry

pytestmark = [pytest.mark.outside, pytest.mark.anyio]
BUILD = Path(__file__).parents[2] / "examples/image/build.sh"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("image") / "web"
    subprocess.run([BUILD, folder], check=True, capture_output=True)
    return folder


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[ImageRegistry]:
    with image_registry(tmp_path / "registry") as started:
        yield started


def changed(layout: Path, folder: Path) -> Path:
    """A copy of a layout, whose image has another setting."""
    shutil.copytree(layout, folder)
    subprocess.run(["umoci", "config", "--image", f"{folder}:1.0", "--config.env", "NEWER=yes"], check=True)
    return folder


async def test_a_tag_is_resolved_once_and_what_it_was_then_is_what_runs(
    registry: ImageRegistry, layout: Path, tmp_path: Path
) -> None:
    name = registry.push(layout, "1.0", "web:1.0")
    image = Image(name, await resolve(name))
    registry.push(changed(layout, tmp_path / "newer"), "1.0", "web:1.0")
    assert await resolve(name) != image.digest
    here = Images(tmp_path / "images")
    assert here.root(image) is None
    root = await here.pull(image)
    assert (root / "www/index.html").read_text() == "<h1>It runs from an image.</h1>\n"
    config = here.config(image)
    assert (config["User"], config["WorkingDir"], config["Env"]) == ("web", "/www", ["PATH=/bin"])


async def test_an_image_that_is_here_needs_no_registry(registry: ImageRegistry, layout: Path, tmp_path: Path) -> None:
    name = registry.push(layout, "1.0", "web:1.0")
    image = Image(name, await resolve(name))
    here = Images(tmp_path / "images")
    roots = await asyncio.gather(*(here.pull(image) for _ in range(3)))
    registry.stop()
    assert set(roots) == {await Images(tmp_path / "images").pull(image)}
    assert here.held() == [image.hex[:16]]  # its lock and configuration beside it are no images


async def test_what_a_registry_does_not_have_is_told_at_once(registry: ImageRegistry, tmp_path: Path) -> None:
    name = f"{registry.address}/nothing:1"
    with pytest.raises(ImageFault, match="manifest unknown") as told:
        await resolve(name)
    assert told.value.lasting
    with pytest.raises(ImageFault, match="manifest unknown"):
        await Images(tmp_path / "images").pull(Image(name, f"sha256:{'0' * 64}"))


async def test_a_registry_that_is_away_is_tried_again(
    registry: ImageRegistry, layout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "RETRY_S", 0.01)
    name = registry.push(layout, "1.0", "web:1.0")
    image = Image(name, await resolve(name))
    registry.stop()
    with pytest.raises(ImageFault, match=r"connection refused.*\(tried 3 times\)") as told:
        await Images(tmp_path / "images").pull(image)
    assert not told.value.lasting
    registry.start()
    assert (await Images(tmp_path / "images").pull(image)).is_dir()


@pytest.mark.parametrize("name", ["--help", "a b", "UP/x", "x@sha256:1", ""])
async def test_what_names_no_image_reaches_no_tool(name: str) -> None:
    with pytest.raises(ImageFault, match="no name of an image"):
        await resolve(name)
    with pytest.raises(ImageFault, match="names no image by its SHA-256"):
        Image(name, f"sha256:{'0' * 64}").source  # noqa: B018
    with pytest.raises(ImageFault, match="names no image by its SHA-256"):
        Image("app:1", "sha256:../../x").source  # noqa: B018


async def test_what_no_run_uses_goes_when_it_is_old_or_the_room_is_short(
    registry: ImageRegistry, layout: Path, tmp_path: Path
) -> None:
    names = [
        registry.push(layout, "1.0", "web:1"),
        registry.push(changed(layout, tmp_path / "newer"), "1.0", "web:2"),
    ]
    older, newer = [Image(name, await resolve(name)) for name in names]
    here = Images(tmp_path / "images", kept_s=100.0)
    for image in (older, newer):
        await here.pull(image)
    using = here.use(older)
    os.close(here.use(newer))
    now_s = time.time()
    assert await here.collect(now_s) == []
    assert await here.collect(now_s + 200) == [newer.digest]
    assert here.root(newer) is None
    assert here.root(older) is not None, "a run uses it"
    os.close(using)
    small = Images(tmp_path / "images", kept_s=1e9, most_bytes=0)
    assert await small.collect(now_s) == [older.digest]
    assert list((tmp_path / "images/layout/blobs/sha256").iterdir()) == []
    with pytest.raises(ImageFault, match="isn't on this host"):
        here.use(older)
    assert (await here.pull(older)).is_dir(), "it comes again when it is wanted again"


async def test_the_half_of_an_image_that_a_kill_has_left_is_no_image(
    registry: ImageRegistry, layout: Path, tmp_path: Path
) -> None:
    name = registry.push(layout, "1.0", "web:1.0")
    image = Image(name, await resolve(name))
    half = tmp_path / "images/roots" / f"{image.hex}.tmp"
    half.mkdir(parents=True)
    (half / "part").write_text("x")
    here = Images(tmp_path / "images")
    assert not half.exists()
    assert here.root(image) is None
    assert not ((await here.pull(image)) / "part").exists()


async def test_a_registry_that_does_not_answer_holds_up_no_other(
    registry: ImageRegistry, layout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = registry.push(layout, "1.0", "web:1.0")
    image = Image(name, await resolve(name))
    here = Images(tmp_path / "images")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        away = f"127.0.0.1:{silent.getsockname()[1]}/x"
        waiting = [asyncio.create_task(here.pull(Image(away, f"sha256:{each}" + "0" * 63))) for each in range(4)]
        assert (await asyncio.wait_for(here.pull(image), 30)).is_dir()
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        monkeypatch.setattr(images, "RESOLVE_S", 0.5)
        with pytest.raises(ImageFault, match="no answer of its registry") as told:
            await resolve(f"{away}:1")
    assert not told.value.lasting


async def test_nothing_is_pulled_where_the_disk_is_nearly_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hostagent.images.ROOM_BYTES", 1 << 60)
    with pytest.raises(ImageFault, match=r"IMAGE_NO_ROOM: app:1 was not pulled: the disk of its host has \d+ MiB"):
        await Images(tmp_path / "images").pull(Image("app:1", f"sha256:{'0' * 64}"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 48 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "none", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a disk")
@pytest.mark.parametrize("mib", [30, 60])
async def test_a_pull_that_would_fill_the_disk_is_given_up_and_leaves_nothing(
    registry: ImageRegistry, layout: Path, tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch, mib: int
) -> None:
    monkeypatch.setattr("hostagent.images.ROOM_BYTES", 8 << 20)
    large = changed(layout, tmp_path / "large")
    (tmp_path / "random").write_bytes(os.urandom(mib << 20))
    subprocess.run(["umoci", "insert", "--image", f"{large}:1.0", tmp_path / "random", "/random"], check=True)
    names = registry.push(large, "1.0", "large:1"), registry.push(layout, "1.0", "web:1.0")
    too_large, small = [Image(name, await resolve(name)) for name in names]
    here = Images(small_disk / "images")
    free = shutil.disk_usage(small_disk).free
    with pytest.raises(ImageFault, match=r"IMAGE_NO_ROOM: .*large:1 was not pulled: the disk of its host has") as told:
        await here.pull(too_large)
    assert not told.value.lasting
    assert "8 MiB are kept for its runs" in str(told.value)
    assert shutil.disk_usage(small_disk).free > free - (1 << 20)
    assert (await here.pull(small)).is_dir()
    with pytest.raises(ImageFault, match="IMAGE_NO_ROOM"):
        await here.pull(too_large)
    assert here.root(small) is not None
    assert shutil.disk_usage(small_disk).free > free - (8 << 20)


async def test_an_image_without_a_folder_where_one_is_needed_never_runs(tmp_path: Path) -> None:
    image = Image("app:1", f"sha256:{'0' * 64}")
    (tmp_path / "tmp").symlink_to("/nowhere")
    with pytest.raises(ImageFault, match="app:1 has no folder at /tmp") as told:
        _make_mount_points(image, tmp_path)
    assert told.value.lasting


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes")
def test_no_image_brings_devices_or_rights(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    os.mknod(tmp_path / "x/kmsg", stat.S_IFCHR | 0o666, os.makedev(1, 11))
    (tmp_path / "x/sh").write_text("")
    (tmp_path / "x/sh").chmod(0o6755)
    disarm(tmp_path)
    assert [each.name for each in (tmp_path / "x").iterdir()] == ["sh"]
    assert stat.S_IMODE((tmp_path / "x/sh").stat().st_mode) == 0o755


async def test_what_a_registry_answers_is_not_told_as_a_fault_of_the_name() -> None:
    said = (
        r'time="2026-01-01T00:00:00Z" level=fatal msg="Error parsing image name \"docker://r/web:1.0\": no such host"'
    )
    assert last_line(said) == "no such host"
