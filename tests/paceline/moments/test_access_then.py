"""Who may what at a moment of the past is what entitlement had answered then."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from events.log.embedded import EmbeddedLog
from events.records.base import Event
from events.records.entitlement import PoolAnswered
from events.records.pools import LockdownSet, RoleBound, RoleUnbound, TokenIssued, TokenRevoked
from events.records.rounds import TimerPassed
from paceline.services.past import CellFolder, moments_of
from paceline.services.settings import for_up, load
from projections.access.grants import Granted
from projections.api.moments import Asker, Making
from projections.queries.access import granted
from projections.views.projector import Projector
from tests.helpers.past import written
from tests.helpers.waiting import until
from tests.helpers.written_cell import Cell

HASH = b"h" * 32


class Told:
    """A cell of which each fact is answered at once; `rounds`: where its answer stands, by a name."""

    def __init__(self) -> None:
        self.cell = Cell()
        self.rounds: dict[str, int] = {}

    def done(self, name: str, fact: Event) -> None:
        offset = self.cell.fact(fact)
        answer = PoolAnswered(path="/", pools_offset=offset, command_id=name, code="DONE")
        self.cell.ms += 1000
        self.rounds[name] = self.cell.decide("entitlement", answer)


@pytest.fixture
def told() -> Told:
    told = Told()
    until_ms = told.cell.ms + 60_000
    told.done("bound", RoleBound(command_id="1", binding_id="b", subject="ann", role="viewer", until_ms=until_ms))
    told.done("issued", TokenIssued(command_id="2", token_id="t", subject="ann", token_hash=HASH))
    told.done("locked", LockdownSet(command_id="3", pool="/", locked=True, reason="audit"))
    told.done("bound again", RoleBound(command_id="4", binding_id="b", subject="ann", role="admin", until_ms=until_ms))
    told.done("revoked", TokenRevoked(command_id="5", token_id="t"))
    told.done("unlocked", LockdownSet(command_id="6", pool="/", locked=False))
    told.done("other", RoleBound(command_id="7", binding_id="c", group="dev", role="viewer"))
    told.done("unbound", RoleUnbound(command_id="8", binding_id="c"))
    told.cell.ms = until_ms
    told.rounds["over"] = told.cell.decide("entitlement", TimerPassed(machine="entitlement", due_ms=until_ms))
    return told


@pytest.fixture
def at(told: Told, tmp_path: Path) -> Iterator[Callable[[str], Granted]]:
    """What was granted after a round."""
    written(told.cell.log, tmp_path)
    with ExitStack() as stack:
        log = EmbeddedLog.open_secondary(tmp_path / "log")
        stack.callback(log.close)
        projector = Projector(log, tmp_path)
        stack.callback(projector.close)
        projector.fold_whole()
        moments = moments_of(for_up(load(None, data=tmp_path)), {0: CellFolder(log, tmp_path)})
        stack.callback(moments.close)

        def granted_at(name: str) -> Granted:
            moment, asker = moments.resolve(f"entitlement:{told.rounds[name]}"), Asker("test", True)
            until(lambda: not isinstance(moments.look(moment, asker), Making))
            cells = moments.look(moment, asker)
            assert not isinstance(cells, Making)
            with cells[0].views.read() as connection:
                return granted(connection)

        yield granted_at


def test_a_moment_has_the_bindings_tokens_and_lockdowns_of_then(told: Told, at: Callable[[str], Granted]) -> None:
    roles = {
        "bound": {"b": "viewer"},
        "revoked": {"b": "admin"},
        "other": {"b": "admin", "c": "viewer"},
        "unbound": {"b": "admin"},
        "over": {},
    }
    for name, expected in roles.items():
        assert {each.binding_id: each.role for each in at(name).bindings} == expected, name
    assert [at(name).tokens[HASH].is_revoked for name in ("issued", "revoked")] == [False, True]
    assert HASH not in at("bound").tokens
    assert [[*at(name).lockdowns] for name in ("issued", "locked", "unlocked")] == [[], ["/"], []]
