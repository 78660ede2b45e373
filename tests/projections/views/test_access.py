"""The views keep who may what as entitlement does, whatever the order in which topics are read."""

from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace
from sqlalchemy import Engine

from events.access import Binding
from events.hashed_names import NameHashes
from events.records.base import Event
from events.records.entitlement import PoolAnswered
from events.records.hosts import HostCertified, HostInvited, HostRemovalRequested
from events.records.parts import Actor, Cause
from events.records.placement import HostRemoved
from events.records.pools import (
    CellConfigured,
    LockdownSet,
    PoolDefined,
    PoolRemoved,
    RoleBound,
    RoleUnbound,
    TokenIssued,
    TokenRevoked,
    TokenUsed,
)
from events.records.rounds import TimerPassed
from processors.entitlement.machine import Entitlement
from processors.runtime.driver import Driver
from processors.runtime.store import MemoryStore
from projections.access.grants import Granted, Lockdown
from projections.queries.access import bindings, certificates, granted, invitations, is_own, lockdowns, tokens
from projections.views import tables
from projections.views.access import KEPT_MS
from projections.views.projector import Projector, rebuild
from projections.views.rows import JobRow
from tests.helpers.drawn import seeds
from tests.helpers.signed import key_told, signed
from tests.helpers.written_cell import Cell, dump, job
from tests.processors.restored.histories import drawn_access

ANN = Actor(subject="ann", how="token", binding=7, read_to=9, credential="t-ann", reason="asked to")
HASH, OTHER = b"h" * 32, b"o" * 32


class World:
    """The facts of a cell whose entitlement is written by hand, and the views of it."""

    def __init__(self, folder: Path) -> None:
        self.cell = Cell()
        self.views = Projector(self.cell.log, folder)

    def done(self, fact: Event, code: str = "DONE") -> int:
        """A fact that is answered; returns its offset."""
        offset = self.cell.fact(fact)
        self.cell.decide("entitlement", PoolAnswered(path="/", pools_offset=offset, command_id="c", code=code))
        self.step()
        return offset

    def bind(self, key: str = "b", code: str = "DONE", **fields: object) -> int:
        fields = {"subject": "ann", "role": "viewer", "pool": "/maps", **fields}
        return self.done(RoleBound(command_id="c", binding_id=key, **fields), code)  # type: ignore[arg-type]

    def issue(self, key: str = "t", token_hash: bytes = HASH, **fields: object) -> int:
        fact = TokenIssued(command_id="c", token_id=key, subject="ci", token_hash=token_hash, **fields)  # type: ignore[arg-type]
        return self.done(fact)

    def wake(self, later_ms: int = 0) -> None:
        """Entitlement wakes after some time."""
        self.cell.ms += later_ms
        self.cell.decide("entitlement", TimerPassed(machine="entitlement", due_ms=self.cell.ms))
        self.step()

    def step(self) -> None:
        while self.views.step():
            pass

    def granted(self) -> Granted:
        with self.views.views.read() as connection:
            return granted(connection)

    def names(self) -> list[str]:
        return [each.binding_id for each in self.granted().bindings]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_binding_is_known_with_its_position_once_it_is_answered(world: World) -> None:
    until = world.cell.ms + 1000
    fact = RoleBound(command_id="c", binding_id="b", group="dev", role="admin", from_ms=5, until_ms=until, reason="new",
                     actor=ANN)  # fmt: skip
    offset = world.cell.fact(fact)
    world.step()
    assert world.names() == []
    world.cell.ms += 10
    world.cell.decide("entitlement", PoolAnswered(path="/", pools_offset=offset, command_id="c", code="DONE"))
    world.step()
    with world.views.views.read() as connection:
        [row] = bindings(connection)
    assert row.binding == Binding("b", offset, "", "dev", "admin", "/", 5, until)
    assert (row.reason, row.actor, row.at_ms) == ("new", ANN, world.cell.ms)
    assert world.granted().read_to == offset


def test_a_refused_binding_is_none(world: World) -> None:
    world.bind()
    world.bind(code="REPEATED")
    world.bind("other", code="NO_SUCH_POOL")
    assert world.names() == ["b"]


def test_a_binding_ends_by_a_fact_by_another_of_its_name_by_its_pool_and_by_its_time(world: World) -> None:
    first = world.bind()
    second = world.bind(role="admin")
    world.bind("of-pool", pool="/ads")
    world.bind("timed", pool="/", until_ms=world.cell.ms + 1000)
    assert next((each.binding_id, each.offset) for each in world.granted().bindings) == ("b", second) != ("b", first)
    world.done(PoolRemoved(path="/ads", command_id="c"))
    assert world.names() == ["b", "timed"]
    world.wake(999)
    assert world.names() == ["b", "timed"]
    world.wake(1)
    assert world.names() == ["b"]
    world.done(RoleUnbound(command_id="c", binding_id="b"))
    assert world.names() == []


def test_what_has_ended_is_dropped_after_a_while(world: World) -> None:
    world.bind()
    world.done(RoleUnbound(command_id="c", binding_id="b"))
    world.cell.ms += KEPT_MS
    for key in ("c", "d"):
        world.bind(key)
        world.done(RoleUnbound(command_id="c", binding_id=key))
        world.cell.ms += 1
    with world.views.views.read() as connection:
        assert [row.binding_id for row in connection.execute(tables.bindings.select())] == ["c", "d"]


def test_a_token_is_known_by_its_hash_also_after_it_was_revoked(world: World) -> None:
    until = world.cell.ms + 60_000
    world.issue(groups=("dev",), until_ms=until)
    token = world.granted().tokens[HASH]
    assert (token.token_id, token.subject, token.groups, token.until_ms, token.is_revoked) == (
        *("t", "ci", frozenset(("dev",))),
        *(until, False),
    )
    world.done(TokenRevoked(command_id="c", token_id="t"))
    assert world.granted().tokens[HASH].is_revoked


def test_a_token_that_holds_comes_before_a_revoked_one_of_its_hash(world: World) -> None:
    world.issue("b")
    world.issue("a")
    assert world.granted().tokens[HASH].token_id == "b"
    world.done(TokenRevoked(command_id="c", token_id="b"))
    assert (world.granted().tokens[HASH].token_id, world.granted().tokens[HASH].is_revoked) == ("a", False)


def test_a_public_key_is_listed_and_lets_nobody_in(world: World) -> None:
    world.issue(token_hash=b"", public_key=OTHER)
    assert world.granted().tokens == {}
    with world.views.views.read() as connection:
        assert [each.public_key for each in tokens(connection)] == [OTHER]


def test_the_last_use_of_a_token_is_that_of_its_own_time(world: World) -> None:
    def uses() -> list[int]:
        world.step()
        with world.views.views.read() as connection:
            return [each.last_used_ms for each in tokens(connection)]

    world.issue()
    assert uses() == [0]
    world.cell.ms += 1000
    world.cell.fact(TokenUsed(token_id="t"))
    used = world.cell.ms
    assert uses() == [used]
    world.done(TokenRevoked(command_id="c", token_id="t"))
    world.cell.ms += 1000
    world.issue(token_hash=OTHER)
    assert uses() == [used, 0]
    world.cell.ms += 1000
    world.cell.fact(TokenUsed(token_id="t"))
    assert uses() == [0, world.cell.ms]


def test_a_pool_is_locked_down_until_that_is_lifted_or_the_pool_is_removed(world: World) -> None:
    for pool in ("/", "/maps", "/ads"):
        world.done(LockdownSet(command_id="c", pool=pool, locked=True, reason="audit", actor=ANN))
    assert world.granted().lockdowns["/maps"] == Lockdown("audit", world.cell.ms, ANN)
    world.done(LockdownSet(command_id="c", pool="/maps", locked=False))
    world.done(PoolRemoved(path="/ads", command_id="c"))
    with world.views.views.read() as connection:
        assert [*lockdowns(connection)] == ["/"]


def test_what_a_host_joined_by_is_void_once_it_was_removed(world: World) -> None:
    def certificate(serial: str, **fields: str) -> None:
        now = world.cell.ms
        world.cell.fact(HostCertified(host_id="h", serial=serial, fingerprint="f", from_ms=now, until_ms=now + 5000,
                                      key=f"key of {serial}", **fields))  # fmt: skip
        world.step()

    def void() -> list[tuple[str, bool]]:
        world.step()
        with world.views.views.read() as connection:
            invited = [(each.serial, each.is_void) for each in invitations(connection)]
            return invited + [(each.serial, each.is_revoked) for each in certificates(connection)]

    world.cell.fact(HostInvited(host_id="h", invite_id="i", until_ms=world.cell.ms + 1000, actor=ANN))
    assert void() == [("", False)]
    certificate("01", invite_id="i")
    assert void() == [("01", False), ("01", False)]
    away = Cause(machine="placement", round=1, index=0)
    world.cell.decide("placement", HostRemoved(host_id="h", session=1, code="STAYED_AWAY", left_ms=9, cause=away))
    assert void() == [("01", False), ("01", False)]
    asked = world.cell.fact(HostRemovalRequested(host_id="h", command_id="c"))
    certificate("02", renews="01")  # written before the removal is decided, and of what it ends
    world.cell.fact(HostInvited(host_id="h", invite_id="j", until_ms=world.cell.ms + 1000, actor=ANN))
    certificate("03", invite_id="j")
    cause = Cause(topic="paceline.hosts", offset=asked)
    world.cell.decide("placement", HostRemoved(host_id="h", session=2, code="ASKED", left_ms=0, cause=cause))
    assert void() == [("01", True), ("03", False), ("01", True), ("02", True), ("03", False)]
    world.cell.ms += 4999
    certificate("04", renews="03")
    certificate("05", renews="03")  # with another key
    world.cell.ms += 2
    certificate("06", renews="04")
    assert void() == [("01", True), ("03", False), ("04", False), ("06", False)]


def test_readers_hear_when_something_changes_by_which_requests_are_allowed(world: World) -> None:
    def version() -> int:
        world.step()
        return world.views.views.access_version

    at = version()
    world.bind(until_ms=world.cell.ms + 10)
    at, before = version(), at
    assert at > before
    world.cell.fact(TokenUsed(token_id="t"))
    world.bind(code="REPEATED")
    world.done(PoolDefined(path="/maps", command_id="c"))
    world.wake(9)
    assert version() == at
    world.wake(1)
    at, before = version(), at
    assert at > before
    world.done(CellConfigured(command_id="c", access="roles"))
    assert version() > at
    assert world.granted().access == "roles"


def test_a_job_is_its_submitters_own_if_the_name_is_proven(world: World) -> None:
    world.done(key_told())
    names, keys = NameHashes(b"key"), world.granted().keys

    def submit(job_id: str, actor: Actor | None, signs: bool = False) -> JobRow:
        fact = replace(job(job_id), actor=actor)
        world.cell.fact(signed(fact) if signs else fact)
        world.step()
        return row_of(job_id)

    def row_of(job_id: str) -> JobRow:
        with world.views.views.read() as connection:
            return JobRow(*connection.execute(tables.jobs.select().where(tables.jobs.c.job_id == job_id)).one())

    jobs = [
        submit("a", ANN, signs=True),
        submit("b", Actor(subject="ann", how="header")),
        submit("c", None),
        submit("d", Actor(subject=names.of("ann"), how="token"), signs=True),
        submit("e", ANN),  # as anybody can claim who writes to Kafka
    ]
    assert [each.submitter for each in jobs] == ["ann", "ann", "", names.of("ann"), "ann"]
    assert [is_own(each, "ann", names, keys) for each in jobs] == [True, False, False, True, False]
    for other in ("bob", "", names.of("ann")):
        assert not any(is_own(each, other, names, keys) for each in jobs), other
    taken = signed(replace(job("x"), actor=ANN))
    world.cell.fact(replace(taken, job_id="f"))
    world.step()
    assert not is_own(row_of("f"), "ann", names, keys), "a signature of another job proves nothing of this one"
    world.done(TokenRevoked(command_id="r", token_id=key_told().token_id))
    assert not is_own(jobs[0], "ann", names, world.granted().keys), "a key that was revoked vouches for nothing"


@seeds(60, 6)
def test_the_views_know_of_bindings_and_tokens_what_entitlement_knows(seed: int, tmp_path: Path) -> None:
    """Whatever facts come, and wherever the projector starts again."""
    random, cell = Random(seed), Cell(machines=("lifecycle", "placement", "sla"))
    machine = Entitlement()
    driver = Driver(machine, cell.log, MemoryStore(), Clock(cell), "test")
    for _ in driver.recover():
        pass
    views = Projector(cell.log, tmp_path)
    for number in range(60):
        cell.ms += random.choice((0, 0, 700, 4000))
        cell.fact(drawn(random, cell.ms, number))
        is_quiet = random.random() < 0.7
        while is_quiet and driver.run():
            pass
        if random.random() < 0.1:
            views.close()
            views = Projector(cell.log, tmp_path)
        if random.random() < 0.5:
            follow(views)
            if is_quiet:
                check(machine, views.views.engine)
    while driver.run():
        pass
    follow(views)
    check(machine, views.views.engine)
    (tmp_path / "again").mkdir()
    again = rebuild(cell.log, tmp_path / "again")
    assert dump(again) == dump(views.views.engine)
    again.dispose()
    views.close()


class Clock:
    """The clock of a cell, as a driver looks at it."""

    def __init__(self, cell: Cell) -> None:
        self._cell = cell

    def monotonic_ms(self) -> int:
        return self._cell.ms


def drawn(random: Random, now: int, number: int) -> Event:
    """A fact of any kind that entitlement answers, about few names and pools."""
    path, command_id = random.choice(("/p", "/q")), f"c{number}"
    kind = random.randrange(10)
    if kind < 2:
        return PoolDefined(path=path, command_id=command_id)
    if kind == 2:
        return PoolRemoved(path=path, command_id=command_id)
    return drawn_access(random, now, ("/", "/p", "/q"), command_id)


def follow(views: Projector) -> None:
    while views.step():
        pass


def check(machine: Entitlement, engine: Engine) -> None:
    """Compares where both have read the same."""
    access = machine.commands.access
    with engine.connect() as connection:
        mine = granted(connection)
        live = tables.access_tokens.select().where(tables.access_tokens.c.ended_ms == 0)
        held = {row.token_id: row.offset for row in connection.execute(live)}
    assert {each.binding_id: each[1:] for each in mine.bindings} == {
        name: tuple(getattr(row, field) for field in Binding._fields[1:]) for name, row in access.bindings.items()
    }
    assert held == {name: row.offset for name, row in access.tokens.items()}
    assert {pool: each.reason for pool, each in mine.lockdowns.items()} == {
        pool: row.reason for pool, row in access.lockdowns.items()
    }


def test_nothing_is_read_again_where_nothing_changed(world: World) -> None:
    """As in processes whose views another one keeps: these don't say when something changes."""
    world.bind()
    before = world.granted()
    world.cell.submit()
    world.step()
    with world.views.views.read() as connection:
        assert granted(connection, before) is before
    world.done(RoleUnbound(command_id="c", binding_id="b"))
    with world.views.views.read() as connection:
        assert granted(connection, before).bindings == ()
