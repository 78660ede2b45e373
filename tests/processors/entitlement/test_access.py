"""Who may what: facts about bindings, tokens and lockdowns are answered, kept, and end by log time."""

from random import Random
from typing import NamedTuple

import pytest

from events.bounds import WORD_MAX
from events.codes import Code
from events.records.entitlement import PoolAnswered
from events.records.pools import LockdownSet, RoleBound, RoleUnbound, TokenIssued, TokenRevoked, TokenUsed
from processors.entitlement import access
from processors.entitlement.access_rows import AccessEvent, BindingRow
from tests.helpers.drawn import seeds
from tests.helpers.machines import of, one
from tests.processors.entitlement.harness import World, cpu

HASH = b"h" * 32


def ask(world: World, event: AccessEvent) -> PoolAnswered:
    return one(world.fact(event), PoolAnswered)


def bind(world: World, key: str = "b", command_id: str = "", **fields: object) -> PoolAnswered:
    fields = {"subject": "ann", "role": "viewer", "pool": "/maps"} | fields
    return ask(world, RoleBound(command_id=command_id or f"bind-{world.offset}", binding_id=key, **fields))


def unbind(world: World, key: str = "b") -> PoolAnswered:
    return ask(world, RoleUnbound(command_id=f"unbind-{world.offset}", binding_id=key))


def issue(world: World, key: str = "t", **fields: object) -> PoolAnswered:
    fields = {"subject": "ci", "token_hash": HASH} | fields
    return ask(world, TokenIssued(command_id=f"issue-{world.offset}", token_id=key, **fields))


def revoke(world: World, key: str = "t") -> PoolAnswered:
    return ask(world, TokenRevoked(command_id=f"revoke-{world.offset}", token_id=key))


def lock(world: World, pool: str = "/", locked: bool = True, reason: str = "") -> PoolAnswered:
    command_id = f"lock-{world.offset}"
    return ask(world, LockdownSet(command_id=command_id, pool=pool, locked=locked, reason=reason))


@pytest.fixture
def world() -> World:
    world = World(cpu(10))
    world.define("/maps")
    world.define("/far", cell=1)
    return world


def bindings(world: World) -> dict[str, BindingRow]:
    return dict(world.machine.commands.access.bindings.items())


def test_a_binding_is_kept_with_its_position_until_it_is_unbound(world: World) -> None:
    told = bind(world)
    assert (told.code, told.path) == (Code.DONE, "/maps")
    assert bindings(world) == {"b": BindingRow(world.offset, "ann", "", "viewer", "/maps", 0, 0)}
    world.restart()
    told = unbind(world)
    assert (told.code, told.path, bindings(world)) == (Code.DONE, "/maps", {})
    assert unbind(world).code == Code.NO_SUCH_BINDING


def test_a_role_is_bound_in_pools_of_other_cells_and_in_all_of_them_too(world: World) -> None:
    assert bind(world, pool="/far").code == Code.DONE
    assert bind(world, "c", pool="/").code == Code.DONE
    assert bind(world, "d", pool="/none").code == Code.NO_SUCH_POOL


def test_what_is_bound_again_is_a_repeat_and_another_binding_of_that_name_takes_its_place(world: World) -> None:
    assert bind(world, command_id="one").code == Code.DONE
    first = bindings(world)["b"]
    assert bind(world).code == Code.REPEATED
    assert bind(world, command_id="one", role="admin").code == Code.REPEATED, "this command was done before"
    assert bindings(world) == {"b": first}
    assert bind(world, role="admin").code == Code.DONE
    assert (bindings(world)["b"].role, bindings(world)["b"].offset) == ("admin", world.offset)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"role": "king"}, "role is 'king', it must be one of viewer, submitter"),
        ({"subject": ""}, "either subject or group must be named"),
        ({"group": "g"}, "either subject or group must be named"),
        ({"subject": "a" * 129}, "subject has 129 characters, 1 to 128"),
        ({"subject": "", "group": "a" * 257}, "group has 257 characters, 1 to 256"),
        ({"subject": "a\nb"}, "subject has characters that can't be shown"),
        ({"subject": "a\u202eb"}, "subject has characters that can't be shown"),
        ({"from_ms": 9_000_000_000_000, "until_ms": 9_000_000_000_000}, "until must be later than from"),
        ({"from_ms": -1}, "from_ms is -1"),
        ({"until_ms": 1 << 60}, "until_ms is"),
        ({"until_ms": 1}, "until is in the past already"),
        ({"key": "a/b"}, "binding_id is 'a/b'"),
        ({"command_id": "c" * (WORD_MAX + 1)}, "command_id has 257 characters"),
    ],
)
def test_a_binding_that_breaks_a_rule_is_refused_with_the_rule(
    world: World, fields: dict[str, object], fault: str
) -> None:
    told = bind(world, **fields)
    assert (told.code, told.message[: len(fault)], bindings(world)) == (Code.INVALID_ACCESS, fault, {})


def test_bindings_and_tokens_end_by_log_time_without_a_decision_of_their_own(world: World) -> None:
    until = world.now + 5_000
    bind(world, until_ms=until)
    bind(world, "stays")
    issue(world, until_ms=until)
    world.restart()
    assert world.machine.next_wakeup() is not None
    world.later(4_000)
    assert set(bindings(world)) == {"b", "stays"}
    said = world.later(2_000)
    assert set(bindings(world)) == {"stays"}
    assert not world.machine.commands.access.tokens
    assert not of(said, PoolAnswered)


def test_what_has_ended_is_not_there_though_the_machine_has_not_woken(world: World) -> None:
    bind(world, until_ms=world.now + 5_000)
    issue(world, until_ms=world.now + 5_000)
    world.now += 5_000
    assert unbind(world).code == Code.NO_SUCH_BINDING
    assert revoke(world).code == Code.NO_SUCH_TOKEN


def test_a_token_is_a_hash_or_a_key_and_gives_its_name_to_no_other(world: World) -> None:
    assert (issue(world).code, issue(world).code) == (Code.DONE, Code.REPEATED)
    told = issue(world, subject="eve")
    assert (told.code, told.message) == (Code.INVALID_ACCESS, "there is another token t; revoke it first")
    assert issue(world, "k", token_hash=b"", public_key=b"k" * 32, groups=("g",)).code == Code.DONE
    for fields in ({"token_hash": b"h"}, {"public_key": HASH}, {"token_hash": b""}):
        assert "must have 32 bytes" in issue(world, "x", **fields).message
    assert issue(world, "x", groups=("g",) * 65).code == Code.INVALID_ACCESS
    assert issue(world, "x", groups=("",)).code == Code.INVALID_ACCESS
    assert issue(world, "x", subject="").code == Code.INVALID_ACCESS
    assert (revoke(world).code, revoke(world).code) == (Code.DONE, Code.NO_SUCH_TOKEN)
    assert issue(world, subject="eve").code == Code.DONE


def test_a_use_of_a_token_is_not_answered(world: World) -> None:
    issue(world)
    assert world.fact(TokenUsed(token_id="t")) == []


def test_a_pool_is_locked_down_in_its_own_cell(world: World) -> None:
    assert lock(world, "/maps", reason="an audit").code == Code.DONE
    assert lock(world, "/maps", reason="an audit").code == Code.REPEATED
    assert lock(world, "/maps", reason="a breach").code == Code.DONE
    assert lock(world).code == Code.DONE
    assert set(world.machine.commands.access.lockdowns) == {"/maps", "/"}
    assert lock(world, "/far").code == Code.WRONG_CELL
    assert lock(world, "/none").code == Code.NO_SUCH_POOL
    assert lock(world, reason="x" * 5_000).code == Code.INVALID_ACCESS
    world.restart()
    assert lock(world, "/maps", locked=False).code == Code.DONE
    assert lock(world, "/maps", locked=False).code == Code.REPEATED


def test_what_was_said_of_a_pool_ends_with_it(world: World) -> None:
    bind(world, until_ms=world.now + 60_000)
    bind(world, "far", pool="/far")
    bind(world, "all", pool="/")
    lock(world, "/maps")
    world.remove("/maps")
    assert set(bindings(world)) == {"far", "all"}
    world.define("/maps")
    assert not world.machine.commands.access.lockdowns, "whose pool it is now wasn't locked down"
    world.remove("/far")
    assert set(bindings(world)) == {"all"}
    world.later(61_000)


def test_a_cell_keeps_so_many_bindings_and_tokens(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "BINDINGS_MAX", 2)
    monkeypatch.setattr(access, "TOKENS_MAX", 1)
    assert [bind(world, key).code for key in "abc"] == [Code.DONE, Code.DONE, Code.INVALID_ACCESS]
    assert bind(world, "b", role="admin").code == Code.DONE, "one takes the place of another"
    assert [issue(world, key).code for key in "ab"] == [Code.DONE, Code.INVALID_ACCESS]
    unbind(world, "a")
    assert bind(world, "c").code == Code.DONE


def test_facts_that_come_at_once_are_answered_each_after_the_one_before(world: World) -> None:
    facts = [
        RoleBound(command_id="1", binding_id="b", subject="ann", role="viewer", pool="/maps"),
        RoleBound(command_id="2", binding_id="b", subject="ann", role="viewer", pool="/maps"),
        RoleUnbound(command_id="3", binding_id="b"),
        RoleUnbound(command_id="4", binding_id="b"),
        RoleBound(command_id="3", binding_id="b", subject="ann", role="viewer", pool="/maps"),
    ]
    said = of(world.take("paceline.pools", *facts), PoolAnswered)
    assert [each.code for each in said] == ["DONE", "REPEATED", "DONE", "NO_SUCH_BINDING", "REPEATED"]


class Rule(NamedTuple):
    """What the naive twin knows of a binding."""

    offset: int
    content: tuple[object, ...]
    pool: str
    until_ms: int


@seeds(60, 6)
def test_bindings_are_those_of_a_naive_twin(seed: int) -> None:
    """It knows facts alone, and looks at all of them."""
    random, world, twin = Random(seed), World(), dict[str, Rule]()
    pools = {"/"}
    for _ in range(80):
        key, pool = random.choice("abc"), random.choice(("/", "/p", "/q"))
        there = {name: rule for name, rule in twin.items() if not rule.until_ms or world.now < rule.until_ms}
        step = random.randrange(6)
        if step == 0:
            done = world.define(pool).code == Code.DONE
            pools |= {pool} if done else set()
        elif step == 1 and pool != "/":
            assert (world.remove(pool).code == Code.DONE) == (pool in pools)
            pools -= {pool}
            twin = {name: rule for name, rule in twin.items() if rule.pool != pool}
        elif step in (2, 3):
            until = random.choice((0, world.now + random.randrange(1, 9_000)))
            content = (random.choice(("ann", "bob")), random.choice(("viewer", "admin")), pool, until)
            told = bind(world, key, subject=content[0], role=content[1], pool=pool, until_ms=until)
            same = key in there and there[key].content == content
            expected = Code.NO_SUCH_POOL if pool not in pools else Code.REPEATED if same else Code.DONE
            assert told.code == expected
            if told.code == Code.DONE:
                twin[key] = Rule(world.offset, content, pool, until)
        elif step == 4:
            assert (unbind(world, key).code == Code.DONE) == (key in there)
            twin.pop(key, None)
        else:
            world.later(random.randrange(1, 6_000))
        if random.random() < 0.1:
            world.restart()
        mine = {
            name: row.offset for name, row in bindings(world).items() if not row.until_ms or world.now < row.until_ms
        }
        assert mine == {
            name: rule.offset for name, rule in twin.items() if not rule.until_ms or world.now < rule.until_ms
        }
