"""Budgets on the command line."""

import json

NO_GROUP = {"type": "about:blank", "title": "Not found", "status": 404, "code": "NOT_FOUND", "detail": "there is none"}
STATE = {
    "job_id": "web",
    "pool": "/maps",
    "kind": "stateless",
    "sla": {"max_unavailable": "25%", "group": "shop", "windows": [{"schedule": "0 2 * * *"}]},
    "wanted": 8,
    "available": 6,
    "unavailable": 2,
    "allowed": 2,
    "slack": 0,
    "used": [{"what": "stops, by a drain", "tasks": 2, "instances": "1-2", "until": None}],
    "waits": [
        {
            "code": "SLA_BUDGET_SPENT",
            "message": "1 task is to leave, but the SLA of the job allows no more unavailable instances now",
            "tasks": 1,
            "cause": "DRAIN",
            "since": None,
            "until": None,
        }
    ],
    "hour": {"allowed": 3, "used": 1, "until": None},
    "group": {"group": "shop", "defined": True, "allowed": 4, "unavailable": 2},
    "window": None,
    "at_risk": True,
    "risk": "budget spent: 2 of 8 instances are unavailable, 2 may be",
}
GROUP = {
    "group": "shop",
    "bounds": {"max_unavailable": 4, "min_available": None},
    "set_at": None,
    "wanted": 12,
    "unavailable": 2,
    "allowed": 4,
    "slack": 2,
    "members": 2,
    "jobs": [STATE],
}


def words(text):
    return [line.split() for line in text.splitlines()]


def test_the_budget_of_a_job_is_told_with_what_uses_it_and_what_waits(cli, cell):
    cell.answer("GET", "/v1/jobs/web/sla", STATE)
    code, out, _ = cli("sla", "get", "web")
    assert code == 0
    assert words(out) == [
        ["job", "web"],
        ["pool", "/maps"],
        ["sla", "max_unavailable", "25%,", "group", "shop"],
        ["available", "6", "of", "8"],
        ["unavailable", "2,", "2", "may", "be"],
        ["slack", "0"],
        ["in", "an", "hour", "1,", "3", "may", "be"],
        ["group", "shop:", "2", "unavailable,", "4", "may", "be"],
        ["risk", *STATE["risk"].split()],
        [],
        ["USED", "BY", "TASKS", "WHICH", "UNTIL"],
        ["stops,", "by", "a", "drain", "2", "1-2", "-"],
        [],
        ["SLA_BUDGET_SPENT:", *STATE["waits"][0]["message"].split()],
    ]
    assert json.loads(cli("sla", "get", "web", "-o", "json")[1]) == STATE


def test_a_job_without_an_sla_says_what_that_means(cli, cell):
    cell.answer("GET", "/v1/jobs/web/sla", STATE | {"sla": None})
    assert cli("sla", "get", "web")[1] == "job web has no SLA: all of its instances may be disrupted at once\n"


def test_a_name_that_is_no_job_may_be_a_group(cli, cell):
    cell.answer("GET", "/v1/jobs/shop/sla", NO_GROUP, 404)
    cell.answer("GET", "/v1/sla-groups/shop", GROUP)
    lines = words(cli("sla", "get", "shop")[1])
    assert lines[:4] == [
        ["group", "shop"],
        ["max", "unavailable", "4"],
        ["available", "10", "of", "12"],
        ["unavailable", "2,", "4", "may", "be"],
    ]
    assert lines[-1][:6] == ["web", "8", "2", "2", "0", "1"]


def test_a_name_that_is_neither_a_job_nor_a_group_is_not_found(cli, cell):
    cell.answer("GET", "/v1/jobs/shop/sla", NO_GROUP, 404)
    cell.answer("GET", "/v1/sla-groups/shop", NO_GROUP, 404)
    assert cli("sla", "get", "shop")[0] == 4


def test_jobs_at_risk_are_listed_those_of_a_pool_too(cli, cell):
    cell.answer("GET", "/v1/slas", {"slas": [STATE], "next_page_token": ""})
    assert cli("sla", "list", "--at-risk", "-o", "name")[1] == "web\n"
    assert cell.asked[-1].query["at_risk"] == "true"
    assert words(cli("sla", "get", "/maps")[1])[1][0] == "web"


def test_a_group_is_set_and_removed(cli, cell):
    answer = {"command_id": "c", "position": "paceline.jobs:3", "code": "DONE", "message": "SLA group shop: so"}
    cell.answer("PUT", "/v1/sla-groups/shop", answer)
    cell.answer("DELETE", "/v1/sla-groups/shop", answer)
    assert cli("sla", "group", "set", "shop", "--max-unavailable", "25%", "--reason", "x")[1] == "SLA group shop: so\n"
    assert cli("sla", "group", "remove", "shop", "--reason", "x")[:2] == (0, "SLA group shop: so\n")
    code, _, err = cli("sla", "group", "set", "shop", "--reason", "x")
    assert (code, "give --max-unavailable, --min-available" in err) == (2, True)
    code, _, err = cli("sla", "group", "set", "shop", "--max-unavailable", "some", "--reason", "x")
    assert (code, "'some' is neither a number of instances" in err) == (2, True)
    cell.answer("GET", "/v1/sla-groups", {"groups": [GROUP]})
    assert words(cli("sla", "group", "list")[1])[1] == ["shop", "4", "-", "2", "12", "2", "4"]
