"""Tasks of each job run as a user of its own: nothing of one job is another's, before or after a restart."""

import os
import pwd
from dataclasses import replace
from pathlib import Path

import pytest

from hostagent.agent import Agent
from hostagent.job_users import JobUsers, users
from hostagent.run_as import NoSuchUser
from tests.hostagent.test_agent import Site, shell
from tests.hostagent.test_run_as import open_site as open_site

FIRST, LAST = 261_000, 261_003
RANGE = f"auto:{FIRST}-{LAST}"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run tasks as another user")


def given(folder: Path, *job_ids: str) -> list[int]:
    made = JobUsers(folder / "uids.json", FIRST, LAST)
    return [made.of(job_id).uid for job_id in job_ids]


def test_a_job_keeps_its_number_and_a_free_one_is_taken_last(tmp_path: Path) -> None:
    assert given(tmp_path, "a", "b", "a") == [FIRST, FIRST + 1, FIRST]
    JobUsers(tmp_path / "uids.json", FIRST, LAST).keep({"b"})
    assert given(tmp_path, "b", "c", "d", "e") == [FIRST + 1, FIRST + 2, FIRST + 3, FIRST]
    with pytest.raises(ValueError, match="no user is free of 261000 to 261003: 4 jobs have runs or volumes here"):
        given(tmp_path, "f")


def test_a_number_that_something_has_is_no_other_jobs_though_the_list_is_lost(tmp_path: Path) -> None:
    (tmp_path / "uids.json").write_text("{broken")
    made = JobUsers(tmp_path / "uids.json", FIRST, LAST)
    made.found("a", FIRST)
    made.found("b", 0)
    assert (made.of("b").uid, made.of("a").uid) == (FIRST + 1, FIRST)


def test_numbers_that_the_machine_knows_are_left_out(tmp_path: Path) -> None:
    nobody = pwd.getpwnam("nobody").pw_uid
    made = JobUsers(tmp_path / "uids.json", nobody, nobody + 1)
    assert made.of("a").uid == nobody + 1


@pytest.mark.parametrize("run_as", ["auto:", "auto:5", "auto:0-9", "auto:9-5", "auto:1-99999999999", "auto:a-b"])
def test_what_is_no_range_is_refused(tmp_path: Path, run_as: str) -> None:
    with pytest.raises(NoSuchUser, match="auto:200000-265535"):
        users(run_as, tmp_path)


def start(site: Site) -> None:
    """An agent whose jobs are users of their own."""
    before = len(site.cell.inventories())
    agent = site.agent = Agent(replace(site.settings(), run_as=RANGE))
    agent.take()
    agent.start()
    site.cell.until(lambda: len(site.cell.inventories()) > before)


@needs_root
def test_jobs_are_users_of_their_own_who_can_not_reach_each_other(open_site: Site) -> None:
    site = open_site
    start(site)
    site.run(shell("mine", "id -u; echo secret > file; pwd; echo $HOME; sleep 600", volumes=("v",), kind="stateful"))
    site.says("mine", 0, 1, "STARTED", 0)
    site.cell.until(lambda: site.output("mine").count("\n") == 3)
    uid, work, home = site.output("mine").split()
    assert (int(uid), home) == (FIRST, work)
    site.run(
        shell("other", f"id -u; cat {work}/file; kill -9 $(pgrep -u {FIRST}); cat /proc/$(pgrep -n -u {FIRST})/environ")
    )
    site.cell.until(lambda: [each for each in site.cell.said() if each[0] == "other" and each[3] == "EXITED"])
    assert site.output("other") == f"{FIRST + 1}\n"
    errors = site.output("other", stream="stderr")
    assert errors.count("ermission denied") == 2
    assert "not permitted" in errors
    site.stop_agent()
    start(site)
    site.run(shell("third", "id -u"))
    site.says("third", 0, 1, "EXITED", 0)
    assert site.output("third") == f"{FIRST + 2}\n"
    site.stop_agent()
