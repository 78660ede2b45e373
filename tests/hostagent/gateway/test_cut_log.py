"""A gateway of 0.3 read no pools: after the update it begins on a log whose first records may be removed."""

from pathlib import Path

import msgspec
import pytest
from starlette.requests import Request

from events.codec import encode
from events.log.port import NewRecord
from events.records.parts import ResourceKind
from events.records.pools import CellConfigured
from hostagent.gateway.agents import Agents
from hostagent.gateway.component import Gateway
from hostagent.gateway.http_answers import Denied
from tests.hostagent.cell import TOKEN, Cell, TestClock

BY_TOKEN = Request({"type": "http", "headers": [(b"authorization", f"Bearer {TOKEN}".encode())]})


def configure(cell: Cell, **changes: object) -> None:
    fact = CellConfigured(command_id="c", **changes)  # type: ignore[arg-type]
    cell.log.append([NewRecord("paceline.pools", b"", encode(fact))])


def of_0_3(path: Path) -> None:
    """Makes a checkpoint one of 0.3, as to what that didn't know."""
    state = msgspec.msgpack.decode(path.read_bytes())
    del state["positions"]["paceline.pools"], state["known"]["paceline.pools"]
    for name in ("certificates", "settings", "knows_agents", "image_prefetches"):
        del state[name]
    path.write_bytes(msgspec.msgpack.encode(state))


def caught_up(gateway: Gateway) -> Gateway:
    while gateway.step() or not gateway.serving:
        pass
    return gateway


def answer(gateway: Gateway) -> str:
    """What an agent with the token of the cell hears: a code, or that it may speak."""
    agents = Agents(gateway, TOKEN)
    still = agents.still(BY_TOKEN, "h")()
    try:
        agents.check(BY_TOKEN, "h")
    except Denied as denied:
        assert not still
        return str(denied.code)
    assert still
    return "OK"


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    """A cell whose gateway of 0.3 has ended, after three settings were changed."""
    cell = Cell(TestClock(), tmp_path / "gateway.msgpack")
    caught_up(cell.gateway)
    for after_ms in (1, 2, 3):
        configure(cell, settle_ms=after_ms)
    cell.gateway.step()
    cell.gateway.close()
    of_0_3(tmp_path / "gateway.msgpack")
    return cell


def test_a_whole_log_says_all_settings(cell: Cell) -> None:
    assert answer(caught_up(cell.new_gateway())) == "OK"
    configure(cell, agents="certificates")
    assert answer(caught_up(cell.new_gateway())) == "CERTIFICATE_NEEDED"


@pytest.mark.parametrize("first", [2, 3])
def test_what_was_removed_from_the_log_may_have_refused_the_token_of_the_cell(cell: Cell, first: int) -> None:
    cell.log.truncate("paceline.pools", first)
    gateway = caught_up(cell.new_gateway())
    assert answer(gateway) == "AGENTS_UNKNOWN"
    configure(cell, settle_ms=4)
    configure(cell, agents="token", resources=(ResourceKind(name="gpu/a100"),))  # who knows if it was taken
    gateway.step()
    assert answer(gateway) == "AGENTS_UNKNOWN"
    gateway.close()
    gateway = caught_up(cell.new_gateway())
    assert answer(gateway) == "AGENTS_UNKNOWN"
    configure(cell, agents="certificates")
    gateway.step()
    assert answer(gateway) == "CERTIFICATE_NEEDED"
    configure(cell, agents="token")
    gateway.step()
    assert answer(gateway) == "OK"
    gateway.close()
    assert answer(caught_up(cell.new_gateway())) == "OK"
