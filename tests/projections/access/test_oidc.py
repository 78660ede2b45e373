"""Tokens of an OIDC issuer, with time that passes when the test says so, and those of a real one."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import httpx2
import oidc_provider_mock
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey
from starlette.datastructures import Headers

from projections.access.identity import Identity
from projections.access.issuer import Issuer
from projections.access.oidc import OLD_S, PAUSE_S, REFRESH_S, SKEW_S, IssuerKeys, OidcProver, fetch_json
from projections.api.problems import Problem

pytestmark = pytest.mark.anyio
URL = "https://issuer.example"
OLD, NEW = ECKey.generate_key("P-256", {"kid": "old"}), ECKey.generate_key("P-256", {"kid": "new"})


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Provider:
    """An issuer that counts how often it is asked for its keys, and its cell."""

    def __init__(self, *keys: Any) -> None:
        self.keys = list(keys)
        self.fetches = 0
        self.is_away = False
        self.kind: str | None = None
        """The type that tokens name."""
        self.may_answer = asyncio.Event()
        """An issuer that is asked answers once it is set."""
        self.may_answer.set()
        self.now_s = 1_000_000.0
        self.prover = OidcProver(
            Issuer(URL, "programs", client_id="paceline"),
            IssuerKeys(URL, self.fetch, lambda: self.now_s),
            lambda: self.now_s,
        )

    async def fetch(self, address: str) -> dict[str, Any]:
        if self.is_away:
            raise ConnectionError("away")
        if address != f"{URL}/jwks":
            return {"issuer": URL, "jwks_uri": f"{URL}/jwks"}
        self.fetches += 1
        await self.may_answer.wait()
        return {"keys": [key.as_dict(private=False) for key in self.keys]}

    def token(self, key: Any = OLD, alg: str = "ES256", kid: str = "", **claims: Any) -> str:
        now = int(self.now_s)
        body = {"iss": URL, "aud": "paceline", "sub": "ann", "groups": ["maps"], "iat": now, "exp": now + 600}
        header = {"alg": alg, "kid": kid or key.kid} | ({} if self.kind is None else {"typ": self.kind})
        return jwt.encode(header, {k: v for k, v in (body | claims).items() if v is not None}, key, algorithms=[alg])

    async def code(self, token: str) -> str:
        """The code of the refusal of a token; empty: it is taken."""
        try:
            await self.prover.prove({}, Headers({"authorization": f"Bearer {token}"}))
        except Problem as problem:
            return problem.code
        return ""


async def test_a_token_proves_its_subject_and_groups() -> None:
    provider = Provider(OLD)
    found = await provider.prover.prove({}, Headers({"authorization": f"Bearer {provider.token()}"}))
    assert found == Identity("ann", frozenset(["maps"]), "oidc", URL)


async def test_what_is_no_such_token_is_left_to_others_and_asks_nobody() -> None:
    provider = Provider(OLD)
    for headers in ({}, {"authorization": "Bearer pct_a_b"}, {"authorization": "Basic eyJ.e.e"}):
        assert await provider.prover.prove({}, Headers(headers)) is None
    assert provider.fetches == 0


@pytest.mark.parametrize(
    ("claims", "code"),
    [
        ({"exp": 1_000_000 - SKEW_S + 1}, ""),
        ({"exp": 1_000_000 - SKEW_S}, "TOKEN_EXPIRED"),
        ({"exp": None}, "TOKEN_EXPIRED"),
        ({"exp": float("nan")}, "TOKEN_EXPIRED"),
        ({"exp": float("inf")}, "TOKEN_EXPIRED"),
        ({"exp": 10**400}, "TOKEN_EXPIRED"),
        ({"exp": 1_000_600.5}, "TOKEN_EXPIRED"),
        ({"exp": "1000600"}, "TOKEN_EXPIRED"),
        ({"exp": True}, "TOKEN_EXPIRED"),
        ({"iat": 999_999.5}, ""),
        ({"nbf": float("nan")}, "TOKEN_NOT_YET_VALID"),
        ({"iat": "now"}, "TOKEN_NOT_YET_VALID"),
        ({"nbf": 1_000_000 + SKEW_S}, ""),
        ({"nbf": 1_000_000 + SKEW_S + 1}, "TOKEN_NOT_YET_VALID"),
        ({"aud": "other"}, "TOKEN_AUDIENCE_WRONG"),
        ({"aud": ["other", "paceline"], "azp": "paceline"}, ""),
        ({"aud": ["other", "paceline"], "azp": "other"}, "TOKEN_AUDIENCE_WRONG"),
        ({"aud": ["other", "paceline"]}, "TOKEN_AUDIENCE_WRONG"),
        ({"azp": "other"}, "TOKEN_AUDIENCE_WRONG"),
        ({"aud": ["other", "programs"], "azp": "other"}, ""),
        ({"aud": "programs"}, ""),
        ({"events": {"http://schemas.openid.net/event/backchannel-logout": {}}}, "TOKEN_TYPE_WRONG"),
        ({"aud": None}, "TOKEN_AUDIENCE_WRONG"),
        ({"iss": "https://other.example"}, "TOKEN_ISSUER_WRONG"),
        ({"sub": ""}, "TOKEN_SUBJECT_MISSING"),
        ({"sub": "a\u202eb"}, "TOKEN_SUBJECT_MISSING"),
        ({"sub": 7}, "TOKEN_SUBJECT_MISSING"),
        ({"groups": "maps"}, ""),
    ],
)
async def test_each_fault_of_a_token_has_its_code(claims, code) -> None:
    provider = Provider(OLD)
    assert await provider.code(provider.token(**claims)) == code


async def test_only_the_issuers_own_signature_counts() -> None:
    provider = Provider(OLD)
    secret = OctKey.generate_key(256, {"kid": "old"})
    other = ECKey.generate_key("P-256", {"kid": "old"})
    assert await provider.code(provider.token(other)) == "TOKEN_NOT_GENUINE"
    assert await provider.code(provider.token(secret, "HS256", "old")) == "TOKEN_ALGORITHM_WRONG"
    assert await provider.code(provider.token().rpartition(".")[0] + ".") == "TOKEN_NOT_GENUINE"
    unsigned = "eyJhbGciOiJub25lIn0." + provider.token().split(".")[1] + "."
    assert await provider.code(unsigned) == "TOKEN_ALGORITHM_WRONG"


async def test_the_first_token_by_a_new_key_passes_at_once() -> None:
    provider = Provider(OLD)
    assert await provider.code(provider.token()) == ""
    provider.now_s += 1
    provider.keys.append(NEW)
    assert await provider.code(provider.token(NEW)) == ""
    assert provider.fetches == 2


async def test_a_thousand_unknown_keys_cost_the_issuer_three_fetches_and_valid_tokens_wait_for_none() -> None:
    provider = Provider(OLD)
    assert await provider.code(provider.token()) == ""
    before, waiting = provider.fetches, list[asyncio.Task[str]]()
    for number in range(1000):
        provider.now_s += 0.01
        waiting.append(asyncio.create_task(provider.code(provider.token(kid=f"random-{number}"))))
        await asyncio.sleep(0)
        if number % 200 == 0:
            provider.may_answer.clear()
            waiting.append(asyncio.create_task(provider.code(provider.token(kid=f"other-{number}"))))
            await asyncio.sleep(0)
        assert without_waiting(provider.code(provider.token())) == ""
        if number % 200 == 150:
            provider.may_answer.set()
            await asyncio.gather(*waiting)
    assert {task.result() for task in waiting} == {"TOKEN_KEY_UNKNOWN"}
    assert 1 <= provider.fetches - before <= 3


def without_waiting(code: Coroutine[Any, Any, str]) -> str:
    """The result of a coroutine that awaits nothing. Fails where it waits."""
    try:
        code.send(None)
    except StopIteration as end:
        return str(end.value)
    pytest.fail("it waits")


async def test_those_who_wait_for_one_answer_dont_lengthen_the_pause_before_the_next() -> None:
    provider = Provider(OLD)
    assert await provider.code(provider.token()) == ""
    provider.now_s += 1
    await asyncio.gather(*(provider.code(provider.token(kid=f"random-{number}")) for number in range(50)))
    provider.keys.append(NEW)
    provider.now_s += 2 * PAUSE_S
    assert await provider.code(provider.token(NEW)) == ""


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("JWT", ""),
        ("at+jwt", ""),
        ("application/at+jwt", ""),
        (None, ""),
        ("logout+jwt", "TOKEN_TYPE_WRONG"),
        ("secevent+jwt", "TOKEN_TYPE_WRONG"),
        ("dpop+jwt", "TOKEN_TYPE_WRONG"),
    ],
)
async def test_tokens_of_other_types_are_refused(kind, code) -> None:
    provider = Provider(OLD)
    provider.kind = kind
    assert await provider.code(provider.token()) == code


async def test_a_flood_at_one_moment_is_one_fetch() -> None:
    provider = Provider(OLD)
    await provider.code(provider.token())
    provider.now_s += 1
    provider.keys.append(NEW)
    tokens = [provider.token(NEW) for _ in range(50)]
    assert set(await asyncio.gather(*map(provider.code, tokens))) == {""}
    assert provider.fetches == 2


async def test_known_keys_serve_while_the_issuer_is_away_and_nobody_waits_for_it() -> None:
    provider = Provider(OLD)
    assert await provider.code(provider.token()) == ""
    provider.is_away = True
    for _ in range(360):
        provider.now_s += 10
        assert without_waiting(provider.code(provider.token())) == ""
        await settled()
    provider.is_away, provider.keys = False, [NEW]
    provider.now_s += 10
    assert await provider.code(provider.token(NEW)) == "", "and new ones as soon as it is back"
    assert await provider.code(provider.token()) == "TOKEN_KEY_UNKNOWN"


async def test_a_token_after_a_long_pause_waits_once_for_an_issuer_that_is_away() -> None:
    provider = Provider(OLD)
    assert await provider.code(provider.token()) == ""
    provider.is_away = True
    provider.now_s += 3600
    assert await provider.code(provider.token()) == ""
    provider.now_s += PAUSE_S
    assert without_waiting(provider.code(provider.token())) == ""
    provider.is_away, provider.keys = False, [NEW]
    await settled()
    provider.now_s += REFRESH_S
    assert await provider.code(provider.token()) == "TOKEN_KEY_UNKNOWN", "it is asked again before old keys are used"


async def settled() -> None:
    """Lets a fetch end that began in the background."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_without_any_key_the_issuer_is_said_to_be_away() -> None:
    provider = Provider(OLD)
    provider.is_away = True
    assert await provider.code(provider.token()) == "ISSUER_AWAY"


@pytest.mark.parametrize("quiet_s", [OLD_S, 10 * OLD_S])
async def test_a_withdrawn_key_is_refused_once_the_keys_are_old_though_nobody_asked_meanwhile(quiet_s) -> None:
    provider = Provider(OLD)
    assert await provider.code(provider.token()) == ""
    provider.keys = [NEW]
    provider.now_s += quiet_s
    assert await provider.code(provider.token()) == "TOKEN_KEY_UNKNOWN"


async def test_keys_are_fetched_in_the_background_before_they_are_old() -> None:
    provider = Provider(OLD)
    assert await provider.code(provider.token()) == ""
    provider.keys = [NEW]
    provider.now_s += REFRESH_S
    assert await provider.code(provider.token()) == "", "nobody waits for it"
    await settled()
    assert await provider.code(provider.token()) == "TOKEN_KEY_UNKNOWN"


@pytest.mark.outside
async def test_a_real_issuer_proves_who_signed_in_there() -> None:
    with oidc_provider_mock.run_server_in_thread() as server:
        url = f"http://localhost:{server.server_port}"
        async with httpx2.AsyncClient() as browser:
            await browser.put(f"{url}/users/ann", json={"groups": ["maps"], "email": "ann@example.org"})
            asked = {
                "client_id": "paceline",
                "redirect_uri": "http://cell/cb",
                "response_type": "code",
                "scope": "openid",
            }
            seen = await browser.post(f"{url}/oauth2/authorize", params=asked, data={"sub": "ann"})
            code = httpx2.URL(seen.headers["location"]).params["code"]
            form = {"grant_type": "authorization_code", "code": code, "redirect_uri": asked["redirect_uri"]}
            answer = await browser.post(f"{url}/oauth2/token", data=form, auth=("paceline", "secret"))
        prover = OidcProver(Issuer(url, "paceline"), IssuerKeys(url, fetch_json))
        found = (await prover.proven(answer.json()["id_token"])).identity
        assert (found.subject, found.groups, found.credential) == ("ann", frozenset(["maps"]), url)
        own = RSAKey.generate_key(2048, {"kid": "x"})
        now = int(time.time())
        forged = jwt.encode(
            {"alg": "RS256", "kid": "x"}, {"iss": url, "aud": "paceline", "sub": "ann", "exp": now + 9}, own
        )
        with pytest.raises(Problem) as refused:
            await prover.proven(forged)
        assert refused.value.code == "TOKEN_KEY_UNKNOWN"
