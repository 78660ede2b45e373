"""The proofs of who makes a request: what each is worth, and what becomes of wrong ones."""

import asyncio
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import pytest
from starlette.datastructures import Headers

from events import wrong_tokens
from events.access import Binding
from projections.access.authentication import Authentication
from projections.access.grants import Granted, Grants, IssuedToken, now_ms
from projections.access.identity import Identity
from projections.api.problems import Problem
from projections.views.reader import ViewsAway

CELL = "token-of-the-cell"
RIGHT, OLD, REVOKED = "pct_t1_right", "pct_t2_old", "pct_t3_revoked"
SCOPE = {"type": "http", "path": "/v1/jobs", "client": ("10.0.0.1", 1)}


class Views:
    """Views whose version a test sets, and that count how often they are read."""

    def __init__(self) -> None:
        self.access_version = 0
        self.reached: Any = {}
        self.reads = 0
        self.away = False

    @contextmanager
    def read_all(self):
        if self.away:
            raise ViewsAway("the file is away")
        self.reads += 1
        yield None


def issued(token: str, token_id: str, **more: Any) -> dict[bytes, IssuedToken]:
    return {sha256(token.encode()).digest(): IssuedToken(token_id, "ci", frozenset(), **more)}


class Cell:
    """A cell with tokens and a binding of `ci`; `granted` is what its views have."""

    def __init__(self, access: str = "open") -> None:
        tokens = issued(RIGHT, "t1") | issued(OLD, "t2", until_ms=1) | issued(REVOKED, "t3", is_revoked=True)
        bindings = (Binding("b1", 7, "ci", "", "submitter", "/maps", 0, 0),)
        self.granted = Granted(bindings=bindings, tokens=tokens, access=access)
        self.views = Views()
        grants = Grants(self.views, lambda connection, _: self.granted)  # type: ignore[arg-type]
        self.authentication = Authentication(CELL, grants)

    def who(self, token: str | None) -> Identity:
        headers = Headers({} if token is None else {"Authorization": f"Bearer {token}"})
        return asyncio.run(self.authentication.identify(dict(SCOPE), headers))

    def refused(self, token: str) -> Problem:
        with pytest.raises(Problem) as raised:
            self.who(token)
        assert raised.value.status in (401, 429)
        return raised.value


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The delays, which no test waits for."""
    seconds_waited: list[float] = []

    async def sleep(seconds: float) -> None:
        seconds_waited.append(seconds)

    monkeypatch.setattr(wrong_tokens, "sleep", sleep)
    return seconds_waited


def test_the_token_of_the_cell_does_everything_and_asks_no_views():
    cell = Cell("roles")
    assert cell.who(CELL).is_cell
    assert cell.views.reads == 0


def test_an_issued_token_proves_its_subject_and_nothing_more():
    who = Cell().who(RIGHT)
    assert (who.subject, who.how, who.credential, who.is_cell, who.reads) == ("ci", "token", "t1", False, None)


def test_with_roles_a_subject_reads_where_it_has_one_and_nobody_reads_nothing():
    cell = Cell("roles")
    assert cell.who(RIGHT).reads == ("/maps",)
    assert cell.who(None).reads == ()
    assert cell.who(None).is_nobody


def test_in_an_open_cell_nobody_reads_everything():
    assert Cell().who(None).reads is None


@pytest.mark.parametrize(
    ("token", "code"),
    [(OLD, "TOKEN_EXPIRED"), (REVOKED, "TOKEN_REVOKED"), ("pct_t1_wrong", "TOKEN_NEEDED"), ("x", "TOKEN_NEEDED")],
)
def test_a_token_that_proves_nothing_is_refused_with_what_to_do(token, code):
    problem = Cell().refused(token)
    assert problem.code == code
    assert problem.headers["WWW-Authenticate"].startswith("Bearer")
    assert token not in problem.detail


def test_a_token_ends_when_its_time_is_over(monkeypatch):
    cell = Cell()
    cell.granted = Granted(tokens=issued(RIGHT, "t1", until_ms=now_ms() + 3_600_000))
    assert cell.who(RIGHT).subject == "ci"
    later = now_ms() + 3_600_000
    monkeypatch.setattr("projections.access.authentication.now_ms", lambda: later)
    assert cell.refused(RIGHT).code == "TOKEN_EXPIRED"


def test_views_are_read_again_only_where_grants_have_changed():
    cell = Cell()
    for _ in range(3):
        cell.who(RIGHT)
    assert cell.views.reads == 1
    cell.granted, cell.views.access_version = Granted(), 1
    assert cell.refused(RIGHT).code == "TOKEN_NEEDED"
    assert cell.views.reads == 2


def test_wrong_tokens_are_answered_later_each_time_and_right_ones_at_once(waits):
    cell = Cell()
    for number in range(9):
        cell.refused(f"guess-{number}")
        cell.who(RIGHT)
    assert waits == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]


def test_provers_are_asked_in_their_order_until_one_knows():
    class Knows:
        def __init__(self, subject: str) -> None:
            self.subject = subject

        async def prove(self, scope: Any, headers: Headers) -> Identity | None:
            return Identity(self.subject, how="oidc") if self.subject else None

    cell = Cell("roles")
    cell.authentication.provers += [Knows(""), Knows("ci"), Knows("ann")]
    assert (cell.who("from.an.issuer").subject, cell.who("from.an.issuer").reads) == ("ci", ("/maps",))


def test_grants_that_can_t_be_read_stay_as_they_were_known() -> None:
    views = Views()
    grants = Grants(views, lambda *_: Granted(access="roles"))
    assert grants.now().access == "roles"
    views.away, views.access_version = True, 1
    assert grants.now().access == "roles"
    assert Grants(views, lambda *_: Granted(access="roles")).now() == Granted()
