"""What becomes of secrets on their host when something fails, and who else on it can read them."""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from events import run_tokens
from events.records.jobs import JobSubmitted
from events.records.parts import Secret
from events.signing_keys import RUN_TOKEN_S
from hostagent import host_secrets
from hostagent.gateway.secrets.store import SecretStore, StoreAway
from hostagent.run_as import task_user
from hostagent.run_record import RunKey
from tests.hostagent.cell import ended, ordered
from tests.hostagent.test_agent import HOST, Site, alive, keeper_of, shell, site
from tests.hostagent.test_run_as import OTHER, needs_root, open_site

__all__ = ("open_site", "site")
PATH = "$PACELINE_SECRET_DB"


def with_secret(site: Site, job_id: str, script: str, value: bytes = b"value-of-db", **more: Any) -> JobSubmitted:
    """A job with a secret that is put just now."""
    put = site.secrets.put("db", value)
    return shell(job_id, script, secrets=(Secret(name="db", version=put.version, digest=put.digest),), **more)


def place(site: Site) -> Path:
    """Where the host keeps them."""
    assert site.agent is not None
    where = site.agent._secrets.place
    assert where is not None
    return where


def test_an_agent_that_is_gone_leaves_runs_their_secrets_and_the_next_removes_what_is_left(site: Site) -> None:
    site.start_agent()
    site.run(with_secret(site, "j", f"while :; do cat {PATH} > $PACELINE_TASK.now; sleep 0.1; done"))
    site.says("j", 0, 1, "STARTED", 0)
    where = place(site)
    assert site.stop_agent() == 1
    seen = site.folder / "tasks" / "j.0.1" / "0.now"
    seen.unlink(missing_ok=True)
    site.cell.until(lambda: seen.exists() and seen.read_text() == "value-of-db")
    left = where / "old.0.1"
    left.mkdir()
    (left / "db").write_text("left")
    site.start_agent()
    assert [each.name for each in where.iterdir()] == ["j.0.1"]
    site.cell.decide(ended([("j", 0, 1)]))
    site.cell.until(lambda: not list(where.iterdir()))


def test_the_secrets_of_a_lost_keeper_go_and_the_next_run_gets_them_again(site: Site) -> None:
    site.start_agent()
    site.run(with_secret(site, "j", f"cat {PATH}; echo; exec sleep 600"))
    site.says("j", 0, 1, "STARTED", 0)
    where, keeper = place(site), keeper_of(site.file("j", "process.json"))
    os.kill(keeper, signal.SIGKILL)
    site.says("j", 0, 1, "VANISHED", 255)
    assert not list(where.iterdir())
    site.cell.until(lambda: not alive(keeper))
    site.cell.decide(ended([("j", 0, 1)]))
    site.cell.decide(ordered([("j", 0, 2)], [HOST]))
    site.says("j", 0, 2, "STARTED", 0)
    site.cell.until(lambda: site.output("j", run=2) == "***********\n")
    assert [each.name for each in where.iterdir()] == ["j.0.2"]
    site.cell.decide(ended([("j", 0, 2)]))


def test_a_run_that_is_over_before_its_secrets_come_does_not_start(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = site.start_agent()
    store = away(site, monkeypatch)
    job = with_secret(site, "j", "touch /tmp/never; exec sleep 600")
    store.append("the disk is away")
    site.run(job)
    site.cell.until(lambda: RunKey("j", 0, 1) in agent._secrets._waiting)
    site.cell.decide(ended([("j", 0, 1)]))
    site.cell.until(lambda: not agent._secrets._waiting)
    store.clear()
    site.run(with_secret(site, "k", f"wc -c < {PATH}"))
    site.says("k", 0, 1, "EXITED", 0)
    assert RunKey("j", 0, 1) not in agent.runs


def test_a_store_that_is_away_is_waited_for_and_then_said(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.start_agent()
    store = away(site, monkeypatch)
    job = with_secret(site, "j", f"wc -c < {PATH}")
    store.append("the disk is away")
    site.run(job)
    site.cell.until(lambda: len(store) > 1)
    store.clear()
    site.says("j", 0, 1, "EXITED", 0)
    store.append("the disk is away")
    monkeypatch.setattr(host_secrets, "AWAY_S", 0.2)
    site.run(with_secret(site, "k", f"wc -c < {PATH}"))
    site.says("k", 0, 1, "NOT_STARTED", 127)
    assert site.agent is not None
    run = site.agent.runs.get(RunKey("k", 0, 1))
    assert run is not None
    assert run.reason == "SECRETS_AWAY: the disk is away"


def test_the_token_of_a_run_is_renewed_when_half_of_its_life_is_over(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_secrets, "LOOK_S", 0.05)
    site.start_agent()
    site.run(shell("j", "exec sleep 60", run_token=True))
    site.says("j", 0, 1, "STARTED", 0)
    path = place(site) / "j.0.1" / run_tokens.SECRET
    first = path.stat().st_ino
    os.utime(path, (0, time.time() - RUN_TOKEN_S / 2))
    site.cell.until(lambda: path.stat().st_ino != first)
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert path.stat().st_mode & 0o777 == 0o400
    assert run_tokens.opened(path.read_text(), site.keys.published(), 0) == ("j", 0, 1)
    newest = path.stat().st_ino
    time.sleep(0.3)
    assert path.stat().st_ino == newest, "it is fresh"


def test_a_version_that_was_deleted_fails_its_run_at_once(site: Site) -> None:
    site.start_agent()
    job = with_secret(site, "j", "true")
    site.secrets.put("db", b"newer")
    site.secrets.delete("db", 1)
    site.run(job)
    site.says("j", 0, 1, "CANNOT_START", 127)
    assert site.agent is not None
    run = site.agent.runs.get(RunKey("j", 0, 1))
    assert run is not None
    assert run.reason == "SECRET_MISSING: secret db has no version 1; there is 2"


def test_a_place_of_somebody_else_is_not_used(site: Site) -> None:
    site.start_agent()
    where = place(site)
    assert stat.S_IMODE(where.stat().st_mode) == 0o711
    site.stop_agent()
    assert not where.exists(), "no run has secrets"
    where.symlink_to("/tmp")
    try:
        agent = site.start_agent()
        assert agent._secrets.place is None
        assert agent._secrets.fault == f"{where} is somebody else's"
        assert "paceline/secrets" not in agent._secrets.attributes()
        assert not agent._secrets.public
    finally:
        where.unlink()


def test_a_copied_folder_gets_another_key(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    first = host_secrets.HostSecrets(folders[0], lambda _: None, print)
    assert host_secrets.HostSecrets(folders[0], lambda _: None, print).public == first.public
    (folders[1] / "host.key").write_bytes((folders[0] / "host.key").read_bytes())
    copy = host_secrets.HostSecrets(folders[1], lambda _: None, print)
    assert copy.public != first.public
    for each in (first, copy):
        assert each.place is not None
        each.place.rmdir()


@needs_root
def test_the_user_of_a_run_reads_its_own_secret_and_no_other_user_does(open_site: Site) -> None:
    site, cell, user = open_site, open_site.cell, task_user(OTHER)
    assert user is not None
    token = site.folder.parent / "data" / "token"
    words = ["--server", site.server.url, "--token-file", str(token), "--host-id", HOST, "--run-as", OTHER]
    environment = {**os.environ, "PACELINE_AGENT__FOLDER": str(site.folder)}
    agent = subprocess.Popen([sys.executable, "-m", "paceline", "agent", *words], env=environment)
    try:
        cell.until(cell.inventories)
        fill = f"chmod u+w {PATH} $(dirname {PATH}); echo more >> {PATH}; touch {PATH}.more; ls {PATH}/../.."
        script = f"stat -c '%a %u %g' {PATH} $(dirname {PATH}); wc -c < {PATH}; echo {PATH}; {fill}; exec sleep 600"
        site.run(with_secret(site, "j", script))
        site.says("j", 0, 1, "STARTED", 0)
        cell.until(lambda: len(site.output("j").splitlines()) == 4)
        file, folder, size, path = site.output("j").splitlines()
        assert (file, folder, size) == (f"440 0 {user.gid}", f"510 0 {user.gid}", "11")
        assert [(each.name, each.stat().st_size) for each in Path(path).parent.iterdir()] == [("db", 11)]
        other = {"user": 12345, "group": 12345, "extra_groups": []}
        for each in (path, str(Path(path).parent), str(Path(path).parent.parent)):
            done = subprocess.run(["cat" if each == path else "ls", each], capture_output=True, check=False, **other)
            assert done.returncode != 0
            assert not done.stdout
        cell.decide(ended([("j", 0, 1)]))
        site.cell.until(lambda: not os.path.lexists(Path(path).parent))
    finally:
        agent.terminate()
        agent.wait(timeout=20)


def away(site: Site, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Why the store can't be read, as long as something stands in the list; each try adds to it."""
    why: list[str] = []
    read = type(site.secrets).read

    def reads(store: SecretStore, *args: Any) -> bytes:
        if why:
            why.append(why[0])
            raise StoreAway(why[0])
        return read(store, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(type(site.secrets), "read", reads)
    monkeypatch.setattr(host_secrets, "RETRY_S", 0.05)
    return why
