"""The device flow (RFC 8628): the user signs in by a browser anywhere; the command asks the issuer for the token."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx2

from paceline.client.signed_in import SignedIn, may_be_shown_to

GRANT = "urn:ietf:params:oauth:grant-type:device_code"
TIMEOUT_S = 10.0
INTERVAL_S, LATER_S = 5.0, 5.0
"""The pause between two questions where the issuer names none, and by how much it grows when that is too short."""
EXPIRES_S = 600.0
Show = Callable[[str, str], None]
"""Shows the user the address of a page, and the code to enter there; empty: the address has it."""


class Refusal(Exception):
    """The issuer gives no token; the message has its reason."""


class IssuerUnreachable(Exception):
    """The issuer does not answer, or not as one."""


def sign_in(issuer: str, client_id: str, scopes: str, show: Show) -> SignedIn:
    """Signs a user in. Raises `Refusal`, `IssuerUnreachable`."""
    with httpx2.Client(timeout=TIMEOUT_S) as client:
        description = _description(client, issuer)
        begins = description.get("device_authorization_endpoint")
        if not isinstance(begins, str):
            raise Refusal("it has no device flow")
        begun = _post(client, begins, {"client_id": client_id, "scope": scopes})
        if "device_code" not in begun:
            raise Refusal(_reason(begun))
        whole = begun.get("verification_uri_complete")
        show(str(whole or begun.get("verification_uri", "")), str(begun.get("user_code", "")))
        form = {"grant_type": GRANT, "device_code": str(begun["device_code"]), "client_id": client_id}
        answer = _poll(client, _token_endpoint(description), form, begun)
    return _signed_in(issuer, client_id, answer, "")


def renewed(signed_in: SignedIn) -> SignedIn:
    """The same sign-in with a new token. Raises `Refusal`, `IssuerUnreachable`."""
    if not signed_in.refresh_token:
        raise Refusal("the issuer lets nobody renew it")
    form = {
        "grant_type": "refresh_token",
        "refresh_token": signed_in.refresh_token,
        "client_id": signed_in.client_id,
    }
    with httpx2.Client(timeout=TIMEOUT_S) as client:
        answer = _post(client, _token_endpoint(_description(client, signed_in.issuer)), form)
    return _signed_in(signed_in.issuer, signed_in.client_id, answer, signed_in.refresh_token)


def _poll(client: httpx2.Client, address: str, form: Mapping[str, str], begun: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of the issuer, once the user has signed in. Raises `Refusal`, `IssuerUnreachable`."""
    pause_s = _seconds(begun.get("interval"), INTERVAL_S)
    end = time.monotonic() + _seconds(begun.get("expires_in"), EXPIRES_S)
    while time.monotonic() < end:
        time.sleep(pause_s)
        answer = _post(client, address, form)
        if answer.get("error") == "slow_down":
            pause_s += LATER_S
        elif answer.get("error") != "authorization_pending":
            return answer
    raise Refusal("nobody signed in in time")


def _description(client: httpx2.Client, issuer: str) -> dict[str, Any]:
    if not may_be_shown_to(issuer):
        raise Refusal(f"the issuer {issuer} has no HTTPS")
    description = _json(client, "GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration")
    if str(description.get("issuer", "")).rstrip("/") != issuer.rstrip("/"):
        raise Refusal(f"the issuer at {issuer} names itself otherwise")
    return description


def _token_endpoint(description: Mapping[str, Any]) -> str:
    return str(description.get("token_endpoint", ""))


def _post(client: httpx2.Client, address: str, form: Mapping[str, str]) -> dict[str, Any]:
    return _json(client, "POST", address, data=dict(form))


def _json(client: httpx2.Client, method: str, address: str, **options: Any) -> dict[str, Any]:
    try:
        response = client.request(method, address, **options)
        answer = response.json()
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise IssuerUnreachable(f"{address} does not answer ({str(error) or type(error).__name__})") from error
    except (ValueError, RecursionError) as error:
        raise IssuerUnreachable(f"{address} answers {response.status_code}, and no JSON") from error
    if not isinstance(answer, dict) or response.status_code >= 500:
        raise IssuerUnreachable(f"{address} answers {response.status_code}")
    return answer


def _signed_in(issuer: str, client_id: str, answer: Mapping[str, Any], refresh_token: str) -> SignedIn:
    if answer.get("error"):
        raise Refusal(_reason(answer))
    if not isinstance(answer.get("id_token"), str):
        raise Refusal("it gave no ID token")
    return SignedIn(issuer, client_id, answer["id_token"], str(answer.get("refresh_token") or refresh_token))


def _reason(answer: Mapping[str, Any]) -> str:
    texts = (str(answer.get(name) or "") for name in ("error", "error_description"))
    reason = ": ".join(each for each in texts if each) or "it gave no reason"
    return "".join(each if each.isprintable() else " " for each in reason[:300])


def _seconds(value: object, otherwise: float) -> float:
    return float(value) if isinstance(value, int | float) and value > 0 else otherwise
