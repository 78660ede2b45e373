"""Sign-ins of this user at cells: `DATA/sign-ins`, a file (0600) for each address, which `paceline login` writes.

The token in it is renewed when it ends. It is shown over HTTPS, or to this machine: a server can't prove that it may
see it, as it can with the token of its cell.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from paceline.client.errors import Unreachable, WrongToken
from paceline.client.signed_in import SignedIn, may_be_shown_to

FOLDER = "sign-ins"
EARLY_S = 30.0
"""So long before its end a token is renewed."""


def file_of(data: Path, server: str) -> Path:
    """The file of the sign-in at a server, which is named by its URL."""
    return data / FOLDER / f"{quote(server.rstrip('/'), safe='')}.json"


def read(file: Path) -> SignedIn | None:
    """The sign-in in a file; None where there is none."""
    try:
        content = json.loads(file.read_text())
        return SignedIn(*(str(content[name]) for name in SignedIn._fields))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(file: Path, signed_in: SignedIn) -> None:
    """Writes a sign-in, which nobody else can read."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    beside = file.with_suffix(f".{os.getpid()}")
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as written:
        json.dump(signed_in._asdict(), written)
    beside.replace(file)


def forget(file: Path) -> bool:
    """Removes a sign-in; whether there was one."""
    with suppress(FileNotFoundError):
        file.unlink()
        return True
    return False


def token_for(data: Path, server: str) -> str | None:
    """The token of the sign-in at a server, renewed where it ends; None: nobody is signed in there. Raises
    `WrongToken`, `Unreachable`.
    """
    file = file_of(data, server)
    signed_in = read(file)
    if signed_in is None or not may_be_shown_to(server):
        return None
    if signed_in.until_s - time.time() > EARLY_S:
        return signed_in.token
    with _locked(file):
        signed_in = read(file) or signed_in  # another command may have renewed it meanwhile
        if signed_in.until_s - time.time() <= EARLY_S:
            signed_in = _renewed(signed_in, server)
            keep(file, signed_in)
    return signed_in.token


def _renewed(signed_in: SignedIn, server: str) -> SignedIn:
    from paceline.client.device_flow import IssuerUnreachable, Refusal, renewed

    try:
        return renewed(signed_in)
    except Refusal as refusal:
        raise WrongToken(
            f"Your sign-in at {server} has ended ({refusal}). Sign in again with `paceline login --server {server}`, "
            f"or forget it with `paceline logout --server {server}`."
        ) from refusal
    except IssuerUnreachable as error:
        if signed_in.until_s > time.time():
            return signed_in
        raise Unreachable(f"Your sign-in at {server} can't be renewed: {error}. Trying again is safe.") from error


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Renews one at a time: an issuer may take a refresh token only once."""
    with open(os.open(file.with_suffix(".lock"), os.O_WRONLY | os.O_CREAT, 0o600), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
