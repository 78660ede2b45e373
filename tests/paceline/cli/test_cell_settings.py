"""`paceline cell get` and `set`, and what lists show of the resources that a cell defines."""

from tests.paceline.cli.test_commands import POOL

SETTINGS = {
    "preemption_delay": "2m",
    "ended_jobs_max": 5,
    "resources": [{"name": "matlab", "unit": "milli", "amount": 20}],
    "conditions": [{"name": "smart", "policy": "drain", "drain_after": "5m"}],
}
ANSWER = {"command_id": "c", "position": "paceline.pools:3", "code": "DONE", "message": ""}
HOST = {"host_id": "h1", "state": "UP", "runs": 1, "attributes": {}}


def test_settings_are_shown_with_their_meaning_and_resources_with_their_unit(cell, cli):
    cell.answer("GET", "/v1/cell/settings", SETTINGS)
    code, out, _ = cli("cell", "get")
    assert code == 0
    assert "preemption_delay     2m  How long entitled work is without a place before" in out
    assert "cpu       number, such as 1.5                  -" in out
    assert "matlab    number, such as 1.5                 20" in out
    assert "smart      drain              5m" in out


def test_policies_of_conditions_are_set_by_name(cell, cli):
    cell.answer("PATCH", "/v1/cell/settings", ANSWER)
    args = ("--condition", "disk-full=drain:5m", "--condition", "smart=off", "release_after=30m")
    assert cli("cell", "set", *args)[:2] == (0, "cell: release_after, disk-full, smart changed\n")
    [sent] = cell.writes()
    policies = [{"name": "disk-full", "policy": "drain", "drain_after": "5m"}, {"name": "smart", "policy": "off"}]
    assert sent.body == {"release_after": "30m", "conditions": policies}


def test_only_what_is_named_is_sent_and_the_answer_is_told(cell, cli):
    cell.answer("PATCH", "/v1/cell/settings", ANSWER)
    cell.answer("PATCH", "/v1/cell/settings", ANSWER | {"code": "REPEATED"})
    args = ("preemption_delay=5s", "ended_jobs_max=7", "--resource", "gpu/a100", "--resource", "scratch=MiB")
    code, out, _ = cli("cell", "set", *args, "--licence", "matlab=20.5")
    assert (code, out) == (0, "cell: preemption_delay, ended_jobs_max, gpu/a100, scratch, matlab changed\n")
    [sent] = cell.writes()
    assert sent.body == {
        "preemption_delay": "5s",
        "ended_jobs_max": 7,
        "resources": [{"name": "gpu/a100"}, {"name": "scratch", "unit": "MiB"}, {"name": "matlab", "amount": 20.5}],
    }
    assert cli("cell", "set", "preemption_delay=5s", "--reason", "audit")[1] == "cell: preemption_delay unchanged\n"
    assert [each.query.get("reason") for each in cell.writes()] == [None, "audit"]


def test_settings_of_access_have_options_of_their_own(cell, cli):
    cell.answer("PATCH", "/v1/cell/settings", ANSWER)
    options = ("--agents", "certificates", "--calls-per-s", "50", "--late-after", "30s")
    assert cli("cell", "set", *options)[:2] == (0, "cell: agents, calls_per_s, late_after changed\n")
    assert cell.writes()[0].body == {"agents": "certificates", "calls_per_s": 50, "late_after": "30s"}
    assert cli("cell", "set", "agents=token", "--agents", "certificates")[0] == 2


def test_what_names_nothing_or_the_same_twice_is_refused_before_it_is_sent(cell, cli):
    for args in ((), ("preemption_delay",), ("=5s",), ("a=1", "a=2"), ("--licence", "matlab"), ("resources=1",)):
        assert cli("cell", "set", *args)[0] == 2, args
    assert cell.writes() == []


def test_a_refusal_names_each_setting(cell, cli):
    errors = [{"pointer": "/preemption_dely", "message": "is not a known field; did you mean preemption_delay?"}]
    cell.problem("PATCH", "/v1/cell/settings", 422, "INVALID_SETTINGS", "the settings have problems", errors=errors)
    code, _, err = cli("cell", "set", "preemption_delay=5s")
    assert (code, "/preemption_dely: is not a known field; did you mean preemption_delay?" in err) == (1, True)


def test_lists_have_columns_for_resources_beside_cpu_and_memory_only_where_there_are_any(cell, cli):
    plain, a100 = {"cpu": 4, "memory": "8GiB", "disk": "1TiB"}, {"cpu": 4, "gpu/a100": 2, "scratch": "4GiB"}
    cell.answer("GET", "/v1/hosts", {"hosts": [HOST | {"capacity": plain, "allocated": {}}], "next_page_token": ""})
    assert "OTHER" not in cli("host", "list")[1]
    hosts = [HOST | {"capacity": a100, "allocated": {"gpu/a100": 1}}]
    cell._answers.clear()
    cell.answer("GET", "/v1/hosts", {"hosts": hosts, "next_page_token": ""})
    _, out, _ = cli("host", "list", "--columns", "host,other-used,other")
    assert out.splitlines()[1].split(maxsplit=3) == ["h1", "gpu/a100", "1", "gpu/a100 2, scratch 4GiB"]
    cell.answer("GET", "/v1/pools", {"pools": [POOL]})
    assert "OTHER" not in cli("pool", "list")[1]
    cell._answers.clear()
    cell.answer("GET", "/v1/pools", {"pools": [POOL | {"demand": {"matlab": 3}}]})
    assert "matlab 3" in cli("pool", "list", "--columns", "demand-other")[1]


def test_a_host_shows_why_what_it_offers_is_ignored(cell, cli):
    ignored = [
        {"name": "gpu/a100", "code": "WRONG_UNIT", "message": "the cell counts it otherwise"},
        {"name": "tpu", "code": "UNKNOWN_RESOURCE", "message": "the cell doesn't know it"},
    ]
    cell.answer("GET", "/v1/hosts/h1", HOST | {"ignored_resources": ignored})
    cell.answer("GET", "/v1/hosts/h1/tasks", {"tasks": [], "next_page_token": ""})
    out = cli("host", "get", "h1")[1].splitlines()
    at = out.index("ignored_resources  gpu/a100: the cell counts it otherwise (WRONG_UNIT)")
    assert out[at + 1] == "                   tpu: the cell doesn't know it (UNKNOWN_RESOURCE)"


def test_an_empty_topology_is_refused_and_none_is_no_tree(cli, cell):
    code, _, err = cli("cell", "set", "--topology", "")
    assert code == 2
    assert "names no level" in err
    assert cell.writes() == []
    cell.answer("PATCH", "/v1/cell/settings", ANSWER)
    assert cli("cell", "set", "--topology", "none")[0] == 0
    [sent] = cell.writes()
    assert sent.body["topology"] == []
