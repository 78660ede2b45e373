"""Who may what, from bindings alone."""

import pytest

from events.access import EVERYBODY, Binding, allowing, covers, readable
from events.roles import ROLES, Verb, roles_with


def binding(
    role: str, pool: str = "/", subject: str = "ann", group: str = "", from_ms: int = 0, until_ms: int = 0
) -> Binding:
    return Binding(f"{subject}{group}{role}{pool}", 7, subject, group, role, pool, from_ms, until_ms)


def test_a_binding_covers_a_pool_and_all_below_it_alone() -> None:
    assert covers("/", "/maps")
    assert covers("/maps", "/maps")
    assert covers("/maps", "/maps/tiles")
    assert not covers("/maps", "/mapsets")
    assert not covers("/maps/tiles", "/maps")


def test_it_holds_from_its_beginning_to_its_end() -> None:
    bound = binding("viewer", from_ms=10, until_ms=20)
    assert [bound.holds(now) for now in (9, 10, 19, 20)] == [False, True, True, False]
    assert allowing([bound], Verb.READ, "/maps", False, 15) is bound
    assert allowing([bound], Verb.READ, "/maps", False, 20) is None


def test_a_submitter_changes_own_jobs_alone() -> None:
    bound = binding("submitter", "/maps")
    assert allowing([bound], Verb.SUBMIT, "/maps/tiles", False, 0) is bound
    assert allowing([bound], Verb.CHANGE, "/maps", False, 0) is None
    assert allowing([bound], Verb.CHANGE, "/maps", True, 0) is bound
    assert allowing([bound], Verb.CHANGE, "/ads", True, 0) is None


def test_who_has_a_binding() -> None:
    assert binding("viewer").is_of("ann", ())
    assert not binding("viewer").is_of("bob", ("ann",))
    assert binding("viewer", subject="", group="crew").is_of("", ("crew",))
    assert binding("viewer", subject="", group=EVERYBODY).is_of("", ())
    assert not binding("viewer", subject="", group="crew").is_of("crew", ())


@pytest.mark.parametrize(
    ("pools", "expected"),
    [((), ()), (("/maps", "/maps/tiles", "/ads"), ("/ads", "/maps")), (("/maps", "/"), None)],
)
def test_what_bindings_let_read(pools: tuple[str, ...], expected: tuple[str, ...] | None) -> None:
    assert readable([binding("viewer", pool) for pool in pools], 0) == expected


def test_each_verb_but_those_of_runs_has_a_role() -> None:
    assert [verb for verb in Verb if not roles_with(verb, own=True)] == [Verb.GROW]
    assert all(role.verbs <= set(Verb) and role.own <= set(Verb) for role in ROLES.values())
