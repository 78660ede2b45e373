"""Blames an answer that can't be understood on who gave it, where nothing says that a cell did."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from paceline.client.errors import PacelineError

if TYPE_CHECKING:
    from paceline.client.client import Client

UNFORESEEN = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError)
"""An answer of another form than a cell gives brings these about, wherever it is read."""
_CLIENT = "paceline.client"


def asking(client: "Client") -> None:
    """Notes the client by which a command asks."""
    if ctx := click.get_current_context(silent=True):
        ctx.meta[_CLIENT] = client


@contextmanager
def understood(ctx: click.Context) -> Iterator[None]:
    """Raises `Unreachable` for what is unforeseen inside, where the client of the command has asked somebody else."""
    try:
        yield
    except PacelineError:
        raise
    except UNFORESEEN as error:
        client: Client | None = ctx.meta.get(_CLIENT)
        stranger = client and client.stranger
        if not stranger:
            raise
        raise stranger from error
