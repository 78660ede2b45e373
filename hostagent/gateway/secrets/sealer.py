"""Hands the secrets of runs to the hosts that are to start them: to no other host, and for no other run."""

from collections.abc import Iterator
from typing import NamedTuple

from events import run_tokens
from events.codes import Code
from events.records.parts import Secret
from events.signing_keys import SigningKeys
from hostagent.gateway.secrets.store import NoSuchSecret, SecretStore, StoreAway
from hostagent.run_record import RunKey
from hostagent.secret_messages import RunName, SealedSecret, SecretsOfRun


class Grant(NamedTuple):
    """The runs that a host asks for, with the secrets that their jobs name; none of a run that isn't to start there.
    `key`: the public half of the host's key.
    """

    cell: int
    host_id: str
    session: int
    key: bytes
    runs: tuple[tuple[RunKey, tuple[Secret, ...]], ...]
    tokens: frozenset[RunKey] = frozenset()
    """Those of them that get a token."""


def sealed_for(grant: Grant, store: SecretStore, keys: SigningKeys | None = None) -> list[SecretsOfRun]:
    """The secrets of all runs, with the tokens that `keys` sign. Waits for the store."""
    return [_of_run(grant, run, secrets, store, keys) for run, secrets in grant.runs]


def _of_run(
    grant: Grant, run: RunKey, secrets: tuple[Secret, ...], store: SecretStore, keys: SigningKeys | None
) -> SecretsOfRun:
    name = RunName(*run)
    try:
        sealed = list(_sealed(grant, run, secrets, store))
        if run in grant.tokens and keys is not None:
            sealed.append(_token(grant, run, keys))
        return SecretsOfRun(name, sealed)
    except NoSuchSecret as missing:
        return SecretsOfRun(name, missing=f"{Code.SECRET_MISSING}: {missing}")
    except (StoreAway, ValueError, OSError) as away:
        return SecretsOfRun(name, away=f"{Code.SECRETS_AWAY}: {away}")


def _token(grant: Grant, run: RunKey, keys: SigningKeys) -> SealedSecret:
    from hostagent.sealing import purpose, seal

    token = run_tokens.made(keys.current(), grant.cell, run).encode()
    about = purpose(grant.cell, grant.host_id, grant.session, run, run_tokens.SECRET, 0)
    return SealedSecret(run_tokens.SECRET, 0, seal(grant.key, about, token))


def _sealed(grant: Grant, run: RunKey, secrets: tuple[Secret, ...], store: SecretStore) -> Iterator[SealedSecret]:
    from hostagent.sealing import purpose, seal

    for secret in secrets:
        value = store.read(secret.name, secret.version, secret.digest)
        about = purpose(grant.cell, grant.host_id, grant.session, run, secret.name, secret.version)
        yield SealedSecret(secret.name, secret.version, seal(grant.key, about, value))
