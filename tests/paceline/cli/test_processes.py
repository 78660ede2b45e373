"""Commands that run or end processes: what they are told reaches `run_up` and the agent; `down` ends only a cell."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

import paceline.services.agent
from hostagent.retention import Retention
from hostagent.run_record import Launch, RunKey
from hostagent.runs import Runs
from paceline.services.host_settings import host_settings
from paceline.services.settings import UpSettings, for_up, load


@pytest.fixture
def started(monkeypatch):
    """What `run_up` was called with."""
    got: list[UpSettings] = []
    monkeypatch.setitem(
        sys.modules, "paceline.services.up", SimpleNamespace(run_up=lambda settings: got.append(settings) or 3)
    )
    return got


def test_up_passes_its_settings_on_and_ends_with_the_code_of_the_cell(cli, started, tmp_path):
    words = ["--data", str(tmp_path), "--listen", "127.0.0.1:0", "--kafka", "b:1", "--sim-hosts", "9", "--agent"]
    assert cli("up", *words)[0] == 3
    told = UpSettings(data=tmp_path, listen="127.0.0.1:0", kafka="b:1", sim_hosts=9, agent=True, cell=0)
    [passed] = started
    assert passed.model_dump(exclude={"origins"}) == told.model_dump(exclude={"origins"})


@pytest.mark.parametrize(
    ("words", "agent"),
    [([], True), (["--sim-hosts", "5"], False), (["--no-agent"], False), (["--sim-hosts", "0"], True)],
)
def test_up_has_an_agent_where_no_hosts_are_simulated(cli, started, tmp_path, words, agent):
    cli("up", "--data", str(tmp_path), *words)
    assert started[0].agent is agent


@pytest.mark.parametrize("listen", ["7117", "nowhere", "a b:1"])
def test_an_address_that_is_none_is_refused(cli, started, tmp_path, listen):
    code, _, err = cli("up", "--data", str(tmp_path), "--listen", listen)
    assert (code, started) == (2, []), "a supervisor doesn't start it again"
    assert "setting up.listen" in err


@pytest.mark.parametrize(
    "wrong", [["--listen", "nowhere"], ["--listen", "127.0.0.1:99999"], ["--config", "none.toml"], ["--name", "a b"]]
)
def test_wrong_settings_of_a_process_are_wrong_usage(cli, tmp_path, wrong):
    code, _, err = cli("fanout", "--kafka", "k:9092", "--data", str(tmp_path), *wrong)
    assert code == 2, err


def test_the_agent_is_told_by_flags_and_finds_the_rest(cli, monkeypatch, tmp_path):
    told = []
    monkeypatch.setattr(paceline.services.agent, "follow", lambda own, listen, say: told.append(own) or 0)
    (tmp_path / "cell.json").write_text(json.dumps({"pid": 1, "listen": "127.0.0.1:9"}))
    (tmp_path / "token").write_text("secret\n")
    assert (
        cli(
            "agent",
            "--data",
            str(tmp_path),
            "--host-id",
            "h7",
            "--attribute",
            "rack=r1",
            "--resource",
            "gpu/a100=2",
            "--resource",
            "memory=4GiB",
        )[0]
        == 0
    )
    [settings] = told
    assert (settings.urls, settings.token, settings.host_id) == (("http://127.0.0.1:9",), "secret", "h7")
    assert settings.folder == tmp_path.with_name(f"{tmp_path.name}-agent")
    assert settings.attributes == {"rack": "r1"}
    assert settings.resources == {"gpu/a100": 2000, "memory": 4096}


@pytest.mark.parametrize(
    ("attributes", "told"),
    [(("rack",), "'rack' has no value: write NAME=VALUE"), (("rack=a", "rack=b"), "rack is given twice: a and b")],
)
def test_an_attribute_of_an_agent_without_a_value_or_given_twice_is_refused(cli, attributes, told):
    code, _, err = cli("agent", *(part for each in attributes for part in ("--attribute", each)))
    assert code == 2
    assert told in err


def test_a_question_about_a_misspelt_resource_of_an_agent_has_one_mark(cli, tmp_path):
    (tmp_path / "cell.json").write_text(json.dumps({"pid": 1, "listen": "127.0.0.1:9"}))
    (tmp_path / "token").write_text("secret")
    _, _, err = cli("agent", "--data", str(tmp_path), "--resource", "gpus=1")
    assert err.endswith("did you mean gpu?\n")


def test_an_agent_without_a_cell_says_what_to_name(cli, tmp_path):
    code, _, err = cli("agent", "--data", str(tmp_path))
    assert (code, "Name one with --server and --token-file" in err) == (6, True)


def test_down_ends_the_process_of_the_cell(cli, cell, tmp_path):
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    reaper = threading.Thread(target=process.wait)
    reaper.start()
    cell.answer("GET", "/v1/cell", {"cell": 0})
    (tmp_path / "cell.json").write_text(json.dumps({"pid": process.pid, "listen": cell.address}))
    assert cli("down", "--data", str(tmp_path))[:2] == (0, f"the cell on {tmp_path} has ended\n")
    reaper.join()
    assert process.returncode == -15
    assert cli("down", "--data", str(tmp_path)) == (0, "", f"no cell runs on {tmp_path}\n")


def test_down_leaves_a_process_alone_that_is_no_cell(cli, tmp_path):
    (tmp_path / "cell.json").write_text(json.dumps({"pid": os.getpid(), "listen": "127.0.0.1:1"}))
    code, _, err = cli("down", "--data", str(tmp_path))
    assert code == 1
    assert "no cell answers" in err


def test_down_may_end_the_runs_of_this_machine_too(cli, tmp_path):
    runs = Runs(tmp_path.with_name(f"{tmp_path.name}-agent"))
    run = runs.start(RunKey("a", 0, 1), Launch(("sleep", "600"), dict(os.environ), stop_grace_ms=1000))
    code, out, _ = cli("down", "--data", str(tmp_path), "--stop-runs")
    assert (code, out) == (0, "1 runs have ended\n")
    runs.poll()
    assert not run.alive


def test_the_agent_of_a_cell_in_one_process_offers_what_its_settings_say(tmp_path: Path) -> None:
    (tmp_path / "paceline.toml").write_text('[agent]\nhost_id = "h"\nport_first = 40000\n[agent.resources]\ncpu = 2\n')
    host = host_settings(for_up(load(data=tmp_path / "data")).host, ("http://a:1",), "t", tmp_path)
    assert (host.host_id, host.port_first, host.resources) == ("h", 40000, {"cpu": 2000})


def test_an_agent_keeps_as_much_output_as_its_settings_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ("[agent]", "output_runs = 7", "output_mib = 3", 'output_age = "2d"')
    (tmp_path / "paceline.toml").write_text("\n".join(lines))
    monkeypatch.setenv("PACELINE_AGENT__FAILED_OUTPUT_AGE", "9h")
    host = host_settings(load(data=tmp_path / "data").agent, ("http://a:1",), "t", tmp_path)
    assert host.retention == Retention(7, 3 << 20, 2 * 86_400, 9 * 3600)
