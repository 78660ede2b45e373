"""Tokens of runs (decision 103): JWTs by EdDSA of a cell for its own API, verified by its public keys."""

import time
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from events.actors import OF_RUN
from events.signing_keys import RUN_TOKEN_S, SigningKey

if TYPE_CHECKING:
    from joserfc.jwk import OKPKey

ALGORITHM = "EdDSA"
"""The older name (RFC 8037) of what RFC 9864 calls Ed25519: more libraries of those who verify know it."""
warnings.filterwarnings("ignore", message="EdDSA is deprecated via RFC 9864")
ISSUER = "paceline"
"""The issuer of all of them, whichever the cell: keys tell cells apart, and the claim `cell`."""
AUDIENCE = "paceline-api"
SECRET = ".run-token"
"""The name of its file among the secrets of a run: none of these may be called so."""
VARIABLE = "PACELINE_TOKEN_FILE"
"""The variable in which a run finds the path of that file."""
SKEW_S = 60
"""So far the clocks of those who sign and those who verify may differ."""


class WrongRunToken(Exception):
    """A token isn't genuine, or not for here and now; the message says why."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


class NamedRun(NamedTuple):
    """The run that a genuine token names."""

    job_id: str
    instance: int
    run: int


def made(key: SigningKey, cell: int, run: tuple[str, int, int], now: Callable[[], float] = time.time) -> str:
    """The token of a run."""
    from joserfc import jwt

    job_id, instance, number = run
    at = int(now())
    claims = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": f"job/{job_id}/task/{instance}/run/{number}",
        "cell": cell,
        "iat": at,
        "exp": at + RUN_TOKEN_S,
    }
    return jwt.encode({"alg": ALGORITHM, "kid": key.name}, claims, _key(key, key.private), algorithms=[ALGORITHM])


def opened(token: str, keys: Sequence[SigningKey], cell: int, now: Callable[[], float] = time.time) -> NamedRun:
    """The run that a token names. Raises `WrongRunToken` where it isn't genuine, or not for this cell now."""
    from joserfc import errors, jwt
    from joserfc.jwk import KeySet

    try:
        claims = jwt.decode(token, KeySet([_key(each) for each in keys]), algorithms=[ALGORITHM]).claims
    except errors.InvalidKeyIdError as error:
        raise WrongRunToken("TOKEN_KEY_UNKNOWN", "the cell has no such key") from error
    except (errors.JoseError, ValueError, TypeError) as error:
        raise WrongRunToken("TOKEN_NOT_GENUINE", "the token was not signed by this cell") from error
    if claims.get("aud") != AUDIENCE or claims.get("iss") != ISSUER or claims.get("cell") != cell:
        raise WrongRunToken("TOKEN_AUDIENCE_WRONG", "the token is of a run of another cell")
    ends = claims.get("exp")
    if not isinstance(ends, int) or now() >= ends + SKEW_S:
        raise WrongRunToken("TOKEN_EXPIRED", f"the token has expired: read the file of {VARIABLE} again")
    subject = OF_RUN.fullmatch(str(claims.get("sub", "")))
    if subject is None:
        raise WrongRunToken("TOKEN_SUBJECT_MISSING", "the token names no run")
    return NamedRun(subject[1], int(subject[2]), int(subject[3]))


def key_set(keys: Sequence[SigningKey]) -> dict[str, Any]:
    """The public halves of keys, as a JWK set (RFC 7517)."""
    return {"keys": [{**_public(each), "alg": ALGORITHM, "use": "sig"} for each in keys]}


def _public(key: SigningKey) -> dict[str, str]:
    from joserfc.util import urlsafe_b64encode

    return {"kty": "OKP", "crv": "Ed25519", "kid": key.name, "x": urlsafe_b64encode(key.public).decode()}


def _key(key: SigningKey, private: bytes = b"") -> "OKPKey":
    from joserfc.jwk import OKPKey
    from joserfc.util import urlsafe_b64encode

    half = {"d": urlsafe_b64encode(private).decode()} if private else {}
    return OKPKey.import_key({**_public(key), **half})
