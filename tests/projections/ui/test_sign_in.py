"""Signing in: who may send forms."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from events import wrong_tokens
from projections.ui import app as ui
from projections.ui.app import add_ui
from projections.ui.scene import Action, Page, Sent, Shown
from projections.ui.sessions import SESSION_S
from tests.projections.conftest import LISTEN, TOKEN, Api

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
SENT: list[dict[str, list[str]]] = []


async def _carry_out(sent: Sent) -> Shown | str:
    SENT.append(sent.form)
    return f"/ui/jobs?done={sent.path['name']}"


@pytest.fixture
def client(tmp_path: Path, monkeypatch) -> Iterator[TestClient]:
    """A browser that follows no redirects, over a cell with a form."""
    SENT.clear()
    page = Page(
        "/tries/{name}", "sign_in.html", lambda _: {"next": "", "wrong": False, "issuer": ""}, "", for_writing=True
    )
    monkeypatch.setattr(ui, "PAGES", (*ui.PAGES, page))
    monkeypatch.setattr(ui, "ACTIONS", (Action("/tries/{name}", _carry_out, ""),))
    api = Api(tmp_path)
    add_ui(api.app, {0: api.app.state.context}, TOKEN)
    yield TestClient(api.app, f"http://{LISTEN}", follow_redirects=False)
    api.close()


def signed_in(client: TestClient) -> str:
    """Signs in; returns what forms must carry."""
    assert client.post("/ui/sign-in", data={"token": TOKEN}).status_code == 303
    return re.search(r'name="csrf" value="(\w+)"', client.get("/ui/jobs").text)[1]


def test_a_page_for_writing_leads_to_the_sign_in_and_back(client: TestClient) -> None:
    asked = client.get("/ui/tries/a?b=%2F")
    assert asked.status_code == 303
    sign_in = client.get(asked.headers["location"])
    then = re.search(r'name="next" value="([^"]+)"', sign_in.text)[1]
    answer = client.post("/ui/sign-in", data={"token": f" {TOKEN}\n", "next": then})
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui/tries/a?b=%2F")
    assert client.get("/ui/tries/a").status_code == 200


def test_the_cookie_is_for_the_pages_alone_and_no_script_reads_it(client: TestClient) -> None:
    cookie = client.post("/ui/sign-in", data={"token": TOKEN}).headers["set-cookie"].lower()
    assert all(part in cookie for part in ("httponly", "samesite=strict", "path=/ui", f"max-age={SESSION_S}"))
    assert TOKEN not in cookie


@pytest.mark.parametrize("token", ["", "secre", "secret2", "\udcff", "séc"])
def test_a_wrong_token_signs_nobody_in(client: TestClient, token: str) -> None:
    answer = client.post("/ui/sign-in", content=f"token={token}".encode("utf-8", "surrogateescape"), headers=FORM)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def test_guesses_at_the_sign_in_are_answered_later_each_time_and_count_with_those_at_the_api(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(wrong_tokens, "sleep", sleep)
    before = wrong_tokens.WRONG._value.get()
    for number in range(3):
        assert client.post("/ui/sign-in", data={"token": f"guess-{number}"}).status_code == 403
    assert client.get("/v1/jobs", headers={"Authorization": "Bearer guess-3"}).status_code == 401
    assert client.post("/ui/sign-in", data={"token": TOKEN}).status_code == 303
    assert waits == [0.05, 0.1, 0.2, 0.4]
    assert wrong_tokens.WRONG._value.get() - before == 4


@pytest.mark.parametrize(
    "then",
    [
        "//evil.example/",
        "https://evil.example/",
        "/ui",
        "/v1/jobs",
        "/ui/\\evil",
        "javascript:alert(1)",
        "",
        "/ui/sign-in?next=a",
    ],
)
def test_the_sign_in_leads_to_no_other_place(client: TestClient, then: str) -> None:
    assert client.post("/ui/sign-in", data={"token": TOKEN, "next": then}).headers["location"] == "/ui/"


def test_a_form_is_carried_out_once_signed_in_and_with_the_proof_of_its_session(client: TestClient) -> None:
    csrf = signed_in(client)
    answer = client.post("/ui/tries/x", data={"csrf": csrf, "reason": ["a", "b"]})
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui/jobs?done=x")
    assert [(form["csrf"], form["reason"]) for form in SENT] == [([csrf], ["a", "b"])]


@pytest.mark.parametrize("csrf", [None, "", "0" * 64])
def test_a_form_of_another_page_is_refused(client: TestClient, csrf: str | None) -> None:
    signed_in(client)
    answer = client.post("/ui/tries/x", data={"reason": "a"} | ({} if csrf is None else {"csrf": csrf}))
    assert (answer.status_code, "FORM_IS_OLD" in answer.text, SENT) == (403, True, [])


def test_a_form_of_another_origin_is_refused(client: TestClient) -> None:
    csrf = signed_in(client)
    answer = client.post("/ui/tries/x", data={"csrf": csrf}, headers={"Origin": "http://evil.example"})
    assert (answer.status_code, SENT) == (403, [])


def test_who_is_not_signed_in_changes_nothing(client: TestClient) -> None:
    csrf = signed_in(client)
    client.post("/ui/sign-out", data={"csrf": csrf})
    answer = client.post("/ui/tries/x", data={"csrf": csrf})
    assert (answer.status_code, "Sign in" in answer.text, SENT) == (401, True, [])


def test_a_copy_of_the_cookie_is_of_no_use_after_the_sign_out(client: TestClient) -> None:
    csrf = signed_in(client)
    kept = dict(client.cookies)
    client.post("/ui/sign-out", data={"csrf": csrf})
    client.cookies.update(kept)
    assert client.post("/ui/tries/x", data={"csrf": csrf}).status_code == 401


def test_the_cookie_of_an_encrypted_page_goes_to_no_other(client: TestClient) -> None:
    def cookie(scheme: str) -> str:
        answer = client.post(f"{scheme}://{LISTEN}/ui/sign-in", data={"token": TOKEN})
        return answer.headers["set-cookie"].lower()

    assert ("secure" in cookie("https"), "secure" in cookie("http")) == (True, False)


def test_a_session_ends_by_itself_and_cant_be_made_longer(client: TestClient, monkeypatch) -> None:
    csrf = signed_in(client)
    name, value = next(iter(client.cookies.items()))
    expiry, rest = value.split(".", 1)
    later = time.time() + SESSION_S + 1
    monkeypatch.setattr(time, "time", lambda: later)
    assert client.post("/ui/tries/x", data={"csrf": csrf}).status_code == 401
    client.cookies.clear()
    client.cookies.set(name, f"{int(expiry) + 9999}.{rest}")
    assert client.post("/ui/tries/x", data={"csrf": csrf}).status_code == 401


def test_another_process_with_the_token_knows_the_session(client: TestClient, tmp_path: Path) -> None:
    csrf = signed_in(client)
    (tmp_path / "other").mkdir()
    other = Api(tmp_path / "other")
    add_ui(other.app, {0: other.app.state.context}, TOKEN)
    beside = TestClient(other.app, f"http://{LISTEN}", follow_redirects=False, cookies=dict(client.cookies))
    assert beside.post("/ui/tries/x", data={"csrf": csrf}).status_code == 303
    other.close()


def test_history_has_no_sign_in(tmp_path: Path) -> None:
    api = Api(tmp_path)
    add_ui(api.app, {0: api.app.state.context}, None)
    client = TestClient(api.app, f"http://{LISTEN}", follow_redirects=False)
    assert "Sign in" not in client.get("/ui/jobs").text
    assert client.get("/ui/sign-in").status_code == 405
    assert client.post("/ui/sign-in", data={"token": TOKEN}).status_code == 405
    api.close()
