"""Jobs from images on a real host: their tasks run in containers, from the registry of this machine."""

import asyncio
import fcntl
import os
import pty
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
import pytest
import yaml

from events.process.images import resolve
from events.records.parts import HostDevice, Isolation
from hostagent.hardware import Hardware, Source
from hostagent.keepers import KEEPERS
from hostagent.runs import stop_all
from tests.helpers.image_registry import ImageRegistry, image_registry
from tests.helpers.real_cell import CellProcess
from tests.helpers.waiting import until
from tests.hostagent.test_agent import Site, shell
from tests.hostagent.test_groups import REFUSED
from tests.hostagent.test_hardware import order

pytestmark = [pytest.mark.outside, pytest.mark.xdist_group("limits"), pytest.mark.skipif(bool(REFUSED), reason=REFUSED)]
BUILD = Path(__file__).parents[2] / "examples/image/build.sh"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that any user of the machine passes through, as through that of an agent; pytest's are closed."""
    with TemporaryDirectory(prefix="paceline-test-") as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def registry(folder: Path) -> Iterator[ImageRegistry]:
    with image_registry(folder / "registry") as started:
        yield started


@pytest.fixture(scope="module")
def image(folder: Path, registry: ImageRegistry) -> str:
    subprocess.run([BUILD, folder / "layout"], check=True, capture_output=True)
    return registry.push(folder / "layout", "1.0", "web:1.0")


@pytest.fixture(scope="module")
def cell(folder: Path) -> Iterator[CellProcess]:
    (folder / "paceline.toml").write_text('[agent]\ndevice_files = ["/dev/zero", "/dev/none"]\n')
    made = CellProcess(folder / "data", sim_hosts=0, agent=True)
    made.start()
    try:
        made.pool("/p")
        yield made
    finally:
        made.end()


def run(cell: CellProcess, job_id: str, wait: bool = True, **spec: Any) -> dict[str, Any]:
    """A task, to its end unless it isn't waited for."""
    asked = {"job_id": job_id, "pool": "/p", "resources": {"cpu": 0.1, "memory": "64MiB"}}
    answer = cell.request("POST", "/v1/jobs", {**asked, **spec})
    assert answer.status_code < 300, answer.text
    states = ("SUCCEEDED", "FAILED", "KILLED") if wait else ("RUNNING",)
    try:
        until(lambda: cell.state(job_id) in states, f"{job_id} to be in {states}")
    except AssertionError as fault:
        raise AssertionError(cell.get(f"/v1/jobs/{job_id}/explanation").text) from fault
    tasks: list[dict[str, Any]] = cell.get(f"/v1/jobs/{job_id}/tasks").json()["tasks"]
    return tasks[0]


def output(cell: CellProcess, job_id: str, stream: str = "stdout") -> str:
    words = ("logs", job_id, "--stderr") if stream == "stderr" else ("logs", job_id)
    return command(cell, *words).stdout


def command(cell: CellProcess, *words: str, text: str = "") -> "subprocess.CompletedProcess[str]":
    """`paceline job` to its end."""
    environment = {**os.environ, "PACELINE_DATA": str(cell.data)}
    return subprocess.run(
        [sys.executable, "-m", "paceline", "job", *words],
        input=text,
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=60,
    )


def test_a_task_runs_from_its_image(cell: CellProcess, image: str) -> None:
    task = run(cell, "first", image=image, command=["sh", "-c", "id -u; cat /www/index.html; pwd; echo $PACELINE_JOB"])
    assert task["state"] == "SUCCEEDED", cell.get("/v1/jobs/first/explanation").text
    assert output(cell, "first") == "1000\n<h1>It runs from an image.</h1>\n/www\nfirst\n"


def test_the_service_of_the_examples_answers(cell: CellProcess, image: str) -> None:
    spec = yaml.safe_load(BUILD.with_name("web.yaml").read_text()) | {"job_id": "web", "pool": "/p", "image": image}
    assert cell.request("POST", "/v1/jobs", spec).status_code < 300

    def tasks() -> list[dict[str, Any]]:
        return list(cell.get("/v1/jobs/web/tasks").json().get("tasks", []))

    until(lambda: [each["state"] for each in tasks()] == ["RUNNING"] * 2, "both servers to be healthy")
    for task in tasks():
        page = httpx2.get(f"http://127.0.0.1:{task['ports'][0]}/").text
        assert page == "<h1>It runs from an image.</h1>\n"
    assert command(cell, "stop", "web", "--reason", "seen").returncode == 0


LIVES = "echo up; trap 'echo down; exit 3' TERM; while :; do sleep 0.1; done"


def containers(cell: CellProcess) -> list[str]:
    """All that is there of the containers of its agent: control groups, mounts, and what crun knows of."""
    agent = cell.data.with_name("data-agent").resolve()
    place = f"paceline-{blake2b(bytes(agent), digest_size=8).hexdigest()}"
    walked = os.walk("/sys/fs/cgroup")  # unlike a glob, not troubled by what others remove meanwhile
    groups = {name for top, names, _ in walked if os.path.basename(top) == place for name in names}
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(agent) in line]
    states = [path.parent.name for path in agent.glob("runs/*/*/*/crun/run")]
    return [*sorted(groups), *mounts, *states, *(os.listdir("/run/crun") if os.path.isdir("/run/crun") else ())]


def stop(cell: CellProcess, job_id: str) -> None:
    cell.request("POST", f"/v1/jobs/{job_id}/stops", {"command_id": "end", "reason": ""})
    until(lambda: cell.state(job_id) == "KILLED", f"{job_id} to end")


def test_a_service_is_stopped_by_its_signal_and_leaves_nothing(cell: CellProcess, image: str) -> None:
    run(cell, "service", wait=False, kind="stateless", image=image, command=["sh", "-c", LIVES])
    until(lambda: "up" in output(cell, "service"))
    stop(cell, "service")
    assert output(cell, "service") == "up\ndown\n"
    until(lambda: not containers(cell), f"{containers(cell)} to be gone")


def test_a_user_enters_a_container(cell: CellProcess, image: str, tmp_path: Path) -> None:
    run(cell, "entered", wait=False, kind="stateless", image=image, command=["sh", "-c", LIVES])
    try:
        for _ in range(3):
            done = command(cell, "exec", "entered", "--", "sh", "-c", "id -u; pwd; echo $PACELINE_JOB; exit 7")
            assert (done.returncode, done.stdout, done.stderr) == (7, "1000\n/www\nentered\n", "")
        assert command(cell, "exec", "entered", "--", "nosuch").returncode == 127
        assert command(cell, "exec", "entered", "-i", "--", "cat", text="abc\n" * 9999).stdout == "abc\n" * 9999
        assert command(cell, "cp", "entered:/www/index.html", str(tmp_path)).returncode == 0
        assert (tmp_path / "index.html").read_text() == "<h1>It runs from an image.</h1>\n"
        assert cell.state("entered") == "RUNNING"
    finally:
        stop(cell, "entered")


def test_a_terminal_in_a_container_behaves_as_one(cell: CellProcess, image: str) -> None:
    run(cell, "terminal", wait=False, kind="stateless", image=image, command=["sh", "-c", LIVES])
    try:
        pid, terminal = pty.fork()
        if not pid:
            os.environ["PACELINE_DATA"] = str(cell.data)
            os.execv(sys.executable, [sys.executable, "-m", "paceline", "job", "exec", "terminal", "-t", "--", "sh"])
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 31, 117, 0, 0))
        os.write(terminal, b"echo a$((1 + 1))b; trap 'echo caught' INT; sleep 1000\n")
        seen = read_until(terminal, b"a2b")
        os.write(terminal, b"\x03")
        seen = read_until(terminal, b"caught")
        os.write(terminal, b"exit 5\n")
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5, seen
        os.close(terminal)
    finally:
        stop(cell, "terminal")


def read_until(file: int, wanted: bytes) -> bytes:
    """What a terminal shows, until that is among it."""
    seen = b""

    def read() -> bool:
        nonlocal seen
        if select.select([file], [], [], 0)[0]:
            seen += os.read(file, 4096)
        return wanted in seen

    until(read, f"{wanted!r} to be shown")
    return seen


def test_health_is_asked_inside_the_container(cell: CellProcess, image: str) -> None:
    script = f"sleep 0.3; echo > /tmp/ready; {LIVES}"
    check = {"command": ["sh", "-c", "cat /tmp/ready"], "interval": "200ms", "timeout": "5s"}
    run(cell, "checked", wait=False, kind="stateless", image=image, command=["sh", "-c", script], health=check)
    stop(cell, "checked")


def test_a_tag_that_nobody_has_is_told_at_submission_and_a_digest_when_it_runs(
    cell: CellProcess, registry: ImageRegistry
) -> None:
    spec = {"job_id": "none", "pool": "/p", "image": f"{registry.address}/nothing:1"}
    refused = cell.request("POST", "/v1/jobs", spec)
    assert (refused.status_code, refused.json()["code"]) == (422, "IMAGE_UNPINNED")
    task = run(cell, "none", image=f"{registry.address}/nothing@sha256:{'0' * 64}", retries={"max": 0, "system": 1})
    assert task["state"] == "FAILED"
    assert "its image can't be had" in cell.get("/v1/jobs/none/explanation").text


def test_a_run_that_waits_for_its_image_is_told_so_and_can_be_stopped(
    cell: CellProcess, registry: ImageRegistry
) -> None:
    registry.stop()
    try:
        image = f"{registry.address}/away@sha256:{'1' * 64}"
        asked = {"job_id": "away", "pool": "/p", "kind": "stateless", "image": image, "resources": {"cpu": 0.1}}
        assert cell.request("POST", "/v1/jobs", asked).status_code < 300
        waits = f"its host pulls {registry.address}/away, so it doesn't run yet"
        until(lambda: waits in cell.get("/v1/jobs/away/explanation").text, "the pull to be told")
        stop(cell, "away")
    finally:
        registry.start()


def test_a_look_at_a_registry_ends_with_who_asked_for_it(cell: CellProcess, folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it takes connections and never answers
        image = f"127.0.0.1:{silent.getsockname()[1]}/app:1"

        def looks() -> list[str]:
            """The programs that ask it."""
            return [pid for pid in os.listdir("/proc") if pid.isdigit() and image.encode() in words_of(pid)]

        file = folder / "left.yaml"
        file.write_text(yaml.safe_dump({"job_id": "left", "pool": "/p", "image": image, "command": ["true"]}))
        words = [sys.executable, "-m", "paceline", "job", "submit", str(file)]
        with subprocess.Popen(words, env={**os.environ, "PACELINE_DATA": str(cell.data)}) as asking:
            until(looks, "the registry to be asked")
            asking.send_signal(signal.SIGINT)
        until(lambda: not looks(), "the look to end", seconds=5.0)
    assert cell.get("/v1/jobs/left").status_code == 404


def words_of(pid: str) -> bytes:
    """The arguments of a process; empty: it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def pushed_with(registry: ImageRegistry, folder: Path, tag: str, variable: str) -> str:
    """The image with a variable more in its environment, in the registry by another tag."""
    layout = folder / tag
    shutil.copytree(folder / "layout", layout)
    subprocess.run(["umoci", "config", "--image", f"{layout}:1.0", "--config.env", variable], check=True)
    return registry.push(layout, "1.0", f"web:{tag}")


def test_an_image_that_was_prefetched_needs_no_registry_when_its_job_comes(
    cell: CellProcess, registry: ImageRegistry, image: str, folder: Path
) -> None:
    name = pushed_with(registry, folder, "ahead", "NEWER=yes")
    digest = asyncio.run(resolve(name))
    spec = {"job_id": "ahead", "pool": "/p", "image": f"{name}@{digest}", "command": ["sh", "-c", "echo $NEWER"]}
    file = folder / "ahead.yaml"
    file.write_text(yaml.safe_dump({**spec, "image": name}))
    done = command(cell, "prefetch", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == ("job ahead: hosts that run containers pull it, those that connect within the hour too\n")
    roots = cell.data.with_name("data-agent") / "images/roots"
    until((roots / digest.removeprefix("sha256:")).is_dir, "the image to be on the host")
    registry.stop()
    try:
        run(cell, "ahead", **{key: value for key, value in spec.items() if key not in ("job_id", "pool")})
    finally:
        registry.start()
    assert output(cell, "ahead") == "yes\n"
    assert command(cell, "prefetch", "ahead").returncode == 0
    until(
        lambda: "ImagePrefetched" in command(cell, "history", "ahead").stdout, "the host to say that it has the image"
    )
    missing = command(cell, "prefetch", "none-such")
    assert (missing.returncode, missing.stdout) == (4, "")
    assert "there is no job none-such" in missing.stderr


def test_an_update_leaves_runs_alone_until_their_host_has_the_new_image(
    cell: CellProcess, registry: ImageRegistry, image: str, folder: Path
) -> None:
    name = pushed_with(registry, folder, "second", "RELEASE=2")
    spec = {"kind": "stateless", "image": image, "command": ["sh", "-c", f"echo release $RELEASE; {LIVES}"]}
    run(cell, "renewed", wait=False, **spec)
    try:
        file = folder / "renewed.yaml"
        asked = {"job_id": "renewed", "pool": "/p", "resources": {"cpu": 0.1, "memory": "64MiB"}}
        file.write_text(yaml.safe_dump({**asked, **spec, "image": name, "update": {"healthy": "0s"}}))
        done = command(cell, "update", str(file), "--prefetch", "--wait")
        assert done.returncode == 0, done.stderr
        assert "update 1 takes 1 instance to version 2; first 1 host pulls the image" in done.stdout
        assert "image      1 of 1 host has it\n" in command(cell, "updates", "renewed", "--number", "1").stdout
        history = command(cell, "history", "renewed").stdout
        steps = ("ImagePrefetchOrdered", "ImagePrefetched", "UpdateImagePulled", "InstancesTaken")
        assert sorted(steps, key=lambda step: history.index(f" {step} ")) == list(steps)
        until(lambda: "release 2" in output(cell, "renewed"), "the new release to say so")
    finally:
        stop(cell, "renewed")


def test_memory_beyond_what_was_asked_for_is_told_as_such(cell: CellProcess, image: str) -> None:
    script = "x=$(cat /dev/zero | head -c 300000000 | tr '\\0' x); echo $x | wc -c"
    task = run(cell, "hungry", image=image, command=["busybox", "sh", "-c", script])
    assert task["state"] == "FAILED"
    assert "out of memory, it used all of its 64 MiB" in cell.get("/v1/jobs/hungry/explanation").text


def test_no_network_and_a_root_of_its_own(cell: CellProcess, image: str) -> None:
    script = "echo mine > /www/index.html && cat /www/index.html; cat /proc/net/dev | wc -l"
    more: dict[str, Any] = {"network": "none", "root": "writable", "user": "0"}
    run(cell, "own", image=image, command=["busybox", "sh", "-c", script.replace("wc", "busybox wc")], **more)
    assert output(cell, "own", "stderr") + output(cell, "own") == "mine\n3\n"
    script = "cat /www/index.html; echo no > /www/index.html"
    run(cell, "shared", image=image, user="0", command=["sh", "-c", script], retries={"max": 0})
    assert output(cell, "shared") == "<h1>It runs from an image.</h1>\n"
    assert "Read-only file system" in output(cell, "shared", "stderr")
    until(lambda: not containers(cell))


def test_a_user_and_devices_are_those_that_the_job_names(cell: CellProcess, image: str) -> None:
    script = "id -u; id -g; echo > /dev/zero && echo written"
    run(cell, "named", image=image, user="7:8", device_files=["/dev/zero"], command=["sh", "-c", script])
    assert output(cell, "named") == "7\n8\nwritten\n"
    spec = {"job_id": "other", "pool": "/p", "image": image, "device_files": ["/dev/mem"]}
    warned = cell.request("POST", "/v1/jobs", spec).json()["warnings"]
    assert warned == [
        "no host offers paceline/device/dev/mem, which the device_files of the job needs: it waits for one that does"
    ]
    until(lambda: "paceline/device/dev/mem" in cell.get("/v1/jobs/other/explanation").text)


def test_a_container_has_the_files_of_the_devices_that_it_was_given_and_no_others(folder: Path, image: str) -> None:
    cards = tuple(HostDevice(f"gpu-{at}", "gpu") for at in range(4))
    files = {"gpu-2": ("/dev/kmsg", "/dev/zero"), "gpu-3": ("/dev/zero",), "gpu-0": ("/dev/fuse",)}
    site = Site(folder / "agent-with-devices")
    settings = replace(site.settings(), resources={}, hardware=Source(lambda: Hardware(cards, files)))
    site.settings = lambda: settings  # type: ignore[method-assign]
    try:
        site.start_agent()
        script = "test -c /dev/kmsg && echo has its own; test -e /dev/fuse || echo no other; echo $CUDA_VISIBLE_DEVICES"
        apart = Isolation(level="container", image=image, image_digest=asyncio.run(resolve(image)))
        site.cell.submit(shell("j", script, isolation=apart, resources={"memory": 64}))
        site.cell.decide(order("j", ("gpu-3", 1000, 0), ("gpu-2", 500, 0)))
        site.says("j", 0, 1, "EXITED", 0)
        assert site.output("j") == "has its own\nno other\n0,1\n"
    finally:
        site.stop_agent()
        stop_all(site.folder)
        site.cell.gateway.close()
        site.server.stop()


def test_volumes_and_the_working_folder_stand_under_paceline(cell: CellProcess, image: str) -> None:
    script = (
        "echo kept > $PACELINE_VOLUME_DATA/f; echo $PACELINE_VOLUME_DATA $HOME; echo w > ~/w; ls ~ ; exec sleep 1000"
    )
    more: dict[str, Any] = {"kind": "stateful", "volumes": ["data"], "command": ["sh", "-c", script]}
    run(cell, "keeps", wait=False, image=image, **more)
    until(lambda: output(cell, "keeps") == "/paceline/volumes/data /paceline/work\nw\n")
    stop(cell, "keeps")


def test_what_a_container_leaves_is_reached_by_no_user_of_the_host(cell: CellProcess, image: str) -> None:
    write = "echo x > ~/f; echo x > $PACELINE_VOLUME_DATA/f"
    script = f"{write}; busybox chmod 4777 ~ ~/f $PACELINE_VOLUME_DATA/f; exec sleep 99"
    more: dict[str, Any] = {"kind": "stateful", "volumes": ["data"], "user": "0", "command": ["sh", "-c", script]}
    run(cell, "leaves", wait=False, image=image, **more)
    agent = cell.data.with_name("data-agent")
    found: list[Path] = []
    until(lambda: found.extend(agent.glob("*/leaves*/**/f")) or len(set(found)) == 2)
    for path in set(found):
        done = subprocess.run(["test", "-e", path], user=12345, group=12345, extra_groups=(), check=False)
        assert done.returncode, path
    stop(cell, "leaves")


def test_a_name_that_is_none_is_told_so(cell: CellProcess) -> None:
    spec = {"job_id": "none", "pool": "/p", "image": "--help"}
    told = cell.request("POST", "/v1/jobs", spec).json()
    assert "is no name of an image" in str(told)
    assert "--help@" not in str(told)


def test_all_goes_on_when_agent_and_cell_are_killed_and_nothing_is_left_when_a_keeper_is(
    cell: CellProcess, image: str
) -> None:
    run(cell, "kept", wait=False, kind="stateless", image=image, command=["sh", "-c", LIVES], root="writable")
    (record,) = cell.data.with_name("data-agent").glob("runs/kept/0/1/init.pid")
    pid = int(record.read_text())
    cell.kill()
    cell.start()
    assert cell.state("kept") == "RUNNING"
    assert int(record.read_text()) == pid
    assert command(cell, "exec", "kept", "--", "sh", "-c", "echo in").stdout == "in\n"
    keeper = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(keeper, signal.SIGKILL)
    until(lambda: len(list(record.parent.parent.glob("2/init.pid"))) == 1, "the run to be replaced")
    assert not Path(f"/proc/{pid}").exists()
    until(lambda: cell.state("kept") == "RUNNING")
    stop(cell, "kept")
    until(lambda: not containers(cell), f"{containers(cell)} to be gone")


@pytest.mark.parametrize("contained", [False, True])
def test_what_dies_of_memory_again_and_again_leaves_nothing_though_its_keeper_is_killed(
    cell: CellProcess, image: str, contained: bool
) -> None:
    job_id, fills = f"again-{contained:d}", ["sh", "-c", "x=x; while :; do x=$x$x; done"]
    spec = {"image": image} if contained else {"isolation": "cgroup"}
    asked = {"job_id": job_id, "pool": "/p", "command": fills, "retries": {"max": 16}}
    small = {"resources": {"cpu": 0.1, "memory": "16MiB"}}
    assert cell.request("POST", "/v1/jobs", {**asked, **small, **spec}).status_code < 300
    for number in (3, 9):
        until(partial(reached, cell, job_id, number), f"run {number}")
        alive = keepers(cell)
        os.kill(alive[number % len(alive)], signal.SIGKILL)
    until(lambda: cell.state(job_id) == "FAILED", f"{job_id} to fail", 120)
    until(lambda: not containers(cell), f"{containers(cell)} to be gone")
    until(lambda: len(keepers(cell)) == KEEPERS, "keepers in the place of the lost ones")


def reached(cell: CellProcess, job_id: str, number: int) -> bool:
    """Whether its task has had so many runs."""
    tasks = cell.get(f"/v1/jobs/{job_id}/tasks").json().get("tasks", [])
    return any(task["run"] >= number for task in tasks)


def keepers(cell: CellProcess) -> list[int]:
    """The pids of the keepers of its agent that live."""
    sockets = cell.data.with_name("data-agent").glob("keepers/*.sock")
    pids = [int(path.name.split(".")[1]) for path in sockets]
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_with_a_user_namespace_root_of_a_container_is_a_user_without_name_of_its_host(
    folder: Path, registry: ImageRegistry, image: str
) -> None:
    place = folder / "mapped"
    place.mkdir()
    place.joinpath("paceline.toml").write_text('[agent]\nuser_namespace = "300000:65536"\n')
    cell = CellProcess(place / "data", sim_hosts=0, agent=True)
    cell.start()
    try:
        cell.pool("/p")
        assert cell.request("PUT", "/v1/secrets/db", {"value": "c2VjcmV0LXZhbHVl"}).status_code < 300
        script = "id -u; echo x > ~/f; echo x > $PACELINE_VOLUME_DATA/f; echo mine > /www/index.html"
        script += f"; cat /www/index.html; cat $PACELINE_SECRET_DB | busybox wc -c; {LIVES}"
        more: dict[str, Any] = {"kind": "stateful", "volumes": ["data"], "root": "writable", "secrets": ["db"]}
        check = {"command": ["sh", "-c", "cat /www/index.html"], "interval": "200ms", "timeout": "5s"}
        words = ["sh", "-c", script]
        run(cell, "mapped", wait=False, image=image, user="0", command=words, health=check, **more)
        until(lambda: "up" in output(cell, "mapped"))
        assert output(cell, "mapped") == "0\nmine\n12\nup\n"
        agent = cell.data.with_name("data-agent")
        owners = {path.stat().st_uid for path in agent.glob("*/mapped*/**/f")}
        (record,) = agent.glob("runs/mapped/0/1/init.pid")
        pid = int(record.read_text())
        assert owners == {300_000}
        assert os.stat(f"/proc/{pid}").st_uid == 300_000
        assert command(cell, "exec", "mapped", "--", "sh", "-c", "id -u").stdout == "0\n"
        stop(cell, "mapped")
        until(lambda: not containers(cell), f"{containers(cell)} to be gone")
    finally:
        cell.end()
