"""Commands inside runs cost a host and a gateway no more than a bound, whatever is asked for."""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import msgspec
import pytest
from fastapi import FastAPI

from events.cell_settings import DEFAULTS
from hostagent.exec_targets import Command
from hostagent.execs import Session
from hostagent.gateway import exec_relay
from hostagent.gateway.agents import Agents
from hostagent.gateway.connections import AskExec, Post
from hostagent.gateway.exec_relay import ExecAsk, ExecRefused, ExecRelay
from hostagent.gateway.http import exec_routes
from hostagent.gateway.http_answers import BODY_BYTES_MAX
from hostagent.gateway.local_execs import LocalExecs
from hostagent.gateway.secrets.routes import agent_routes
from hostagent.messages import EXECS_MAX, ExecLine
from paceline.client.exec_frames import ExecsFull, Kind, pack
from tests.hostagent.cell import TOKEN

ASK = ExecAsk("j", 0, 1, "h1", ("true",), False, 24, 80, 0, None)


class Reached:
    """A gateway that has every host."""

    serving = True
    settings = DEFAULTS
    knows_agents = True

    def __init__(self) -> None:
        self.opened = 0

    def post(self, post: Post) -> None:
        if isinstance(post, AskExec):
            self.opened += 1
            post.host.set_result(post.host_id or "h1")


def relay() -> ExecRelay:
    return ExecRelay(Reached())  # type: ignore[arg-type]


def test_no_run_and_no_host_has_more_than_so_many_at_once() -> None:
    async def filled() -> None:
        made = relay()
        for number in range(EXECS_MAX):
            await made.open(msgspec.structs.replace(ASK, instance=number // exec_relay.RUN_MAX))
        with pytest.raises(ExecRefused, match="32 commands and connections go on inside this run, at most 32 may"):
            await made.open(ASK)
        with pytest.raises(ExecsFull, match="64 commands and connections go on on host h1, at most 64 may at once"):
            await LocalExecs(made).open(msgspec.structs.asdict(msgspec.structs.replace(ASK, instance=9)))
        assert await made.open(msgspec.structs.replace(ASK, instance=9, host_id="h2"))

    asyncio.run(filled())


def test_a_host_begins_no_more_than_so_many_whatever_its_gateway_asks() -> None:
    last = asyncio.run(Session(None, ExecLine("0" * 32, "j", 0, 1, ("true",)), full=True)._run(None, ""))  # type: ignore[arg-type]
    assert last == pack(Kind.FAULT, b"TOO_MANY_SESSIONS: 64 commands and connections go on on this host, no more may")


@pytest.mark.parametrize(
    "more",
    [
        {"rows": 70_000},
        {"columns": -1},
        {"port": 70_000},
        {"job_id": "a/b"},
        {"instance": -1},
        {"command": ["x"] * 5000},
    ],
)
def test_an_ask_out_of_bounds_is_refused(more: dict[str, object]) -> None:
    answer = posted("/v1/execs", msgspec.json.encode(msgspec.to_builtins(ASK) | more))
    assert (answer.status_code, "Expected" in answer.json()["title"]) == (422, True)


@pytest.mark.parametrize("path", ["/v1/execs", "/v1/agents/h1/secrets"])
def test_a_body_without_an_end_is_not_read_to_its_end(path: str) -> None:
    assert posted(path, b" " * (BODY_BYTES_MAX + 1)).status_code == 413


def posted(path: str, body: bytes) -> httpx2.Response:
    made = relay()
    app = FastAPI()
    agents = Agents(made.gateway, TOKEN)
    app.include_router(exec_routes(made, TOKEN, agents))
    app.include_router(agent_routes(agents, None))  # type: ignore[arg-type]

    async def answered() -> httpx2.Response:
        transport = httpx2.ASGITransport(app=app)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx2.AsyncClient(transport=transport, base_url="http://g", headers=headers) as client:
            return await client.post(path, content=body)

    with ThreadPoolExecutor() as threads:
        return threads.submit(asyncio.run, answered()).result()


def test_a_command_that_can_not_begin_leaves_no_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "order.json").write_bytes(msgspec.json.encode({"work": "/", "env": {}}))
    monkeypatch.setattr(Command, "resize", lambda *_: 1 / 0)

    async def begun() -> tuple[int, int]:
        command = Command(ExecLine("0" * 32, "j", 0, 1, ("true",), True, 24, 80), tmp_path)
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(ZeroDivisionError):
            await command.start()
        await command.close()
        return before, len(os.listdir("/proc/self/fd"))

    before, after = asyncio.run(begun())
    assert after == before
