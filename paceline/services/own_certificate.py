"""The certificate that an agent shows: one of its user's, or one of the cell's CA, for which it joins where need be."""

import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from hostagent.agent_state import AgentFault
from hostagent.host_certificate import HostCertificate
from hostagent.joining import join
from paceline.client.tls import FreshContext, load_own, state_of
from paceline.services.settings import Settings

Trusts = Callable[[], ssl.SSLContext]
"""Makes a context by which gateways are verified."""


class OwnCertificate(NamedTuple):
    """The host of an agent, None: not said; the context that shows its certificate; and that one, where the cell gave
    it.
    """

    host_id: str | None
    tls: FreshContext
    certificate: HostCertificate | None = None


def own_certificate(
    settings: Settings, urls: Sequence[str], folder: Path, trusts: Trusts, say: Callable[[str], object]
) -> OwnCertificate | None:
    """The certificate of an agent; None: it has a token only. Raises `AgentFault`, `OSError`."""
    part, files = settings.agent, settings.tls
    token = part.join.get_secret_value() if part.join is not None else ""
    certificate = HostCertificate(folder, token)
    if not (files.cert or files.key or certificate.host_id):
        if token:
            raise AgentFault("This is no join token: `paceline host invite HOST` gives one.")
        return None
    if not urls or not all(url.startswith("https:") for url in urls):
        raise AgentFault("An agent shows its certificate over TLS: name its gateways with --server https://HOST:PORT.")
    if files.cert is not None and files.key is not None:
        return OwnCertificate(part.host_id, _showing(trusts, files.cert, files.key, say))
    if files.cert or files.key:
        raise AgentFault("A certificate and its key belong together: name both, --tls-cert and --tls-key.")
    if part.host_id not in (None, certificate.host_id):
        raise AgentFault(
            f"The certificate or token is of host {certificate.host_id}, not {part.host_id}: see --host-id."
        )
    if certificate.must_join:
        join(certificate, token, urls, trusts(), say)
    shows = _showing(trusts, certificate.file, certificate.file, say)
    return OwnCertificate(certificate.host_id, shows, certificate)


def _showing(trusts: Trusts, cert: Path, key: Path, say: Callable[[str], object]) -> FreshContext:
    """A context that shows a certificate, and follows its files. Raises `TlsFault`."""

    def made() -> ssl.SSLContext:
        context = trusts()
        load_own(context, cert, key)
        return context

    return FreshContext(made, lambda: state_of((cert, key)), say)
