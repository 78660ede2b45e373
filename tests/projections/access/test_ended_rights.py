"""What goes on for long ends with the right to it."""

import asyncio
from hashlib import sha256

import pytest

from events.records.pools import CellConfigured, RoleBound, RoleUnbound, TokenIssued
from paceline.client.proof import ISSUED
from projections.api import standing
from projections.ui import live
from projections.ui.app import add_ui
from tests.projections.api.test_stream import Stream
from tests.projections.conftest import TOKEN, Api

SHOWN = f"{ISSUED}t_{'x' * 43}"


@pytest.mark.parametrize(("path", "query"), [("/v1/events", "from=start"), ("/ui/stream", "watch=/jobs")])
def test_a_stream_ends_with_the_role_of_its_reader(
    api: Api, monkeypatch: pytest.MonkeyPatch, path: str, query: str
) -> None:
    monkeypatch.setattr(standing, "LOOK_S", 0)
    monkeypatch.setattr(live, "PING_S", 0.01)
    add_ui(api.app, {0: api.app.state.context}, TOKEN)
    api.pool("/maps")
    api.granted(
        RoleBound(command_id="a", binding_id="a", subject="ann", role="viewer", pool="/maps"),
        TokenIssued(command_id="b", token_id="t", subject="ann", token_hash=sha256(SHOWN.encode()).digest()),
        CellConfigured(command_id="c", access="roles"),
    )

    async def play() -> None:
        opened = Stream(api, query=query)
        shown = (b"authorization", f"Bearer {SHOWN}".encode())
        opened.scope |= {"path": path, "raw_path": path.encode(), "headers": [*opened.scope["headers"], shown]}
        serving = asyncio.create_task(api.app(opened.scope, opened.receive, opened.messages.put))
        begin = await asyncio.wait_for(opened.messages.get(), 30)
        assert begin["status"] == 200
        for _ in range(5):
            assert (await asyncio.wait_for(opened.messages.get(), 30))["more_body"]
            api.fold()
        api.granted(RoleUnbound(command_id="d", binding_id="a"))
        while (await asyncio.wait_for(opened.messages.get(), 30))["more_body"]:
            pass
        await asyncio.wait_for(serving, 30)

    asyncio.run(play())
