"""Lists of jobs: what they are filtered by, counted by, and how they go on, against a naive twin."""

import json
import random
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from msgspec.structs import replace

from events.codes import Outcome, TaskState
from events.records.lifecycle import JobHeld
from events.records.parts import Actor
from projections.queries.job_counts import JobCounts, wait_reasons
from projections.queries.job_filter import JobFilter
from projections.queries.job_list import JobTexts
from tests.helpers.drawn import seeds
from tests.helpers.written_cell import ended, held, job

POOLS = ("/a", "/a/b", "/a/bc", "/ab", "/a/b/c")
OWNERS = ("", "ann", "bob's \u202eteam")
LABELS = ({}, {"k": "v"}, {"k": 'v","k":"w'}, {"k": "w", "x": "é"}, {",": ":"}, {"x,": "y", ":": "v"})
COMMANDS = (["train", "--data", "100%"], ["sh", "-c", "echo A_b"], ["true"])


def fill(api: Any, seed: int, jobs: int = 60) -> None:
    """Jobs of all kinds, some with tasks that wait, each submitted a second after the one before."""
    at = random.Random(seed)
    for number in range(jobs):
        api.cell.ms += 1000
        job_id = f"{at.choice(['tile', 'Tile', 'web'])}-{number}"
        fields = {
            "pool": at.choice(POOLS),
            "owner": at.choice(OWNERS),
            "labels": at.choice(LABELS),
            "command": at.choice(COMMANDS),
            "instances": at.randint(1, 3),
        }
        if at.random() < 0.1:
            api.cell.submit(job_id, **fields)
            continue
        api.cell.accept(job_id, **fields)
        if at.random() < 0.5:
            api.cell.run(job_id, tuple(range(fields["instances"])))
            api.cell.changed("RUNNING", job_id)
            if at.random() < 0.3:
                failed = ended(job_id, (0,), Outcome.FAILED, exit_code=1, following=TaskState.BACKOFF)
                api.cell.decide("lifecycle", failed, JobHeld(job_id=job_id, held=at.random() < 0.5))
        elif at.random() < 0.5:
            api.cell.decide("entitlement", held(job_id, (0,), at.choice(["LIMIT_REACHED", "BEHIND_IN_QUEUE"])))
        if at.random() < 0.3:
            api.cell.changed(at.choice(["SUCCEEDED", "FAILED", "KILLED"]), job_id)
    api.fold()


def commands(api: Any) -> dict[str, str]:
    """What the jobs run, as it is searched."""
    found = api.get("/v1/jobs?page_size=1000")["jobs"]
    specs = {job["job_id"]: api.get(f"/v1/jobs/{job['job_id']}")["spec"] for job in found}
    return {job_id: " ".join(spec["command"]) for job_id, spec in specs.items()}


def naive(job: dict[str, Any], runs: dict[str, str], wanted: dict[str, Any]) -> bool:
    """Whether a job is let through."""
    pool, text = wanted.get("pool", "/"), wanted.get("text", "").lower()
    return (
        job["state"] in wanted.get("state", job["state"]).split(",")
        and (pool == "/" or f"{job['pool']}/".startswith(f"{pool}/"))
        and job["owner"] in wanted.get("owner", [job["owner"]])
        and all(
            job["labels"].get(key) == value
            for key, _, value in (each.partition(":") for each in wanted.get("label", ()))
        )
        and (text in job["job_id"].lower() or text in runs[job["job_id"]].lower())
        and job["submitted_at"] >= wanted.get("since", "")
        and (wanted.get("order") != "wait" or job["waiting_since"] is not None)
    )


def wishes(at: random.Random) -> dict[str, Any]:
    """Some of what a list may be asked for."""
    known = {
        "state": ["RUNNING", "PENDING,SUBMITTED", "FAILED"],
        "pool": [*POOLS, "/", "/none"],
        "owner": [["ann"], ["", "bob's \u202eteam"]],
        "label": [["k:v"], ["k:w", "x:é"], [",::"], ['k:v","k":"w']],
        "text": ["tile", "TILE-1", "0%", "a_B", "'"],
        "since": ["2023-11-14T22:13:45.000Z"],
        "order": ["wait", "newest"],
    }
    return {name: at.choice(known[name]) for name in at.sample(sorted(known), at.randint(0, 3))}


@seeds(3, 1)
def test_a_list_has_just_the_jobs_that_it_is_asked_for(api, seed):
    fill(api, seed)
    runs = commands(api)
    everything = api.get("/v1/jobs?page_size=1000")["jobs"]
    at, matched = random.Random(seed), 0
    for _ in range(60):
        wanted = wishes(at)
        listed = api.get("/v1/jobs", params={**wanted, "page_size": 1000})["jobs"]
        expected = [job for job in everything if naive(job, runs, wanted)]
        if wanted.get("order") == "wait":
            expected.sort(key=lambda job: (job["waiting_since"], job["submitted_at"]))
        assert [job["job_id"] for job in listed] == [job["job_id"] for job in expected], wanted
        matched += len(listed)
    assert matched > 100


@seeds(3, 1)
def test_jobs_are_counted_as_they_are_listed(api, seed):
    fill(api, seed)
    everything = api.get("/v1/jobs?page_size=1000")["jobs"]
    runs = commands(api)
    at = random.Random(seed)
    for _ in range(30):
        wish = wishes(at)
        listed = [job for job in everything if naive(job, runs, wish)]
        wanted = JobFilter(
            wish["state"].split(",") if "state" in wish else (),
            wish.get("pool", ""),
            [tuple(each.split(":", 1)) for each in wish.get("label", ())],
            wish.get("owner", ()),
            wish.get("text", ""),
            1_700_000_025_000 if "since" in wish else 0,
            wish.get("order") == "wait",
        )
        with api.projector.views.read() as connection:
            for by in ("pool", "owner"):
                found = JobCounts().of(connection, wanted, by)
                counts = {(group.name, group.state): (group.jobs, group.waiting) for group in found}
                jobs = Counter((job[by], job["state"]) for job in listed)
                tasks = Counter()
                for job in listed:
                    tasks[job[by], job["state"]] += job["tasks"]["queued"] + job["tasks"]["backoff"]
                assert counts == {key: (count, tasks[key]) for key, count in jobs.items()}, wish
            reasons = wait_reasons(connection, wanted)
        waiting = [job for job in listed if job["waiting_since"]]
        assert sum(reason.tasks for reason in reasons) == sum(job["tasks"]["queued"] for job in waiting) + sum(
            job["tasks"]["backoff"] for job in listed if not job["ended_at"]
        )
        expected = Counter()
        for job in listed:
            if not job["ended_at"]:
                expected["HELD" if job["held"] else "BACKOFF"] += job["tasks"]["backoff"]
        assert {code: tasks for code, tasks in expected.items() if tasks} == {
            reason.code: reason.tasks for reason in reasons if reason.code in ("HELD", "BACKOFF")
        }


@pytest.mark.parametrize("filters", [{}, {"pool": "/a"}, {"order": "wait"}])
def test_jobs_are_found_by_who_submitted_them_page_by_page(api, filters):
    who = {}
    for number in range(30):
        api.cell.ms += 1000
        job_id, name = f"j{number}", "ann" if number % 7 == 0 else "ben"
        spec = {"pool": POOLS[number % 3]}
        at = api.cell.fact(replace(job(job_id, **spec), actor=Actor(name, "environment")))
        api.cell.accept(job_id, at, **spec)
        who[job_id] = name
    api.fold()
    everything = [each["job_id"] for each in api.get("/v1/jobs", params={**filters, "page_size": 1000})["jobs"]]
    for name in ("ann", "ben", "nobody"):
        found, token = [], ""
        while True:
            page = api.get("/v1/jobs", params={**filters, "actor": name, "page_size": 2, "page_token": token})
            found += [each["job_id"] for each in page["jobs"]]
            if not (token := page["next_page_token"]):
                break
        assert found == [job_id for job_id in everything if who[job_id] == name]
    assert len(everything) > 10


@pytest.mark.parametrize("order", ["newest", "wait"])
def test_paging_leaves_out_no_job_and_shows_none_twice_while_jobs_arrive(api, order):
    fill(api, 1)
    before = [job["job_id"] for job in api.get(f"/v1/jobs?page_size=1000&pool=/a&order={order}")["jobs"]]
    seen, token = [], ""
    for step in range(100):
        page = api.get("/v1/jobs", params={"pool": "/a", "order": order, "page_size": 3, "page_token": token})
        seen += [job["job_id"] for job in page["jobs"]]
        token = page["next_page_token"]
        if not token:
            break
        api.cell.ms += 1000
        api.cell.accept(f"late-{step}", pool="/a/b")
        api.fold()
    assert [job_id for job_id in seen if not job_id.startswith("late")] == before
    assert len(seen) == len(set(seen))
    assert len(before) > 6


def test_a_page_shows_its_jobs_as_they_are_whatever_it_has_shown_before(api):
    for number in range(4):
        api.cell.accept(f"j-{number}", pool="/a")
        api.cell.changed("SUCCEEDED", f"j-{number}")
    api.fold()
    pages = ("/v1/jobs?page_size=3", "/v1/jobs?page_size=4", "/v1/jobs?page_size=100", "/v1/jobs?state=succeeded")

    def shown():
        """Each page in states of jobs, asked twice."""
        found = [api.client.get(page).content for page in pages]
        assert [api.client.get(page).content for page in pages] == found
        return [[(job["job_id"], job["state"]) for job in json.loads(text)["jobs"]] for text in found]

    ended = [(f"j-{number}", "SUCCEEDED") for number in (3, 2, 1, 0)]
    assert shown() == [ended[:3], ended, ended, ended]
    api.cell.changed("RUNNING", "j-2")
    api.fold()
    again = [(job_id, "RUNNING" if job_id == "j-2" else state) for job_id, state in ended]
    assert shown() == [again[:3], again, again, [job for job in ended if job[0] != "j-2"]]
    api.cell.changed("FAILED", "j-2")
    api.fold()
    failed = [(job_id, "FAILED" if job_id == "j-2" else state) for job_id, state in ended]
    assert shown() == [failed[:3], failed, failed, [job for job in ended if job[0] != "j-2"]]


def test_a_job_waits_from_when_a_task_is_queued_until_none_is(api):
    api.cell.ms = 1_700_000_001_000
    api.cell.accept("a", instances=2)
    api.cell.ms += 5000
    api.cell.run("a", (0,))
    api.fold()
    assert api.get("/v1/jobs/a")["waiting_since"] == "2023-11-14T22:13:21.000Z"
    api.cell.run("a", (1,))
    api.fold()
    assert api.get("/v1/jobs/a")["waiting_since"] is None


def test_a_wish_that_is_none_is_refused(api):
    for query in ("order=oldest", "since=yesterday", "label=k"):
        api.problem(api.client.get(f"/v1/jobs?{query}"), 422, "INVALID_REQUEST")


def test_threads_that_keep_texts_at_the_same_time_dont_meet():
    texts, kept = JobTexts(), dict[Any, Any]()
    rest = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            keeps = [threads.submit(texts._keep, kept, {number: b""}, 3) for number in range(20_000)]
            for each in keeps:
                each.result()
    finally:
        sys.setswitchinterval(rest)
    assert len(kept) == 3
