"""What the name of an actor is worth, in words and in answers."""

from contextvars import Context

import msgspec
import pytest

from events.records.parts import Actor
from events.signatures import CELL, PublicKey
from projections.access.identity import as_asked
from projections.actor_names import actor_json, from_kept, kept, named, vouched_by

KEY, OTHER = bytes(32), bytes(range(32))
CELLS, PRODUCERS = PublicKey("key-1", CELL, KEY), PublicKey("t-3f2a", "ci-maps", OTHER)


@pytest.mark.parametrize(
    ("actor", "name"),
    [
        (Actor("ann", "oidc", credential="https://id.example"), "ann"),
        (Actor("ci-maps", "token", credential="t-3f2a"), "ci-maps (token t-3f2a)"),
        (Actor("ci-maps", "token", credential="t-" + "3" * 30), "ci-maps (token t-33333333333333…)"),
        (Actor("h17", "certificate", credential="4f"), "h17 (certificate)"),
        (Actor("job/tiles/task/7/run/3", "run"), "run 3 of tiles/7"),
        (Actor("job/a/b/task/7/run/3", "run"), "run 3 of a/b/7"),
        (Actor("ann", "header"), "ann (unverified)"),
        (Actor("", "session"), "a web session (unverified)"),
        (Actor("", "no such way"), "somebody (unverified)"),
    ],
)
def test_a_name_says_what_it_is_worth(actor, name):
    vouched_by(lambda: {KEY: CELLS})
    assert named(msgspec.structs.replace(actor, signature=KEY + b"s")) == name
    assert named(from_kept(kept(msgspec.structs.replace(actor, signature=KEY + b"s")))) == name


@pytest.mark.parametrize("signature", [b"", OTHER + b"s", b"t" * 96])
def test_a_name_that_no_key_of_the_cell_has_signed_is_not_verified(signature):
    vouched_by(lambda: {KEY: CELLS, OTHER: PRODUCERS})
    assert named(Actor("ann", "token", credential="t-3f2a", signature=signature)) == "ann (unverified)"


def test_the_key_of_a_producer_vouches_for_its_own_name():
    vouched_by(lambda: {OTHER: PRODUCERS})
    assert named(Actor("ci-maps", "token", credential="t-3f2a", signature=OTHER + b"s")) == "ci-maps (token t-3f2a)"


def test_what_is_shown_later_is_shown_by_the_keys_of_who_asked():
    vouched_by(lambda: {KEY: CELLS})
    look = as_asked(lambda: named(Actor("ann", "oidc", signature=KEY + b"s")))
    assert [Context().run(look) for _ in range(2)] == ["ann", "ann"]


def test_answers_have_all_of_an_actor_with_the_position_of_its_binding():
    actor = Actor("ann", "header", "10.0.0.7", 41, 57, "t-3f", "year's end", b"s")
    assert actor_json(actor) == {
        "name": "ann (unverified)",
        "subject": "ann",
        "how": "header",
        "credential": "t-3f",
        "binding": "paceline.pools:41",
        "read_to": 57,
        "address": "10.0.0.7",
        "reason": "year's end",
        "verified": False,
    }
    assert actor_json(from_kept(kept(actor))) == actor_json(actor)
    assert actor_json(Actor("", "api", binding=0))["binding"] == "paceline.pools:0"
