"""Questions over HTTP to processes that tests have started."""

from functools import cache
from typing import Any

import httpx2


@cache
def _client() -> httpx2.Client:
    """One for all: making one takes twenty times as long as a question. Who is asked may be killed and come again, so
    no connection is kept.
    """
    return httpx2.Client(trust_env=False, verify=False, limits=httpx2.Limits(max_keepalive_connections=0))


def ask(url: str, method: str = "GET", timeout: float = 30.0, **more: Any) -> httpx2.Response:
    """An answer; seconds of patience. Raises `httpx2.TransportError` where there is none."""
    return _client().request(method, url, timeout=timeout, **more)
