"""Jobs use secrets on a real host: what their runs find, and where values never are."""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from hostagent.host_secrets import StoredKey
from hostagent.run_record import read_json
from tests.helpers.real_cell import CellProcess
from tests.helpers.waiting import until

pytestmark = pytest.mark.outside
VALUE = "correct-horse-battery-staple-0451"
numbers = count(1)


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CellProcess]:
    made = CellProcess(tmp_path_factory.mktemp("secrets") / "data", sim_hosts=0, agent=True)
    made.start()
    try:
        made.pool("/p")
        yield made
    finally:
        for job in made.get("/v1/jobs").json()["jobs"]:
            made.request("POST", f"/v1/jobs/{job['job_id']}/stops", {"command_id": f"end-{job['job_id']}"})
        until(lambda: not made.get("/v1/jobs?state=RUNNING,KILLING").json()["jobs"])
        made.end()


@pytest.fixture
def name() -> str:
    """A secret that no other test knows."""
    return f"s{next(numbers)}"


def secret(cell: CellProcess, *words: str, value: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    environment = {**os.environ, "PACELINE_DATA": str(cell.data)}
    command = [sys.executable, "-m", "paceline", "secret", *words]
    return subprocess.run(command, input=value, capture_output=True, env=environment, check=False, timeout=60)


def put(cell: CellProcess, name: str, value: str = VALUE) -> int:
    """`paceline secret put` with a value; the version."""
    done = secret(cell, "put", name, "-o", "json", value=value.encode())
    assert done.returncode == 0, done.stderr
    return int(json.loads(done.stdout)["version"])


def submit(cell: CellProcess, job_id: str, script: str, secrets: list[Any], **more: Any) -> Any:
    spec = {"job_id": job_id, "pool": "/p", "command": ["sh", "-c", script], "resources": {"cpu": 0.01}}
    return cell.request("POST", "/v1/jobs", {**spec, "secrets": secrets, **more})


def run(cell: CellProcess, job_id: str, script: str, secrets: list[Any], state: str = "SUCCEEDED", **more: Any) -> None:
    answer = submit(cell, job_id, script, secrets, **more)
    assert answer.status_code < 300, answer.text
    until(lambda: cell.state(job_id) == state)


def output(cell: CellProcess, job_id: str, run_number: int = 1) -> str:
    return cell.get(f"/v1/jobs/{job_id}/tasks/0/log?run={run_number}").text


def variable(name: str) -> str:
    return f"PACELINE_SECRET_{name.upper()}"


def test_a_run_finds_the_value_in_a_file_for_its_user_alone_which_goes_with_the_run(
    cell: CellProcess, name: str
) -> None:
    put(cell, name)
    path = f"${variable(name)}"
    script = f"stat -c '%a %u' {path} $(dirname {path}); echo {path}; wc -c < {path}; touch seen; exec sleep 600"
    run(cell, "reads", script, [name], "RUNNING", kind="stateless")
    until(lambda: len(output(cell, "reads").splitlines()) == 4)
    file, folder, where, size = output(cell, "reads").splitlines()
    assert (file, folder, size) == (f"400 {os.getuid()}", f"700 {os.getuid()}", str(len(VALUE)))
    assert Path(where).read_text() == VALUE
    assert not where.startswith(str(cell.data.parent)), "it is in memory"
    cell.request("POST", "/v1/jobs/reads/stops", {"command_id": "enough"})
    until(lambda: cell.state("reads") == "KILLED")
    assert not Path(where).parent.exists()


def test_a_value_that_a_run_prints_is_kept_as_stars(cell: CellProcess, name: str) -> None:
    put(cell, name, f"{VALUE}\nsecond-line\n")
    run(cell, "prints", f"cat ${variable(name)}; echo end; cat ${variable(name)} >&2", [name])
    stars = f"{'*' * len(VALUE)}\n{'*' * len('second-line')}\n"
    assert output(cell, "prints") == f"{stars}end\n"
    assert cell.get("/v1/jobs/prints/tasks/0/log?run=1&stream=stderr").text == stars


def test_a_job_keeps_the_version_of_its_submission_until_it_is_updated(cell: CellProcess, name: str) -> None:
    put(cell, name, "value-one")
    script, job = f"wc -c < ${variable(name)}; exec sleep 600", f"keeps-{name}"
    run(cell, job, script, [name], "RUNNING", kind="stateless")
    assert put(cell, name, "value-two-longer") == 2
    cell.request("POST", f"/v1/jobs/{job}/restarts", {"command_id": "again"})
    until(lambda: output(cell, job, 2) == "9\n")
    spec = cell.get(f"/v1/jobs/{job}").json()["spec"]
    assert spec["secrets"] == [{"name": name, "version": 1}]
    spec["secrets"] = [name]
    answer = cell.request("POST", f"/v1/jobs/{job}/updates?wait=10s", {"command_id": "new", "spec": spec})
    assert answer.status_code == 201, answer.text
    until(lambda: output(cell, job, 3) == "16\n")
    assert cell.get(f"/v1/jobs/{job}").json()["spec"]["secrets"] == [{"name": name, "version": 2}]


def test_the_same_file_again_is_an_update_where_a_secret_has_a_newer_version(cell: CellProcess, name: str) -> None:
    put(cell, name, "value-one")
    job = f"again-{name}"
    run(cell, job, f"wc -c < ${variable(name)}; exec sleep 600", [name], "RUNNING", kind="stateless")
    spec = {**cell.get(f"/v1/jobs/{job}").json()["spec"], "secrets": [name]}
    put(cell, name, "value-two-longer")
    answer = cell.request("POST", f"/v1/jobs/{job}/updates?wait=10s", {"command_id": "new", "spec": spec})
    assert answer.status_code == 201, answer.text
    until(lambda: output(cell, job, 2) == "16\n")
    answer = cell.request("POST", f"/v1/jobs/{job}/updates?wait=10s", {"command_id": "newer", "spec": spec})
    assert "already" in answer.text, answer.text


def test_a_job_with_a_secret_that_is_not_there_is_refused(cell: CellProcess, name: str) -> None:
    answer = submit(cell, "missing", "true", ["nothing"])
    assert answer.status_code == 422
    assert answer.json()["code"] == "SECRET_MISSING"
    message = "there is no secret nothing: `paceline secret put nothing` makes one"
    assert answer.json()["errors"] == [{"pointer": "/secrets/0", "message": message}]
    put(cell, name)
    answer = submit(cell, "missing", "true", [{"name": name, "version": 7}])
    assert answer.json()["detail"] == f"secret {name} has no version 7; there is 1"
    assert cell.get("/v1/jobs/missing").status_code == 404


def test_a_dry_run_says_the_versions_and_writes_nothing(cell: CellProcess, name: str) -> None:
    put(cell, name)
    spec = {"job_id": "dry", "pool": "/p", "command": ["true"], "secrets": [name]}
    answer = cell.request("POST", "/v1/jobs?dry_run=true", spec)
    assert answer.json()["events"][0]["secrets"][0]["version"] == 1
    assert cell.get("/v1/jobs/dry").status_code == 404
    assert "SECRET_MISSING" in cell.request("POST", "/v1/jobs?dry_run=true", {**spec, "secrets": ["no"]}).text


def test_a_run_fails_at_once_whose_secret_was_deleted(cell: CellProcess, name: str) -> None:
    put(cell, name)
    job = f"late-{name}"
    run(cell, job, "exit 1", [name], "FAILED")
    assert secret(cell, "delete", name).returncode == 2, "all versions go only with --yes"
    done = secret(cell, "delete", name, "--version", "1")
    assert done.stdout.decode() == f"secret {name}: deleted version 1\n"
    answer = cell.request("POST", f"/v1/jobs/{job}/starts?wait=10s", {"command_id": "again", "failed": True})
    assert answer.status_code == 200, answer.text
    until(lambda: len(cell.get(f"/v1/jobs/{job}/tasks/0/runs").json()["runs"]) == 2 and cell.state(job) == "FAILED")
    last = max(cell.get(f"/v1/jobs/{job}/tasks/0/runs").json()["runs"], key=lambda each: int(each["run"]))
    assert last["reason"].startswith(f"SECRET_MISSING: there is no secret {name}: `paceline secret put {name}`"), last


def test_secrets_are_listed_by_name_and_version(cell: CellProcess, name: str) -> None:
    put(cell, name)
    put(cell, name, "other-value")
    listed = secret(cell, "list", name, "-o", "json")
    versions = json.loads(listed.stdout)["secrets"]
    assert [(each["name"], each["version"]) for each in versions] == [(name, 1), (name, 2)]
    assert set(versions[0]) == {"name", "version", "digest", "pool", "put_at"}
    assert secret(cell, "delete", name, "--yes").returncode == 0
    assert json.loads(secret(cell, "list", name, "-o", "json").stdout)["secrets"] == []
    assert secret(cell, "delete", name, "--yes").returncode == 4


def test_what_cannot_be_put_is_refused_without_a_word_of_the_value(cell: CellProcess) -> None:
    assert secret(cell, "put", "Not-A-Name", value=VALUE.encode()).returncode == 1
    assert secret(cell, "put", "db").returncode == 2
    for body in ({"value": f"{VALUE}?"}, {"value": 7}, {"values": VALUE}, VALUE, {"value": ""}):
        answer = cell.request("PUT", "/v1/secrets/db", body)
        assert answer.status_code == 422
        assert VALUE not in answer.text
        assert VALUE not in cell.output.read_text()


def test_a_host_gets_the_secrets_of_no_run_but_its_own(cell: CellProcess, name: str) -> None:
    put(cell, name)
    job = f"own-{name}"
    run(cell, job, "exec sleep 600", [name], "RUNNING", kind="stateless")
    host = cell.get("/v1/hosts").json()["hosts"][0]["host_id"]
    folder = cell.data.with_name(f"{cell.data.name}-agent")
    session = json.loads((folder / "agent.json").read_text())["session"]

    def asked(host_id: str, session: int, *run_name: object) -> Any:
        body = {"session": session, "runs": [run_name]}
        return cell.request("POST", f"/v1/agents/{host_id}/secrets", body)

    [granted] = asked(host, session, job, 0, 1).json()["runs"]
    assert [each["name"] for each in granted["secrets"]] == [name]
    assert VALUE.encode() not in base64.b64decode(granted["secrets"][0]["sealed"])
    for other in ((job, 0, 2), (job, 1, 1), ("other", 0, 1)):
        [refused] = asked(host, session, *other).json()["runs"]
        assert refused["secrets"] == []
    assert asked(host, session - 1, job, 0, 1).status_code == 409
    assert asked("stranger", session, job, 0, 1).status_code == 409


def test_no_value_is_anywhere_but_in_the_file_of_its_run(cell: CellProcess, name: str) -> None:
    canary = f"canary-{os.urandom(12).hex()}"
    put(cell, name, canary)
    job = f"canary-{name}"
    script = f"cat ${variable(name)}; cat ${variable(name)} >&2; env; cat ${variable(name)}; exec sleep 600"
    run(cell, job, script, [name], "RUNNING", kind="stateless")
    until(lambda: output(cell, job).count("*" * len(canary)) == 2)
    assert canary not in output(cell, job)
    # no part of it in any alignment of base64, in hex, or as it is
    encoded = [base64.b64encode(b"\0" * pad + canary.encode())[4 * (pad > 0) + 2 : -4] for pad in range(3)]
    forms = [canary.encode(), canary.encode().hex().encode(), canary[::-1].encode(), *encoded]
    held = [form for form in forms if form in base64.b64encode(f"x {canary} y".encode()) + canary.encode()]
    assert len(held) == 2, "the forms are those that it would have"
    pages = ("/v1/cell", "/v1/cell/operations", "/v1/secrets", f"/v1/jobs/{job}", f"/v1/jobs/{job}/history", "/metrics")
    for page in (*pages, f"/v1/jobs/{job}/explanation", f"/v1/jobs/{job}/tasks/0/runs", f"/ui/jobs/{job}"):
        text = cell.get(page).content
        assert not [form for form in forms if form in text], page
    # the log and its views, checkpoints, stores, agent's records and output, what processes have said
    files = [Path(folder) / each for folder, _, names in os.walk(cell.data.parent) for each in names]
    assert len(files) > 20
    for path in files:
        if path.is_file():
            content = path.read_bytes()
            assert not [form for form in forms if form in content], path
    found = [pid for pid in os.listdir("/proc") if pid.isdecimal() and _holds(int(pid), forms)]
    assert found == []
    key = read_json(cell.data.with_name(f"{cell.data.name}-agent") / "host.key", StoredKey)
    assert key is not None
    log = b"".join(path.read_bytes() for path in files if (cell.data / "log") in path.parents)
    assert key.private.encode() not in log


def _holds(pid: int, forms: list[bytes]) -> bool:
    """Whether arguments or environment of a process have any of these."""
    content = b""
    for name in ("cmdline", "environ"):
        try:
            content += Path(f"/proc/{pid}/{name}").read_bytes()
        except OSError:  # it has ended, or is somebody else's
            continue
    return any(form in content for form in forms)


def test_the_log_says_that_a_secret_was_put_and_deleted_and_not_what_it_is(cell: CellProcess, name: str) -> None:
    put(cell, name)
    put(cell, name)
    assert secret(cell, "delete", name, "--yes").returncode == 0
    words = [sys.executable, "-m", "paceline", "log", "tail", "--from-start", "--no-follow", "-o", "json"]
    environment = {**os.environ, "PACELINE_DATA": str(cell.data)}

    def log() -> str:
        return subprocess.run(words, capture_output=True, text=True, env=environment, check=True, timeout=60).stdout

    def said() -> list[tuple[str, object]]:
        facts = [json.loads(line) for line in log().splitlines() if '"event": "Secret' in line]
        return [(each["event"], each.get("version", each.get("versions"))) for each in facts if each["name"] == name]

    until(lambda: said() == [("SecretPut", 1), ("SecretPut", 2), ("SecretDeleted", [1, 2])])
    assert VALUE not in log()
