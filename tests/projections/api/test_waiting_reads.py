"""Reads that wait leave the server to others: they are bounded in all and for each client address."""

import asyncio
from contextlib import ExitStack
from itertools import islice

import httpx2


def test_reads_that_wait_are_counted_in_all_and_of_each_client(api, monkeypatch):
    monkeypatch.setattr("projections.api.context.READ_WAIT_S", 3600.0)
    api.cell.accept("a")
    api.fold()
    late = {"At-Least-Position": "paceline.jobs:5"}

    async def ask(client, headers):
        transport = httpx2.ASGITransport(api.app, client=(client, 1))
        async with httpx2.AsyncClient(transport=transport, base_url=api.client.base_url) as asking:
            return await asking.get("/v1/jobs", headers=headers)

    async def refused(clients, count):
        tasks = [asyncio.create_task(ask(client, late)) for client in clients]
        answers = [await each for each in islice(asyncio.as_completed(tasks), count)]
        assert (await ask(clients[0], {"At-Least-Position": "paceline.jobs:0"})).status_code == 200
        assert sum(not task.done() for task in tasks) == len(clients) - count
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return answers

    for answer in asyncio.run(refused(["10.0.0.1"] * 20, 4)):
        assert "16 reads of 10.0.0.1 wait" in api.problem(answer, 429, "TOO_MANY_READS")["detail"]
        assert answer.headers["retry-after"]
    for answer in asyncio.run(refused([f"10.0.0.{at}" for at in range(70)], 6)):
        assert "64 reads wait" in api.problem(answer, 503, "TOO_MANY_READS")["detail"]
        assert answer.headers["retry-after"]


def test_reads_of_output_that_wait_for_hosts_are_counted_too(api):
    api.cell.host()
    api.cell.accept("a")
    api.cell.run("a", (0,))
    api.fold()
    with ExitStack() as held:
        for _ in range(16):
            held.enter_context(api.app.state.context.waiting.one("testclient"))
        api.problem(api.client.get("/v1/jobs/a/tasks/0/log"), 429, "TOO_MANY_READS")
    assert api.client.get("/v1/jobs/a/tasks/0/log").status_code == 200
