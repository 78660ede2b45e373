"""The environment variables in which a task finds its ports."""

import re
from collections.abc import Sequence

_OTHER = re.compile("[^A-Z0-9]")


def variable_of(port: str) -> str:
    """The variable of a port's name: `http-admin` stands in PACELINE_PORT_HTTP_ADMIN."""
    return f"PACELINE_PORT_{_OTHER.sub('_', port.upper())}"


def sharing(ports: Sequence[str]) -> str:
    """The first two names whose ports would stand in one variable, as a sentence; empty: there are none."""
    first: dict[str, str] = {}
    for port in ports:
        other = first.setdefault(variable_of(port), port)
        if other != port:
            return f"{other[:80]!r} and {port[:80]!r} would share the variable {variable_of(port)[:100]}"
    return ""
