"""Tasks as another user than their agent's, and what they can see of it."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from events.records.jobs import JobSubmitted
from hostagent import run_as
from hostagent.agent import Agent
from hostagent.agent_settings import AgentSettings
from hostagent.agent_state import AgentFault
from hostagent.run_as import NoSuchUser, TaskUser, Users, check, environment, task_user
from hostagent.runs import stop_all
from paceline.services.data_folder import CannotStart, agent_folder
from tests.hostagent.cell import TOKEN
from tests.hostagent.test_agent import HOST, Site, shell, site

__all__ = ("site",)
OTHER = "nobody"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run tasks as another user")


@pytest.fixture
def open_site() -> Iterator[Site]:
    """A host in a folder that other users may pass through, beside the data folder of a cell."""
    top = Path(tempfile.mkdtemp(prefix="paceline-users-"))
    top.chmod(0o755)
    (top / "data").mkdir(mode=0o700)
    (top / "data" / "token").write_text(TOKEN)
    found = Site(top / "data-agent")
    yield found
    assert stop_all(found.folder)[1] == 0
    found.cell.gateway.close()
    found.server.stop()
    shutil.rmtree(top)


@needs_root
def test_tasks_run_as_another_user_and_see_nothing_of_their_agent(open_site: Site) -> None:
    site, cell = open_site, open_site.cell
    data = site.folder.parent / "data"
    words = ["--server", site.server.url, "--token-file", str(data / "token"), "--data", str(data), "--host-id", HOST]
    environment = {**os.environ, "PACELINE_TOKEN": "of-the-agent", "TMPDIR": "/tmp"}
    agent = subprocess.Popen(
        [sys.executable, "-m", "paceline", "agent", *words, "--run-as", OTHER],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        cell.until(cell.inventories)
        tries = f"cat {data}/token {site.folder}/agent.json {site.folder}/contact {site.folder}/runs/j/0/1/order.json"
        look = f"{tries}; ls .. ../.. {site.folder}/runs; cat /proc/$PPID/environ /proc/{agent.pid}/environ"
        write = "echo x > own && echo x > ../exit.json; echo x > ../../runs/x; mkdir ../beside"
        script = f"id -un; id -un > /dev/stdout; id -G; pwd; env; (({look}) 2>/dev/null); ({write}) 2>/dev/null; ls -A"
        site.run(shell("j", script))
        site.says("j", 0, 1, "EXITED", 0)
        user = task_user(OTHER)
        assert user is not None
        name, again, groups, folder, *rest = site.output("j").splitlines()
        assert (name, again, set(map(int, groups.split()))) == (OTHER, OTHER, {user.gid, *user.groups})
        assert folder == str(site.folder / "tasks" / "j.0.1")
        assert {f"HOME={user.home}", f"USER={OTHER}"} <= set(rest)
        assert rest[-1] == "own"
        assert not [line for line in rest if TOKEN in line or "of-the-agent" in line or line.startswith("TMPDIR")]
        assert not [line for line in rest[:-1] if "=" not in line]
        assert not (site.folder / "runs" / "x").exists()
        site.run(JobSubmitted(job_id="k", pool="/p", command=("sleep", "600")))
        site.says("k", 0, 1, "STARTED", 0)
    finally:
        agent.terminate()
        _, said = agent.communicate(timeout=20)
    assert f"tasks run as {OTHER}" in said
    assert stop_all(site.folder) == (1, 0)


@needs_root
def test_an_agent_whose_task_user_can_not_get_to_its_folder_does_not_start(site: Site, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with pytest.raises(AgentFault, match=r"that user can't get into .*tasks. Let it pass.*--folder"):
        Agent(AgentSettings((), TOKEN, site.folder, HOST, run_as=OTHER))


def test_an_agent_that_may_not_change_users_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:

        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(run_as.subprocess, "run", refuse)  # type: ignore[attr-defined]
    stranger = TaskUser("stranger", 54_321, 54_321, (), "/", "/bin/sh")
    with pytest.raises(NoSuchUser, match="--run-as stranger needs root, and this agent runs as"):
        check(stranger, tmp_path)


def test_an_unknown_user_is_named(site: Site) -> None:
    with pytest.raises(AgentFault, match="knows no user 'no-such-user'"):
        Agent(AgentSettings((), TOKEN, site.folder, HOST, run_as="no-such-user"))


def test_the_agents_own_user_needs_no_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_TOKEN", "secret")
    own = Users().described().split()[3].rstrip(",")
    assert task_user(own) is None
    assert "--run-as USER" in Users().described()
    assert "PACELINE_TOKEN" not in environment(None)


def test_tasks_are_never_below_the_token(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "token").touch()
    (data / "format").touch()
    assert agent_folder(data, None) == tmp_path / "data-agent"
    assert agent_folder(data, tmp_path / "runs") == tmp_path / "runs"
    assert agent_folder(data, Path("runs")) == Path.cwd() / "runs"
    with pytest.raises(CannotStart, match="where the token of the cell is"):
        agent_folder(data, data / "agent-0")


def test_a_keeper_has_nothing_of_its_agents_environment(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_TOKEN", "of-the-agent")
    site.start_agent()
    site.run(shell("j", "cat /proc/$PPID/environ; echo; env"))
    site.says("j", 0, 1, "EXITED", 0)
    assert "of-the-agent" not in site.output("j")
