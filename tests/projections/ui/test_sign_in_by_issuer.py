"""Signing in by an issuer: the code flow of pages, with a real provider."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from starlette.testclient import TestClient

from events.records.entitlement import PoolAnswered
from events.records.pools import CellConfigured, RoleBound
from projections.access.issuer import Issuer
from projections.access.sign_in import FLOW_S, SignIn
from projections.ui.app import add_ui
from projections.ui.sessions import USER_BYTES_MAX
from tests.helpers.issuer import Provider, provider
from tests.projections.conftest import LISTEN, TOKEN, Api

pytestmark = pytest.mark.outside
BACK = f"http://{LISTEN}/ui/sign-in/back"


class Pages:
    """A browser that follows no redirects, over the pages of a cell with an issuer."""

    def __init__(self, folder: Path, issuer: Provider, secret: str = "") -> None:
        self.issuer = issuer
        self.api = Api(folder)
        self.now_s = time.time
        sign_in = SignIn(
            Issuer(issuer.url, "", client_id="paceline", client_secret=secret), TOKEN, now=lambda: self.now_s()
        )
        add_ui(self.api.app, {0: self.api.app.state.context}, TOKEN, sign_in)
        self.browser = self.another()

    def another(self) -> TestClient:
        return TestClient(self.api.app, f"http://{LISTEN}", follow_redirects=False)

    def begin(self, then: str = "/ui/jobs") -> str:
        """Begins a sign-in; returns the address of the issuer."""
        answer = self.browser.get("/ui/sign-in/issuer", params={"next": then})
        assert answer.status_code == 303, answer.text
        cookie = answer.headers["set-cookie"].lower()
        assert all(part in cookie for part in ("httponly", "samesite=lax", "path=/ui/sign-in;", f"max-age={FLOW_S}"))
        return answer.headers["location"]

    def allow(self, address: str, subject: str = "ann") -> str:
        """Signs in at the issuer; returns where that sends the browser."""
        answer = httpx2.post(address, data={"sub": subject})
        assert answer.status_code == 302, answer.text
        return answer.headers["location"]


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[Pages]:
    with provider() as issuer:
        found = Pages(tmp_path, issuer)
        yield found
        found.api.close()


def test_who_signs_in_at_the_issuer_is_named_on_each_page_until_they_sign_out(pages: Pages) -> None:
    assert f"Sign in at 127.0.0.1:{pages.issuer.port}" in pages.browser.get("/ui/sign-in?next=/ui/jobs").text
    back = pages.browser.get(pages.allow(pages.begin("/ui/jobs?state=x")))
    assert (back.status_code, back.headers["refresh"]) == (200, "0; url=/ui/jobs?state=x")
    cookie = back.headers["set-cookie"].lower()
    assert all(part in cookie for part in ("httponly", "samesite=strict", "path=/ui;"))
    page = pages.browser.get("/ui/jobs").text
    assert ">ann</span>" in page
    csrf = re.search(r'name="csrf" value="(\w+)"', page)[1]
    assert pages.browser.post("/ui/sign-out", data={"csrf": csrf}).status_code == 303
    assert ">ann</span>" not in pages.browser.get("/ui/jobs").text


def test_a_sign_in_counts_in_the_browser_alone_that_began_it_and_once(pages: Pages) -> None:
    location = pages.allow(pages.begin())
    assert pages.another().get(location).status_code == 403
    assert pages.browser.get(location.replace("state=", "state=x")).status_code == 403
    assert pages.browser.get(location).status_code == 200
    again = pages.browser.get(location)
    assert again.status_code == 403
    assert "set-cookie" not in again.headers


def test_the_token_of_another_sign_in_is_refused(pages: Pages) -> None:
    """Somebody gives a victim's browser a code of their own: the nonce is another's."""
    own = pages.allow(pages.begin(), "bob")
    address = pages.begin()
    other = httpx2.URL(pages.allow(address)).copy_set_param("code", httpx2.URL(own).params["code"])
    answer = pages.browser.get(str(other))
    assert answer.status_code == 403
    assert "paceline_session" not in answer.headers.get("set-cookie", "")


def test_a_sign_in_that_took_too_long_is_begun_again(pages: Pages) -> None:
    location = pages.allow(pages.begin())
    pages.now_s = lambda: time.time() + FLOW_S + 1
    assert pages.browser.get(location).status_code == 403


@pytest.mark.parametrize("then", ["https://evil.example/", "//evil.example", "/ui/\\evil", "/ui/sign-in/back", ""])
def test_the_sign_in_leads_to_pages_of_the_cell_alone(pages: Pages, then: str) -> None:
    back = pages.browser.get(pages.allow(pages.begin(then)))
    assert back.headers["refresh"] == "0; url=/ui/"


def test_who_is_refused_at_the_issuer_reads_why(pages: Pages) -> None:
    answer = httpx2.post(pages.begin(), data={"action": "deny"})
    page = pages.browser.get(httpx2.URL(BACK).join(answer.headers["location"]).copy_set_param("error", "access_denied"))
    assert page.status_code == 403


def test_a_session_ends_with_the_token_of_the_issuer(tmp_path: Path) -> None:
    with provider(life_s=600) as issuer:
        pages = Pages(tmp_path, issuer)
        cookie = pages.browser.get(pages.allow(pages.begin())).headers["set-cookie"]
        assert 590 <= int(re.search(r"Max-Age=(\d+)", cookie)[1]) <= 600
        pages.api.close()


def test_a_user_of_more_groups_than_a_cookie_holds_is_told(pages: Pages) -> None:
    groups = [f"{number * 2654435761 % 2**32:08x}-{number:04d}" for number in range(USER_BYTES_MAX // 6)]
    httpx2.put(f"{pages.issuer.url}/users/eve", json={"groups": groups})
    answer = pages.browser.get(pages.allow(pages.begin(), "eve"))
    assert answer.status_code == 403
    assert f"{len(groups)} groups" in answer.text


def test_an_issuer_that_is_away_is_said(pages: Pages) -> None:
    pages.issuer.away = True
    assert pages.browser.get("/ui/sign-in/issuer").status_code == 503
    assert pages.browser.get("/ui/sign-in").status_code == 200, "the token of the cell still signs in"


def test_a_cell_without_an_issuer_has_no_such_sign_in(tmp_path: Path) -> None:
    api = Api(tmp_path)
    add_ui(api.app, {0: api.app.state.context}, TOKEN)
    client = TestClient(api.app, f"http://{LISTEN}", follow_redirects=False)
    assert client.get("/ui/sign-in/issuer").status_code == 404
    assert client.get("/v1/sign-in").json() == {"issuer": "", "client_id": "", "scopes": ""}
    api.close()


def test_the_api_takes_tokens_of_the_issuer_and_says_where_to_get_them(pages: Pages) -> None:
    client = pages.another()
    assert client.get("/v1/sign-in").json() == {"issuer": pages.issuer.url, "client_id": "paceline", "scopes": "openid"}
    token = {"Authorization": f"Bearer {pages.issuer.token()}"}
    assert client.get("/v1/jobs", headers=token).status_code == 200
    assert client.get("/v1/jobs", headers={"Authorization": token["Authorization"][:-3]}).status_code == 401


def test_a_role_of_a_group_lets_its_members_write_and_read_and_nobody_else(pages: Pages) -> None:
    api = pages.api
    for path in ("/maps", "/ads"):
        api.pool(path)
    for fact in (
        RoleBound(command_id="1", binding_id="maps", group="maps", role="submitter", pool="/maps"),
        CellConfigured(command_id="2", access="roles"),
    ):
        at = api.cell.fact(fact)
        api.cell.decide("entitlement", PoolAnswered(path="/", pools_offset=at, command_id=fact.command_id, code="DONE"))
    api.fold()
    client = pages.another()

    def status(subject: str, pool: str) -> int:
        job = {"job_id": f"{subject}-{pool}", "pool": f"/{pool}", "command": ["true"], "resources": {"cpu": "1m"}}
        token = {"Authorization": f"Bearer {pages.issuer.token(subject)}"}
        return client.post("/v1/jobs", json=job, headers=token).status_code

    assert (status("ann", "maps"), status("bob", "maps"), status("ann", "ads")) == (202, 422, 422)
    assert client.get("/v1/jobs").status_code == 401
    assert client.get("/v1/sign-in").json()["client_id"] == "paceline"
    pages.browser.get(pages.allow(pages.begin()))
    page = pages.browser.get("/ui/pools").text
    assert ("/maps" in page, "/ads" in page) == (True, False)


def test_pages_sign_in_by_a_confidential_client_and_commands_are_not_told_of_it(tmp_path: Path) -> None:
    with provider() as issuer:
        pages = Pages(tmp_path, issuer, "a secret: of the client")
        assert pages.browser.get(pages.allow(pages.begin())).status_code == 200
        told = pages.browser.get("/v1/sign-in")
        assert (told.json()["client_id"], "a secret" in told.text) == ("", False)
        pages.api.close()
