"""Pools on the command line: the tree, who waits, how a number came about, what a change would do."""

import json

from tests.paceline.cli.test_commands import POOL

TREE = {
    "pools": [
        POOL | {"path": "/maps", "parent": "/", "share": {"cpu": 3, "others": 1}, "limit": {"cpu": 8}, "queue": {},
                "closed": True},
        POOL | {
            "path": "/maps/tiles", "entitlement": {"cpu": 4}, "held": {"cpu": 2.5}, "demand": {"cpu": 9},
            "without_hosts": {"cpu": 1},
            "queue": {
                "preemptible": {"jobs": 2, "tasks": 7, "head": {"job_id": "a", "code": "ENTITLEMENT_REACHED",
                                                                "pool": "/maps"}},
                "non_preemptible": {"jobs": 1, "tasks": 1, "head": {"job_id": "b", "code": "RESERVATION_REACHED",
                                                                    "pool": "/maps/tiles"}},
            },
            "credit": {"percent": 40, "saves": True, "at": None}, "turn": None,
            "waiting_for_place": {"entitled": 2, "borrowed": 1},
        },
        POOL | {"path": "/maps-old", "parent": "/", "reservation": {}, "entitlement": {}, "demand": {}, "queue": {},
                "turn": {"job_id": "big"}},
    ],
    "cells": [{"cell": 0, "hosts": 3, "capacity": {"cpu": 12, "memory": "24GiB"}, "demand": {"cpu": 13},
               "held": {"cpu": 2.5}, "without_hosts": {"cpu": 1},
               "warnings": ["the pools of the first level reserve 20 cpu"]}],
}  # fmt: skip


def test_the_whole_tree_is_a_line_for_each_pool_in_one_resource(cli, cell):
    cell.answer("GET", "/v1/pools", TREE)
    code, out, err = cli("pool", "tree")
    assert (code, out) == (0, """\
RESOURCE cpu
POOL       RESERVED  SHARE     LIMIT  ENTITLED  USED  WITHOUT HOSTS  DEMAND  QUEUE  HEAD                                          NOTE
/                 -      -         -        12   2.5              1      13      8  -                                             -
/maps           1.5      3         8       1.5     0              0     1.5      8  -                                             closed
  tiles         1.5      1  no limit         4   2.5              1       9      8  a ENTITLEMENT_REACHED, b RESERVATION_REACHED  saved 40 % of a turn
/maps-old         0      1  no limit         0     0              0       0      0  -                                             turn of big
""")  # noqa: E501 # fmt: skip
    assert err == "other resources, with --resource NAME: memory\nthe pools of the first level reserve 20 cpu\n"
    out = cli("pool", "tree", "--resource", "memory", "--columns", "pool,reserved,entitled")[1]
    assert out.splitlines()[:3] == ["RESOURCE memory", "POOL       RESERVED  ENTITLED", "/                 -     24GiB"]
    out = cli("pool", "tree", "--sort", "-entitled", "--columns", "pool", "--no-header")[1]
    assert out.split() == ["/", "/maps/tiles", "/maps", "/maps-old"], "a pool away from its parent has its whole path"
    assert "there are cpu, memory" in cli("pool", "tree", "--resource", "gpu")[2]
    assert json.loads(cli("pool", "tree", "-o", "json")[1]) == TREE
    assert cli("pool", "tree", "-o", "name")[1] == "/maps\n/maps/tiles\n/maps-old\n"


def test_the_root_is_shown_as_the_cell_with_what_it_has(cli, cell):
    cell.answer("GET", "/v1/pools", TREE)
    assert cli("pool", "get", "/")[:2] == (
        0,
        """\
path           /
cell           0
hosts          3
capacity       cpu 12, memory 24GiB
demand         cpu 13
held           cpu 2.5
without_hosts  cpu 1
warnings       the pools of the first level reserve 20 cpu
""",
    )


def test_sizes_of_a_column_have_one_unit(cli, cell):
    pools = [{**TREE["pools"][0], "entitlement": {"memory": size}} for size in ("512MiB", "24GiB", "1TiB")]
    cell.answer("GET", "/v1/pools", {**TREE, "pools": pools})
    words = cli("pool", "tree", "--resource", "memory", "--columns", "entitled", "--no-header")[1].split()
    assert words == ["24GiB", "0.5GiB", "24GiB", "1024GiB"]


def test_cells_stand_one_below_the_other_each_with_what_it_has(cli, cell):
    second = {**TREE["cells"][0], "cell": 1, "warnings": ["it is full"]}
    pools = [{**TREE["pools"][0], "cell": 0}, {**TREE["pools"][2], "cell": 1}]
    cell.answer("GET", "/v1/pools", {"pools": pools, "cells": [*TREE["cells"], second]})
    _, out, err = cli("pool", "tree", "--columns", "pool", "--no-header")
    assert out == "/  (cell 0)\n/maps\n/  (cell 1)\n/maps-old\n"
    assert "cell 1: it is full" in err


def test_who_waits_in_a_pool_is_shown_by_class_with_codes(cli, cell):
    gang = {"job_id": "a", "priority": 5, "first": 0, "count": 4, "code": "BEHIND_IN_QUEUE", "pool": "/maps",
            "since": "2026-08-21T10:41:07.000Z", "asked": {"cpu": 4}, "not_before": None}  # fmt: skip
    alone = {**gang, "job_id": "b", "first": 7, "count": 1, "code": "RESERVATION_REACHED"}
    body = {
        "path": "/maps",
        "classes": {
            "preemptible": {"jobs": 3, "tasks": 9, "gangs": [gang]},
            "non_preemptible": {"jobs": 1, "tasks": 1, "gangs": [alone]},
        },
        "waiting_for_place": {"entitled": 2, "borrowed": 0},
    }
    cell.answer("GET", "/v1/queues/maps", body)
    assert cli("pool", "queue", "/maps", "--size", "1") == (0, """\
CLASS            JOB  TASKS  PRIORITY  CODE                 BY     ASKED  SINCE
preemptible      a      0-3         5  BEHIND_IN_QUEUE      /maps  cpu 4  3m12s ago
non-preemptible  b        7         5  RESERVATION_REACHED  /maps  cpu 4  3m12s ago
preemptible: 9 tasks of 3 jobs wait
non-preemptible: 1 task of 1 job waits
admitted and without a place: entitled 2
""", "")  # fmt: skip
    assert cell.asked[-1].query == {"size": "1"}
    cell.answer("GET", "/v1/pools", TREE)
    cell.answer("GET", "/v1/queues/b", {"path": "/b", "classes": {}, "waiting_for_place": {}})
    assert "nothing waits in pool /b" in cli("pool", "queue", "/b")[1]


def test_above_leaf_pools_who_waits_there_is_named(cli, cell):
    cell.answer("GET", "/v1/queues/maps", {"path": "/maps", "classes": {}, "waiting_for_place": {}})
    cell.answer("GET", "/v1/pools", TREE)
    assert cli("pool", "queue", "/maps")[1].endswith("\njobs wait in leaf pools: /maps/tiles 11 tasks\n")


def test_a_pool_says_how_what_it_may_use_came_about(cli, cell):
    body = {
        "path": "/maps", "cell": 0, "capacity": {"cpu": 12}, "entitlement": {"cpu": 4}, "demand": {"cpu": 9},
        "allocation": {"cpu": 2.5}, "lines": {"cpu": ["/maps may use 4 cpu of the cell's 12 cpu"]}, "note": None,
    }  # fmt: skip
    cell.answer("GET", "/v1/entitlements/maps", body)
    assert cli("pool", "explain", "/maps") == (0, """\
pool /maps may use cpu 4
  holds    cpu 2.5
  demands  cpu 9
cpu
  /maps may use 4 cpu of the cell's 12 cpu
""", "")  # fmt: skip
    cell.answer("GET", "/v1/entitlements/new", {**body, "lines": {}, "note": "it is being counted"})
    assert cli("pool", "explain", "/new")[2] == "it is being counted\n"


def test_an_idle_pool_says_that_it_asks_for_nothing_and_what_is_reserved_for_it(cli, cell):
    idle = {"path": "/a", "entitlement": {}, "demand": {}, "allocation": {}, "lines": {}, "note": None}
    cell.answer("GET", "/v1/entitlements/a", idle)
    cell.answer("GET", "/v1/pools/a", {**TREE["pools"][0], "path": "/a", "reservation": {"cpu": 0.5}})
    cell.answer("GET", "/v1/pools/a", {**TREE["pools"][0], "path": "/a", "reservation": {}})
    assert cli("pool", "explain", "/a")[1] == "pool /a asks for nothing now; its reservation is cpu 0.5\n"
    assert cli("pool", "explain", "/a")[1] == "pool /a asks for nothing now; nothing is reserved for it\n"


def test_a_pool_is_closed_and_opened(cli, cell):
    for _ in range(2):
        cell.answer("PATCH", "/v1/pools/maps/tiles", {"code": "DONE", "message": "", "position": "paceline.pools:3"})
    assert cli("pool", "close", "maps/tiles")[:2] == (0, "pool /maps/tiles is closed\n")
    assert cli("pool", "open", "/maps/tiles")[:2] == (0, "pool /maps/tiles is open\n")
    assert [each.body for each in cell.writes()] == [{"closed": True}, {"closed": False}]


def test_a_dry_run_shows_the_difference_and_what_it_would_do_and_writes_nothing(cli, cell, tmp_path):
    path = tmp_path / "pools.yaml"
    path.write_text("- path: /maps\n  share: 2\n- path: /new\n- path: /bad\n  reservation: {cpu: 99}\n")
    fields = {"share": {"before": {"others": 1}, "after": {"others": 2}}, "static": {"before": [], "after": ["cpu"]}}
    no = {"change": "refuse", "code": "INVALID_POOL", "message": "cpu: it has 12", "fields": {}}
    plan = {
        "cell": 0,
        "changes": [
            {"path": "/maps", "change": "change", "fields": fields, "code": "DONE", "message": ""},
            {"path": "/new", "change": "create", "fields": {}, "code": "DONE", "message": "more than there is"},
            {"path": "/bad", **no},
        ],
        "pools": [{"path": "/maps", "entitlement": {"before": {"cpu": 2}, "after": {"cpu": 4}}, "allocation": {}}],
        "lets_in": [{"job_id": "a", "pool": "/maps", "priority": 0, "tasks": 1}],
        "preempts": [{"job_id": f"j{number}", "pool": "/p", "priority": 0, "tasks": 2} for number in range(11)],
    }
    cell.answer("POST", "/v1/pool-plans", {"cells": [plan]})
    code, out, err = cli("pool", "apply", "--dry-run", str(path))
    assert (code, err) == (1, "nothing was changed\n"), "it would be refused"
    assert out.splitlines()[:8] == [
        "pool /maps would be changed",
        "  share: 1 -> 2",
        "  static: - -> cpu",
        "pool /new would be created; more than there is",
        "pool /bad would be refused: cpu: it has 12 (INVALID_POOL)",
        "/maps may use cpu 4 instead of cpu 2, holds -",
        "1 task of job a in /maps would be let in",
        "2 tasks of job j0 in /p would be preempted",
    ]
    assert out.splitlines()[-1] == "and those of 1 more job would be preempted"
    assert [(each.method, each.path) for each in cell.asked] == [("POST", "/v1/pool-plans")]
    assert {"path": "/maps", "share": 2} in cell.asked[0].body["pools"]
