"""The page Access: roles, tokens, lockdowns and what ended, as far as its reader may see; banners of lockdowns."""

from hashlib import sha256
from html import unescape

import pytest

from events.codec import decode
from events.records.entitlement import PoolAnswered
from events.records.parts import Actor
from events.records.pools import (
    CellConfigured,
    LockdownSet,
    PoolDefined,
    RoleBound,
    RoleUnbound,
    TokenIssued,
    TokenRevoked,
    TokenUsed,
)
from tests.projections.ui.sites import Rows
from tests.projections.ui.views import Pages, pages

ANN = Actor("ann", "environment", "::1")
TOKEN = "pct_t-ci_" + "x" * 43
READER = {"Authorization": f"Bearer {TOKEN}"}


def done(shown: Pages, fact) -> None:
    at = shown.cell.fact(fact)
    path = getattr(fact, "path", "/")
    shown.cell.decide("entitlement", PoolAnswered(path=path, pools_offset=at, command_id="c", code="DONE"))
    shown.cell.ms += 1000


@pytest.fixture
def shown(tmp_path):
    with pages(tmp_path) as shown:
        for path in ("/maps", "/secret"):
            done(shown, PoolDefined(path=path, command_id="c"))
        done(shown, RoleBound(command_id="1", binding_id="ci", subject="ci", role="viewer", pool="/maps", actor=ANN))
        done(shown, RoleBound(command_id="2", binding_id="crew", group="crew", role="operator", reason="on <b>call"))
        done(shown, RoleBound(command_id="3", binding_id="all", group="everybody", role="viewer", pool="/maps"))
        done(shown, RoleBound(command_id="4", binding_id="spy", subject="zoe", role="submitter", pool="/secret"))
        done(shown, RoleBound(command_id="5", binding_id="old", subject="bob", role="admin"))
        done(shown, RoleUnbound(command_id="6", binding_id="old"))
        digest = sha256(TOKEN.encode()).digest()
        done(shown, TokenIssued(command_id="7", token_id="t-ci", subject="ci", token_hash=digest, actor=ANN))
        done(shown, TokenIssued(command_id="8", token_id="t-old", subject="bob", token_hash=bytes(32)))
        done(shown, TokenRevoked(command_id="9", token_id="t-old"))
        shown.cell.fact(TokenUsed(token_id="t-ci"))
        shown.fold()
        yield shown


def test_the_page_shows_who_has_which_role_and_which_tokens_there_are(shown):
    page = shown.page("/access")
    roles = Rows(page).of("binding:")
    assert {name: cells[:3] for name, cells in roles.items()} == {
        "ci": ["ci", "viewer", "/maps"],
        "crew": ["group crew", "operator", "/"],
        "all": ["everybody", "viewer", "/maps"],
        "spy": ["zoe", "submitter", "/secret"],
    }
    assert roles["ci"][6] == "ann (unverified)"
    assert "on <b>call" in unescape(page)
    assert "on <b>call" not in page
    tokens = Rows(page).of("token:")
    assert list(tokens) == ["t-ci"]
    assert tokens["t-ci"][1] == "ci"
    assert "Z" in tokens["t-ci"][4], "its last use"
    ended = [cells[:2] for cells in (Rows(page).of("ended:") | Rows(page).of("over:")).values()]
    assert ended == [["bob", "admin of /"], ["bob", "token t-old"]]
    assert TOKEN not in page
    assert "Whoever reaches this address reads" in page


def test_a_cell_where_nothing_was_given_says_so(tmp_path):
    with pages(tmp_path) as shown:
        shown.fold()
        page = shown.page("/access")
    assert "No role is bound: only the token of the cell lets anybody write." in page
    assert "No token was made for anybody" in page
    assert "Nothing is locked down." in page


def test_a_limited_reader_sees_roles_of_its_pools_alone_and_no_tokens(shown):
    done(shown, CellConfigured(command_id="r", access="roles"))
    done(shown, LockdownSet(command_id="l", pool="/secret", locked=True, reason="hush"))
    shown.fold()
    page = shown.client.get("/ui/access", headers=READER).text
    assert set(Rows(page).of("binding:")) == {"ci", "all"}
    assert Rows(page).of("token:") == {}
    assert "What you may not read is left out, if there is any." in page
    for word in ("zoe", "/secret", "hush", "t-old", "bob"):
        assert word not in page, word


def test_a_lockdown_stands_on_every_page_with_who_and_why_until_it_is_lifted(shown):
    done(shown, LockdownSet(command_id="1", pool="/", locked=True, reason="move <of> racks", actor=ANN))
    done(shown, LockdownSet(command_id="2", pool="/maps", locked=True, reason="quota"))
    shown.fold()
    for path in (
        "/",
        "/jobs",
        "/pools",
        "/hosts",
        "/log",
        "/operations",
        "/access",
        "/no-such-page?at=0/paceline.jobs:0",
    ):
        page = unescape(shown.client.get(f"/ui{path}").text)
        assert "The cell is locked down</b>" in page, path
        assert "by ann (unverified): move <of> racks." in page
        assert "Pool /maps is locked down</b>" in page
    assert list(Rows(shown.page("/access")).of("lockdown:")) == ["0:/", "0:/maps"]
    for pool in ("/", "/maps"):
        done(shown, LockdownSet(command_id=pool, pool=pool, locked=False))
    shown.fold()
    assert "locked down</b>" not in shown.page("/jobs")


def test_a_role_is_bound_from_the_page_and_what_is_wrong_is_said_beside_what_was_typed(shown):
    csrf = shown.sign_in()
    form = {"csrf": csrf, "of_cell": "0", "subject": "eve", "role": "viewer", "pool": "/map", "reason": "new"}
    wrong = shown.browser.post("/ui/access/bind", data=form)
    assert wrong.status_code == 422
    assert "there is no pool /map" in unescape(wrong.text)
    assert 'value="eve"' in wrong.text
    assert "a reason is needed" in shown.browser.post("/ui/access/bind", data=form | {"reason": " "}).text
    done = shown.browser.post("/ui/access/bind", data=form | {"pool": "/maps"})
    assert (done.status_code, done.headers["location"]) == (303, "/ui/access?cell=0")
    fact = decode(list(shown.cell.log.scan("paceline.pools", 0))[-1].value)
    assert (fact.subject, fact.role, fact.pool, fact.reason) == ("eve", "viewer", "/maps", "new")


@pytest.mark.parametrize(
    ("change", "name", "expected"),
    [
        ("unbind", "spy", {"binding_id": "spy"}),
        ("revoke", "t-ci", {"token_id": "t-ci"}),
        ("lock", "/maps", {"pool": "/maps", "locked": True}),
        ("unlock", "/", {"pool": "/", "locked": False}),
    ],
)
def test_what_was_given_is_taken_back_from_the_page_with_a_reason(shown, change, name, expected):
    csrf = shown.sign_in()
    assert f'action="/ui/access/{change}"' in shown.page(f"/access/{change}?name={name}")
    form = {"csrf": csrf, "of_cell": "0", "name": name, "reason": "moved"}
    assert shown.browser.post(f"/ui/access/{change}", data=form).status_code == 303
    fact = decode(list(shown.cell.log.scan("paceline.pools", 0))[-1].value)
    assert fact.reason == "moved"
    assert {field: getattr(fact, field) for field in expected} == expected
    assert shown.client.post(f"/ui/access/{change}", data=form).status_code == 401
