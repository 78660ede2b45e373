"""The issuer at which users of a cell sign in, from the settings of a process."""

import asyncio
from collections.abc import Callable

from paceline.services.data_folder import CannotStart
from paceline.services.settings import OidcPart, WrongSettings
from projections.access.issuer import Issuer
from projections.access.oidc import FETCH_S, discovered, fetch_json
from projections.access.sign_in import SignIn


def sign_in_of(part: OidcPart, token: str, say: Callable[[str], object]) -> SignIn | None:
    """The sign-in of a cell; None: it has no issuer. `say`: told where the issuer can't be asked yet, which ends
    nothing. Raises `CannotStart`, `WrongSettings`.
    """
    if not part.issuer:
        if part.client_id or part.audience or part.client_secret_file:
            raise WrongSettings(["sign-in needs an issuer: --oidc-issuer is missing"])
        return None
    if not part.client_id and not part.audience:
        raise WrongSettings(["tokens of an issuer are for somebody: give --oidc-client-id or --oidc-audience"])
    issuer = Issuer(
        part.issuer,
        part.audience,
        part.groups_claim,
        part.subject_claim,
        part.client_id,
        _secret(part),
        part.scopes,
    )
    _look(issuer.url, say)
    return SignIn(issuer, token)


def _secret(part: OidcPart) -> str:
    if part.client_secret_file is None:
        return ""
    try:
        secret = part.client_secret_file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CannotStart(f"the secret of the client can't be read: {part.client_secret_file}: {error}") from error
    if not secret:
        raise CannotStart(f"the secret of the client can't be read: {part.client_secret_file} is empty")
    return secret


def _look(issuer: str, say: Callable[[str], object]) -> None:
    """Asks the issuer what it is. Raises `CannotStart` where another one answers."""

    async def look() -> None:
        async with asyncio.timeout(FETCH_S):
            await discovered(issuer, fetch_json)

    try:
        asyncio.run(look())
    except OSError as error:
        why = str(error) or f"no answer in {FETCH_S:g} s"
        say(f"the issuer {issuer} can't be asked ({why}); nobody can sign in until it answers")
    except ValueError as error:
        raise CannotStart(f"--oidc-issuer: {error}") from error
