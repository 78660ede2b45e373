"""What the name of an actor is worth, in words and in answers."""

import pytest

from events import actors
from events.actors import named
from events.records.parts import Actor
from projections.actor_names import actor_json, from_kept, kept


@pytest.mark.parametrize(
    ("actor", "name"),
    [
        (Actor("ann", "oidc", credential="https://id.example"), "ann"),
        (Actor("ci-maps", "token", credential="t-3f2a"), "ci-maps (token t-3f2a)"),
        (Actor("ci-maps", "token", credential="t-" + "3" * 30), "ci-maps (token t-33333333333333…)"),
        (Actor("h17", "certificate", credential="4f"), "h17 (host certificate)"),
        (Actor("", "certificate"), "host certificate"),
        (Actor("job/tiles/task/7/run/3", "run"), "run 3 of tiles/7"),
        (Actor("job/a/b/task/7/run/3", "run"), "run 3 of a/b/7"),
        (Actor("ann", "header"), "ann (unverified)"),
        (Actor("", "session"), "a web session (unverified)"),
        (Actor("", "no such way"), "somebody (unverified)"),
    ],
)
def test_a_name_says_what_it_is_worth(monkeypatch, actor, name):
    monkeypatch.setattr(actors, "VERIFIED", frozenset(("oidc", "token", "certificate", "run")))
    assert named(actor) == name


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
