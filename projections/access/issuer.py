"""An OIDC issuer, as a cell knows it."""

from typing import NamedTuple


class Issuer(NamedTuple):
    """An issuer, and how its tokens are read: they must be for `audience` or for the client that this cell is there,
    either empty where there is none. `client_secret`: empty for a public client; `scopes`: those that a sign-in asks
    for; `groups_claim`: a list.
    """

    url: str
    audience: str
    groups_claim: str = "groups"
    subject_claim: str = "sub"
    client_id: str = ""
    client_secret: str = ""
    scopes: str = "openid"
