"""A host joins a cell: its agent sends a key and a join token to a gateway, and gets a certificate, which it renews."""

import asyncio
import ssl
import time
from collections.abc import Callable, Sequence
from itertools import cycle

import httpx2
import msgspec

from hostagent.agent_state import AgentFault
from hostagent.host_certificate import LONGEST_WAIT_S, HostCertificate
from paceline.client.tls import why_tls

ASK_S = 15.0
"""So long a gateway may take to answer."""
WAIT_S = 1.0
FINAL = frozenset((403, 413, 422))
"""Answers that are the same however often it asks."""


def join(
    certificate: HostCertificate, token: str, urls: Sequence[str], tls: ssl.SSLContext, say: Callable[[str], object]
) -> None:
    """Gets the certificate of a host from one of the gateways at `urls`, as soon as one of them answers. Raises
    `AgentFault` where they refuse it, and `OSError`.
    """
    request, host_id = certificate.joining(), certificate.host_id
    headers = {"Authorization": f"Bearer {token}"}
    last = ""
    with httpx2.Client(verify=tls, trust_env=False, timeout=ASK_S, headers=headers) as client:
        for url in cycle(urls):
            try:
                response = client.post(f"{url.rstrip('/')}/v1/agents/{host_id}/certificates", content=request.pem)
            except (httpx2.HTTPError, OSError) as error:
                why = _why(error)
            else:
                if response.status_code == httpx2.codes.CREATED:
                    break
                why = _title(response)
                if response.status_code in FINAL:
                    raise AgentFault(f"{url} doesn't let this host join: {why}.")
            if why != last:
                say(f"host {host_id} has not joined yet: {url}: {why}. Tries again until it has.")
            last = why
            time.sleep(WAIT_S)
    certificate.joined(request, response.text)
    say(f"host {host_id} has joined; its certificate holds until {certificate.until()} and is renewed before")


async def renew(
    certificate: HostCertificate,
    client: httpx2.AsyncClient,
    url: Callable[[str], str],
    say: Callable[[str], object],
) -> None:
    """Renews a certificate in time, for ever; `url`: that of a path of its agent at the present gateway."""
    last = ""
    while True:
        await asyncio.sleep(min(LONGEST_WAIT_S, certificate.due_in_s()))
        if certificate.due_in_s():
            continue
        try:
            request = certificate.renewing()
            response = await client.post(url("certificates"), content=request.pem)
            if response.status_code == httpx2.codes.CREATED:
                certificate.keep(request, response.text)
                last = ""
                say(f"has renewed the certificate of this host, which holds until {certificate.until()}")
                continue
            why = _title(response)
        except (httpx2.HTTPError, OSError) as error:
            why = _why(error)
        if why != last:
            say(f"the certificate of this host isn't renewed: {why}. Tries again until it is.")
        last = why
        await asyncio.sleep(certificate.retry_s())


def _why(error: Exception) -> str:
    return why_tls(error) or str(error) or type(error).__name__


def _title(response: httpx2.Response) -> str:
    try:
        body = msgspec.json.decode(response.content)
        return f"{body['title']} ({body['code']})" if body.get("code") else str(body["title"])
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
        return f"it answered {response.status_code}"
