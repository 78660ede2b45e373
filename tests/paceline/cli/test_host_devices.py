"""Devices and cores of hosts and of tasks on the command line."""

import pytest

NONE = {
    "model": None, "memory": None, "numa": None, "link_group": None, "part_of": None, "excludes": [], "state": "OK",
    "used": 0, "memory_used": None, "runs": [],
}  # fmt: skip
SHARE = {"job_id": "serve", "instance": 1, "run": 1, "share": 0.4, "memory": "16GiB"}
WHOLE = {"job_id": "train", "instance": 0, "run": 2, "share": 1, "memory": "40GiB"}
DEVICES = [
    NONE | {"id": "0", "kind": "gpu", "model": "a100", "memory": "40GiB", "numa": 0, "used": 1, "memory_used": "40GiB",
            "runs": [WHOLE], "link_group": "left"},
    NONE | {"id": "MIG-1", "kind": "gpu/3g", "part_of": "1", "excludes": ["MIG-2"], "state": "EMPTYING"},
    NONE | {"id": "2", "kind": "gpu", "used": 0.4, "runs": [SHARE], "memory_used": "16GiB"},
]  # fmt: skip
CORES = [{"numa": 0, "cores": 4, "free": [0, 2, 3]}, {"numa": -1, "cores": 2, "free": []}]
HOST = {
    "host_id": "h1", "state": "UP", "attributes": {}, "devices": DEVICES, "cores": CORES, "maintenance": None,
    "cpu_used": None, "memory_used": None,
}  # fmt: skip
ROWS = [
    ["DEVICE", "KIND", "MODEL", "PART", "OF", "NUMA", "LINK", "GROUP", "STATE", "USED", "MEMORY", "MEMORY", "USED",
     "RUNS"],
    ["0", "gpu", "a100", "-", "0", "left", "OK", "1", "40GiB", "40GiB", "train/0"],
    ["MIG-1", "gpu/3g", "-", "1", "-", "-", "EMPTYING", "0", "-", "-", "-"],
    ["2", "gpu", "-", "-", "-", "-", "OK", "0.4", "-", "16GiB", "serve/1:0.4"],
    ["cores", "of", "NUMA", "node", "0:", "3", "of", "4", "free:", "0,2-3"],
    ["cores", "of", "no", "known", "NUMA", "node:", "0", "of", "2", "free"],
]  # fmt: skip
TASK = {
    "instance": 0, "state": "RUNNING", "run": 1, "version": 1, "host_id": "h1", "ports": [], "exit_code": None,
    "outcome": None, "reason": None,
}  # fmt: skip


def test_the_devices_of_a_host_are_listed_with_who_has_them(cli, cell):
    cell.answer("GET", "/v1/hosts/h1", HOST)
    code, out, err = cli("host", "device", "list", "h1")
    assert (code, err) == (0, "")
    assert [line.split() for line in out.splitlines()] == ROWS


def test_a_host_is_shown_with_its_devices_and_cores(cli, cell):
    cell.answer("GET", "/v1/hosts/h1", HOST)
    cell.answer("GET", "/v1/hosts/h1/tasks", {"tasks": [], "next_page_token": ""})
    code, out, _ = cli("host", "get", "h1")
    lines = [line.split() for line in out.splitlines()]
    assert code == 0
    assert lines[lines.index(ROWS[0]) :] == ROWS
    assert not any(line[:1] == ["devices"] for line in lines)


def test_a_host_without_devices_says_so(cli, cell):
    cell.answer("GET", "/v1/hosts/h1", HOST | {"devices": [], "cores": []})
    assert cli("host", "device", "list", "h1") == (0, "", "host h1 offers no devices one by one\n")
    assert cli("host", "device", "list", "h1", "-o", "name") == (0, "", "")


@pytest.mark.parametrize(
    ("has", "words"),
    [
        ({"devices": [{"id": "0", "share": 1, "memory": "40GiB"}, {"id": "1", "share": 1, "memory": None}]}, "0, 1"),
        ({"devices": [{"id": "2", "share": 0.4, "memory": "16GiB"}], "cores": [0, 1, 2, 8]}, "2:0.4, cores 0-2,8"),
        ({"cores": [3]}, "cores 3"),
    ],
)
def test_tasks_are_listed_with_their_devices_and_cores(cli, cell, has, words):
    cell.answer("GET", "/v1/jobs/a/tasks", {"tasks": [TASK | has, TASK | {"instance": 1}], "next_page_token": ""})
    code, out, _ = cli("job", "tasks", "a")
    head, first, second = out.splitlines()
    at = head.index("DEVICES")
    assert code == 0
    assert first[at:].startswith(f"{words} ")
    assert second[at:].startswith("- ")


@pytest.mark.parametrize("words", [("--end",), ("--spare",), ()])
def test_a_device_is_set_aside_with_or_without_its_runs(cli, cell, words):
    message = "Device 2 takes no new tasks."
    cell.answer("POST", "/v1/hosts/h1/devices", {"position": "paceline.hosts:7", "code": "DONE", "message": message})
    code, out, err = cli("host", "device", "disable", "h1", "2", *words, "--reason", "ECC")
    assert (code, out, err) == (0, f"host h1: {message}\n", "")
    [sent] = cell.writes()
    assert (sent.body["device"], sent.body["ends"], sent.body["reason"]) == ("2", words == ("--end",), "ECC")
